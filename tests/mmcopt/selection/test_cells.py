"""A grid of widths and lambdas: its paths, its table, its picture."""

import json

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import selection
from mmcopt.constraints import Sizes
from mmcopt.errors import ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian
from mmcopt.solving import executors

ari = mm.metrics.adjusted_rand_index


def test_a_grid_is_its_paths_and_prints_their_agreement(blobs):
    X, y = blobs
    grid = selection.grid(X, 3, widths=(0.5, 1.0), lams=(0.1, 1.0, 0.01), seed=3, members=2,
                          sizes=0.5)
    assert grid.widths == (0.5, 1.0) and grid.lams == (0.1, 1.0, 0.01)
    assert grid.scores.shape == (2, 3)
    found = [(r.formulation.kernel.width, r.formulation.lam) for r in grid.results]
    assert found == [(w, lam) for w in grid.widths for lam in grid.lams]
    assert all(r.formulation.sizes == Sizes(within=0.5) for r in grid.results)
    row = selection.path(LeastSquares(X, 3, kernel=Gaussian(width=0.5), sizes=0.5),
                         grid.lams, seed=3, members=2)
    assert all(np.array_equal(a.labels, b.labels)
               for a, b in zip(row, grid.results, strict=False))
    scores = selection.centrality([r.labels for r in grid.results])
    assert np.array_equal(grid.scores.ravel(), scores)
    assert grid.best is grid.results[int(np.argmax(scores))]
    assert ari(y, grid.best.labels) > 0.9
    lines = str(grid).splitlines()
    assert lines[0] == "agreement of each cell with all others (mean adjusted Rand index)"
    assert lines[1].split() == ["width", "\\", "lam", "0.1", "1", "0.01"]
    assert [line.split()[0] for line in lines[2:]] == ["0.5", "1"]
    assert lines[2].split()[1:] == [f"{s:.3f}" for s in grid.scores[0]]


def test_known_failure_agreement_is_not_truth():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((300, 2)), rng.standard_normal((20, 2)) + [7.0, 0.0]])
    y = np.repeat([0, 1], [300, 20])
    options = {"widths": (0.5, 1.0), "lams": (0.01, 0.1, 1.0)}
    grid = selection.grid(X, 2, **options)
    assert grid.scores.max() > 0.4 and ari(y, grid.best.labels) < 0.2  # all cut the large one
    told = selection.grid(X, 2, sizes=Sizes(exact=(300, 20)), **options)
    assert ari(y, told.best.labels) == 1.0  # what the notes of the estimator advise


@pytest.fixture(scope="module")
def table(blobs):
    return selection.grid(blobs[0], 3, widths=(1.0, 0.2), lams=(1.0, 1e-3), members=1, seed=0,
                          solver="Shaking", max_iter=30)


def test_a_grid_is_a_sequence_of_results(table):
    assert len(table) == 4 and list(table) == list(table.results)
    assert table[-1] is table.results[3] and table[1:3] == table.results[1:3]
    assert selection.most_central(table) is table.best


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_widths_side_by_side_give_the_same_cells(blobs, n_jobs, monkeypatch):
    monkeypatch.setattr(executors, "cores", lambda: 2)
    alone, shared = (selection.grid(blobs[0], 3, widths=(0.5, 1.0), lams=(0.1, 1.0), members=2,
                                    n_jobs=jobs) for jobs in (None, n_jobs))
    assert [r.point.tobytes() for r in alone] == [r.point.tobytes() for r in shared]
    with pytest.raises(ParameterError, match="grid: n_jobs must be None, -1 for as many as"):
        selection.grid(blobs[0], 3, n_jobs=-2)


def test_the_table_says_what_the_cells_are(table, tmp_path):
    assert [(r["width"], r["lam"]) for r in table.rows] == \
        [(1.0, 1.0), (1.0, 1e-3), (0.2, 1.0), (0.2, 1e-3)]
    for row, r in zip(table.rows, table, strict=True):
        assert (row["objective"], row["lower_bound"], row["gap"]) == \
            (r.objective, r.lower_bound, r.gap) and row["lower_bound"] <= row["objective"]
        assert row["status"] == str(r.status) and r.solver == "Shaking"
        assert row["consensus"] == ari(table.best.labels, r.labels)
        assert row["agreement"] == np.mean([ari(r.labels, o.labels) for o in table if o is not r])
    frame = table.to_frame()
    assert list(frame.columns) == list(table.COLUMNS) and len(frame) == 4
    assert frame["consensus"].tolist() == table.consensus.ravel().tolist()
    table.save(tmp_path / "grid.csv")
    lines = (tmp_path / "grid.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(table.COLUMNS) and len(lines) == 5
    assert float(lines[3].split(",")[2]) == table.objectives[1, 0]
    table.save(tmp_path / "grid.json")
    kept = json.loads((tmp_path / "grid.json").read_text(encoding="utf-8"))
    assert kept["rows"][2]["labels"] == table[2].labels.tolist()
    assert table[kept["best"]] is table.best and kept["widths"] == [1.0, 0.2]
    table.save(tmp_path / "grid.md")
    assert (tmp_path / "grid.md").read_text(encoding="utf-8").startswith("| width | lam |")
    with pytest.raises(ParameterError, match="the file name must end in .csv, .json, .md; got"):
        table.save(tmp_path / "grid.txt")


def test_heat_maps_show_the_figures_in_rising_order(table, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = table.plot()
    assert [ax.get_title() for ax in axes] == ["agreement with the most central cell (ARI)",
                                               "objective"]
    for ax, values in zip(axes, (table.consensus, table.objectives), strict=True):
        assert np.array_equal(ax.images[0].get_array(), values[::-1, ::-1])
        assert [t.get_text() for t in ax.get_xticklabels()] == ["0.001", "1"]
        assert [t.get_text() for t in ax.get_yticklabels()] == ["0.2", "1"]
        x, y = (int(v + 0.5) for v in ax.patches[0].get_xy())
        assert table[2 * (1 - y) + 1 - x] is table.best
        assert ax.texts[0].get_text() == f"{values[1, 1]:.3g}"
    axes[0].figure.savefig(tmp_path / "grid.png", dpi=50)
    with pytest.raises(ParameterError, match="this picture needs 2 axes"):
        table.plot(ax=axes[0])
    plt.close("all")


def test_the_time_is_that_of_all_widths(blobs, ticking):
    ticking(0.01)
    found = selection.grid(blobs[0], 3, widths=(0.5, 1.0), lams=(0.1, 1.0), time_limit=0.0)
    assert len(found) == 4 and all(r.violation == 0.0 for r in found)


@pytest.mark.parametrize("call, words", [
    (lambda p: selection.grid(p.X, 3, widths=()),
     "grid: widths must be a list of at least one; got ()."),
    (lambda p: selection.grid(p.X, 3, kernel="linear"),
     "grid: kernel and lam are what it varies, by widths= and lams=; for another kernel follow "
     "path(problem, lams)."),
    (lambda p: selection.grid(p.X, 3, members=0),
     "grid: members must be an integer at least 1; got 0."),
    (lambda p: selection.grid(p.X, 3, time_limit=-1),
     "grid: time_limit must be None or a finite number at least 0; got -1."),
])
def test_readable_refusals(problem, call, words):
    with pytest.raises(ParameterError) as e:
        call(problem)
    assert str(e.value) == words
