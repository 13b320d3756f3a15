"""`Splitting` on Peng-Wei relaxations: the literal value, proofs of optimality, warm starts."""

import numpy as np
import pytest
from literal import solved

import mmcopt as mm
from mmcopt.bounds.ratio_lift import RatioLift
from mmcopt.formulations import KernelKMeans, LeastSquares
from mmcopt.formulations.relaxations import PengWeiCuts
from mmcopt.solvers import Splitting, splitting
from mmcopt.solvers.splitting import capped
from mmcopt.solving import run

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3)) + 2.0 * (np.arange(40) % 4).reshape(-1, 1)
RELAXED = PengWeiCuts.examples()


@pytest.mark.parametrize("i", [i if i in (2, 4) else pytest.param(i, marks=pytest.mark.slow)
                               for i in range(len(RELAXED))])
def test_the_value_is_that_of_the_literal_program(i):
    r = RELAXED[i]
    literal, found = solved(r.reference()), mm.solve(r, Splitting())
    assert found.lower_bound == pytest.approx(literal, rel=1e-5)
    assert found.objective == pytest.approx(literal, rel=1e-5)
    assert found.violation < 1e-6 and found.verify()


@pytest.mark.parametrize("k", [2, 4])
def test_a_climb_proves_the_best_labels_of_k_means(k):
    from sklearn.cluster import KMeans

    f = KernelKMeans(X, k)
    best = KMeans(k, n_init=20, random_state=0).fit(X)
    result = mm.certify(f, best.labels_, improve=True)
    assert result.status.name == "CERTIFIED" and result.certificate.kind == "branch-and-bound"
    assert result.objective <= best.inertia_ * (1 + 1e-9) and result.verify()
    root, = result.certificate.duals["duals"]  # nothing was left to branch on
    forged = {**root, "g": 10.0 * root["g"]}
    assert f.relax("peng-wei+cuts").bound(forged) <= result.objective


def test_cuts_only_where_the_relaxation_has_them():
    f = KernelKMeans(X, 4, sample_weight=rng.uniform(0.5, 2.0, 40), cannot_link=[(0, 4)])
    plain, cut = (mm.solve(f.relax(kind), Splitting()) for kind in ("peng-wei", "peng-wei+cuts"))
    assert set(plain.certificate.duals) == {"v", "N"} and (plain.history["cuts"] == 0).all()
    assert plain.lower_bound < cut.lower_bound <= f.objective(cut.labels)
    assert cut.history["cuts"].max() > 0


def test_it_stops_at_a_target_and_goes_on_from_duals():
    r = KernelKMeans(X, 4).relax("peng-wei+cuts")
    whole = mm.solve(r, Splitting())
    part = mm.solve(r, Splitting(target=0.98 * whole.lower_bound))
    assert len(part.history) < len(whole.history)
    assert part.lower_bound >= 0.98 * whole.lower_bound * (1 - 1e-9)
    again = mm.solve(r, Splitting(), init=part.certificate.duals, max_iter=1)
    assert again.lower_bound >= part.lower_bound * (1 - 1e-9)
    cold = mm.solve(r, Splitting(), max_iter=1)
    assert again.lower_bound > cold.lower_bound


@pytest.mark.parametrize("name, steps", [("ITERATION", 0), ("SEARCH", 2)])
def test_it_begins_nothing_that_would_end_after_the_deadline(name, steps, monkeypatch, ticking):
    f = KernelKMeans(X, 3).relax("peng-wei+cuts")
    monkeypatch.setattr(splitting, name, 1.0)
    monkeypatch.setattr(Splitting, {"ITERATION": "_iterate", "SEARCH": "_recut"}[name], None)
    ticking(1e-4)
    out = run(Splitting(), f.offer(RatioLift), None, np.random.default_rng(0), max_iter=2,
              time_limit=100.0)
    assert out.steps == steps and f.bound(out.duals) == pytest.approx(out.lower_bound)


def test_it_needs_a_lift_of_ratios():
    assert Splitting().refuses(LeastSquares(X).relax("sdp")) == \
        "it needs RatioLift, which this MaxCutRelaxation does not offer."
    assert LeastSquares(X).relax("peng-wei").offer(RatioLift).cuts is False


def test_capped_is_the_projection():
    for seed in range(20):
        draw = np.random.default_rng(seed)
        w = np.sort(draw.standard_normal(7) * 3.0)
        total = int(draw.integers(1, 7))
        p = capped(w, total)
        assert p.sum() == pytest.approx(total) and p.min() >= 0.0 and p.max() <= 1.0
        for _ in range(50):  # no other point of the set is nearer
            q = draw.dirichlet(np.ones(7)) * total
            if q.max() <= 1.0:
                assert np.linalg.norm(w - p) <= np.linalg.norm(w - q) + 1e-12
