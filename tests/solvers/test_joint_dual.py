"""The regularised dual of labels beside weights: near the conic optimum, never below its start."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.bounds.label_weight_lift import JointLift
from mmcopt.formulations import CPM3C
from mmcopt.solvers import JointDual

X = mm.datasets.load("digits:3,8")[0][3::30]
F = CPM3C(X, 2, beta=0.03)


def test_without_cuts_it_has_the_optimum_at_once():
    lifted, plain = (mm.solve(F.relax(kind)) for kind in ("lifted", "mmc"))
    assert plain.lower_bound == pytest.approx(lifted.lower_bound, rel=1e-4)
    assert plain.gap < 1e-3 and plain.verify()


def test_with_triangles_it_is_near_the_conic_optimum():
    r = F.relax("joint")
    conic, own = mm.solve(r, "Conic"), mm.solve(r)
    lifted = mm.solve(F.relax("lifted")).lower_bound
    assert own.verify() and own.lower_bound <= conic.objective + 1e-7
    assert conic.lower_bound - own.lower_bound <= 0.05 * (conic.lower_bound - lifted) + 1e-5
    assert np.isfinite(own.history["cuts"]).all() and own.history["cuts"][-1] > 0


def test_what_the_balance_costs_is_settled_beside_the_labels():
    """The best weight of it is another than that of the lifted margin, where it begins."""
    some = np.random.default_rng(0)
    rows = some.standard_normal((7, 2)) + 3.0 * (np.arange(7)[:, None] % 2) + 2.0
    r = CPM3C(rows, 2, beta=0.1, balance=1.0, center=False).relax("joint")
    conic, own = mm.solve(r, "Conic"), mm.solve(r)
    first = mm.solve(r.problem.relax("lifted")).certificate.duals["t"]
    best = conic.certificate.duals["t"]
    assert own.verify() and own.lower_bound == pytest.approx(conic.lower_bound, rel=5e-4)
    assert abs(own.certificate.duals["t"] - best) < 0.3 * abs(first - best)
    joint, step = r.offer(JointLift), 1e-5  # what it goes by
    Y, a = conic.point, np.asarray(conic.certificate.duals["a"])
    low, high = (float(np.sum(joint.at(a, best + s).R * Y)) for s in (-step, step))
    assert joint.fall(a, float(best), Y) == pytest.approx((low - high) / (2 * step), rel=1e-5)


def test_hyper_parameters_do_something():
    r = F.relax("joint")
    base = mm.solve(r, max_iter=8)
    for other in (JointDual(evaluations=20), JointDual(start=0.5), JointDual(shrink=0.3),
                  JointDual(cuts_per_node=0.5)):
        assert mm.solve(r, other, max_iter=8).lower_bound != base.lower_bound
    short = mm.solve(r, JointDual(tol=0.1, patience=1))
    assert len(short.history) < len(mm.solve(r).history)


def test_a_time_limit_ends_it_with_a_bound(ticking):
    r = CPM3C(mm.datasets.load("digits:3,8")[0][:150], 2, beta=0.03).relax("joint")
    ticking(0.01)
    out = mm.solve(r, time_limit=1.0)
    assert out.status.name == "TIME_LIMIT" and out.lower_bound > 0 and out.verify()
