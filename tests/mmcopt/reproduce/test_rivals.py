"""The methods that papers compare with, by our own parts, and where other data are."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from mmcopt import datasets, registry, reproduce
from mmcopt.datasets.public_sets import PUBLISHED
from mmcopt.kernels import Gaussian
from mmcopt.metrics import purity
from mmcopt.registry import formulation
from mmcopt.reproduce import cpm3c, evommc, mkc, protocol, rivals, sgd_lmsvc, sources, umc_rls
from mmcopt.reproduce.rivals import Effort, Rival
from mmcopt.reproduce.tables import Figure, PaperTable, Reproduction
from mmcopt.solving import solve

SMALL = Effort(widths=(0.02, 0.3), runs=3, conic=100)


@pytest.fixture(scope="module")
def blobs():
    X, y = datasets.load("gaussians:n=60,distance=6,seed=0")
    return X, y


def agreement(y, rival):
    return rival.figure(lambda labels: purity(y, labels)).value


# ---------------------------------------------------------------- the methods


def test_a_normalised_cut_is_spectral_clustering_at_the_best_width(blobs):
    from sklearn.cluster import SpectralClustering

    X, y = blobs
    far = math.sqrt(((X[:, None] - X) ** 2).sum(axis=2).max())
    K = Gaussian(sigma=0.3 * far).fit(X).matrix()
    there = SpectralClustering(2, affinity="precomputed", random_state=0).fit(K).labels_
    found = rivals.normalized_cut(X, y, replace(SMALL, widths=(0.3,)))
    assert purity(there, found.labels[0]) == purity(found.labels[0], there) == 1.0 and found.chosen
    rings, inner = datasets.load("circles:n=100,noise=.02,factor=.3,seed=0")
    for widths in ((0.05, 1.0), (1.0, 0.05)):
        both = [agreement(inner, rivals.normalized_cut(rings, inner, replace(SMALL, widths=(w,))))
                for w in widths]
        assert min(both) < 0.8 < max(both) == 1.0
        assert agreement(inner, rivals.normalized_cut(rings, inner, replace(
            SMALL, widths=widths))) == 1.0


def test_iterative_svr_goes_on_from_k_means(blobs):
    X, y = blobs
    found = rivals.iterative_svr(X, y, SMALL)
    assert len(found.labels) == 3 and found.chosen and found.seconds > 0
    assert agreement(y, found) > 0.98
    many = rivals.iterative_svr(X, y, replace(SMALL, runs=rivals.TUNING + 2))
    assert len(many.labels) == rivals.TUNING + 2 and many.width == found.width
    X, y = datasets.load("digits:2,7")
    start = purity(y, rivals.kmeans_labels(X, 2, 0, "random"))
    assert start < 0.98 < agreement(y, rivals.iterative_svr(X, y, replace(
        SMALL, widths=(0.1, 1.0), runs=1)))


@pytest.mark.parametrize("kind", ["mmc", "gmmc"])
def test_relaxed_margins_are_rounded(kind, blobs):
    X, y = blobs
    found = rivals.relaxed_margin(formulation("CPM3C")(X, 2, beta=0.3), kind, SMALL)
    assert len(found.labels) == 1 and not found.chosen
    assert agreement(y, found) > 0.98


def test_the_lifted_margin_solves_the_relaxation_of_labels(blobs):
    problem = formulation("CPM3C")(blobs[0][::3], 2, beta=0.1)
    Y, relaxed = rivals.signs_lifted(problem), problem.relax("mmc")
    assert relaxed.violation(Y) < 1e-9
    there = solve(relaxed, registry.solver("Conic")(), bound=False)
    assert relaxed.objective(Y) == pytest.approx(there.objective, abs=1e-5)


@pytest.mark.parametrize("n, d, k, sparse, mmc, gmmc", [
    (90, 3, 2, False, "", ""), (120, 3, 2, False, "", "full"), (90, 3, 3, False, "large", ""),
    (90, 101, 2, False, "large", "large"),
    (90, 3, 2, True, "large", "large"), (2501, 2, 2, False, "large", "large"),
])
def test_words_for_relaxations_that_are_not_run(n, d, k, sparse, mmc, gmmc, monkeypatch):
    X = np.random.default_rng(0).standard_normal((n, d))
    problem = formulation("CPM3C")(csr_array(X) if sparse else X, k)
    monkeypatch.setattr(rivals, "_rounded", lambda *args: Rival([np.zeros(n, dtype=int)]))
    assert rivals.relaxed_margin(problem, "mmc", SMALL).word == mmc
    assert rivals.relaxed_margin(problem, "gmmc", SMALL).word == gmmc


def test_words_for_kernels_that_are_not_made():
    y = np.arange(rivals.SAMPLES + 1) % 2
    X = y[:, None] * 1.0
    assert rivals.normalized_cut(X, y, SMALL).word == rivals.LARGE
    assert rivals.iterative_svr(X, y, SMALL).word == rivals.LARGE
    assert rivals.iterative_svr(X[:9], np.arange(9) % 3, SMALL).word == rivals.BINARY


def test_figures_of_runs():
    runs = Rival([np.array([0, 1]), np.array([0, 0])], 0.5, chosen=True)
    assert runs.figure(lambda labels: float(labels.sum())) == Figure(0.5, 0.5, labels=True)
    assert Rival([np.array([1])]).figure(lambda labels: 3.0) == Figure(3.0)
    assert runs.time() == Figure(0.5)
    none = Rival(word="large")
    assert none.figure(len).word == none.time().word == "large"
    assert none.figure(len).show(2) == "large"
    mean = rivals.averaged([Figure(1.0, 0.5), Figure(2.0, labels=True)])
    assert mean == Figure(1.5, labels=True)
    assert rivals.averaged([Figure(1.0), none.time()]).word == "large"
    assert rivals.averaged([Figure(1.0, 0.5)]).sd == 0.5


def test_notes_are_of_what_is_shown():
    table = PaperTable(1, "an example", ("NC", "MMC", "GMMC"))
    table.here["set"] = {"NC": Figure(1.0), "MMC": Figure.absent("large"),
                         "GMMC": Figure.absent("full")}
    table.paper["set"] = {"GMMC": Figure(2.0)}
    heads = [note.split(":")[0] for note in rivals.notes(SMALL, [table])]
    assert heads == ["NC", "GMMC", "'full'"]  # no number of MMC, so it is not shown


def test_the_note_of_iterative_svr_says_what_was_picked_with_accuracies_in_view():
    table = PaperTable(1, "an example", ("SVR",), here={"one": {"SVR": Figure(1.0)}})
    (note,) = rivals.notes(SMALL, [table])
    assert "lam and tol were picked once, for all sets, with accuracies in view" in note


# ---------------------------------------------------------------- tables without holes


def blanks(report):
    return [(t.number, row, c) for t in report.tables for row, figures in t.here.items()
            for c in t.used() if c not in figures]


FEW = Effort(widths=(0.3,), runs=2, conic=0)


@pytest.mark.parametrize("paper, plan", [
    (cpm3c, cpm3c.Plan(starts=2, baseline=2, betas=(0.02,), sets=("Dig 1-7", "Dig 0689"),
                       rivals=FEW)),
    (mkc, mkc.Plan(starts=1, baseline=2, betas=(0.02,), sets=("digits1v7", "digits0689"),
                   rivals=FEW)),
    (evommc, replace(evommc.QUICK, widths=(1,), inverses=(2,), best_of=1, tuning=1, finalists=1,
                     more=0, fresh=1, timed=1, sets=("UCI digits 1-7",), rivals=FEW,
                     without_evo=("UCI digits 1-7",))),
    (umc_rls, replace(umc_rls.QUICK, sigmas=(0.4,), exponents=(-3,), starts=1, finalists=1, more=0,
                      fresh=1, baseline=1, sets=("Iris",), margin_sigmas=(0.3,),
                      margin_exponents=(-3,), seconds=0.3)),
    (sgd_lmsvc, replace(sgd_lmsvc.QUICK, gammas=(-5,), bounds=(-5,), finalists=1, more=1, fresh=1,
                        sets=("Iris",))),
], ids=lambda value: getattr(value, "__name__", "").rpartition(".")[2] or None)
def test_no_cell_is_blank(paper, plan):
    report = paper.reproduce(True, None, lambda line: None, plan)
    assert any(t.here for t in report.tables) and blanks(report) == []
    words = {f.word for t in report.tables for row in t.here.values() for f in row.values()
             if f.word and any(f is row.get(c) for c in t.used())}
    text = "\n".join(report.notes)
    assert all(f"'{word}'" in text for word in words)


def test_a_large_set_has_a_word_for_cutting_planes(monkeypatch):
    monkeypatch.setattr(umc_rls, "MOST_MARGINS", 100)
    assert umc_rls._margins(np.zeros((101, 2)), np.arange(101) % 2, umc_rls.QUICK) == ([], "large")
    assert {f.word for f in umc_rls._figures("CPMMC", [])} == {"large"}


# ---------------------------------------------------------------- where data are


def test_rows_without_data_say_where_they_are():
    for module in (cpm3c, mkc, umc_rls, sgd_lmsvc):
        for row in set(module.PRINTED) - set(module.SETS):
            assert sources.UNTOLD[row] in protocol.left_out(row, module.SETS, ())
    assert set(sources.UNTOLD) == {row for module in (cpm3c, mkc, umc_rls, sgd_lmsvc)
                                   for row in set(module.PRINTED) - set(module.SETS)}


def test_sets_that_are_nowhere_say_where_they_are(monkeypatch, tmp_path):
    monkeypatch.delenv("MMCOPT_DATA", raising=False)
    names = {name for source in cpm3c.SETS.values() for name in source.names} \
        | set(mkc.SETS.values()) | set(sgd_lmsvc.SETS.values()) \
        | {s.name for module in (evommc, umc_rls) for s in module.SETS.values()}
    fetched = {name for name, one in PUBLISHED.items() if one.files}
    for name in names:
        found = protocol.load(name)
        base = name.partition(":")[0]
        way = f"mmcopt data fetch {base} gets it" if base in fetched else "make it of"
        assert not isinstance(found, str) or f"; {way}" in found, name
    assert protocol.load("letter_AvB") == protocol.load("letter_AvB:0,1")
    assert not fetched & set(sources.NAMED)
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))
    (tmp_path / "glass.npz").write_bytes(b"no archive")
    assert "fetch mnist" in protocol.load("mnist") and "fetch" not in protocol.load("glass")


def test_rows_are_explained_once():
    table = PaperTable(1, "an example", ("A",))
    for row in ("one", "two", "three"):
        table.paper[row] = {"A": Figure(1.0)}
    table.missing = {"one": "it is gone.", "two": "it is gone", "three": "so is this"}
    text = str(Reproduction("mkc", True, [table], [], []))
    assert "Not run, it is gone: one, two." in text and "Not run, so is this: three." in text
    assert text.count("it is gone") == 1
    assert not any("here" in line.split() for line in text.splitlines())


def test_words_are_kept_in_json():
    figure = Figure.absent("large")
    stored = figure.to_dict()
    assert stored["word"] == "large" and math.isnan(stored["value"])
    assert Figure.from_dict(stored | {"value": None}).show(2) == "large"
    assert Figure.from_dict(Figure(1.5, 0.5, 3, True, "!").to_dict()) == \
        Figure(1.5, 0.5, 3, True, "!")
    assert reproduce.Figure is Figure
