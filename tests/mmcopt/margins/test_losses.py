"""Losses of a margin: slopes are subgradients, conjugates are minima, literals agree."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import CPM3C
from mmcopt.margins import LOSSES, Hinge, Logistic, MarginLoss, SquaredHinge
from mmcopt.modeling.result import Status

GRID = np.r_[np.linspace(-6, 6, 481), -40.0, 40.0]
LITERAL = {"Hinge": lambda m: max(0.0, 1.0 - m), "SquaredHinge": lambda m: max(0.0, 1.0 - m)**2,
           "Logistic": lambda m: math.log1p(math.exp(-m))}


@dataclass(frozen=True, repr=False)
class Smooth(MarginLoss):
    """A loss of one's own: value and slope, and no more."""

    def value(self, margin):
        return np.where(margin < 0, 0.5 - margin, 0.5 * np.maximum(1 - margin, 0)**2)

    def slope(self, margin):
        return -np.clip(1 - margin, 0, 1)


def losses():
    return pytest.mark.parametrize("loss", [*(cls() for cls in LOSSES.values()), Smooth()],
                                   ids=repr)


@pytest.mark.parametrize("name", LOSSES)
def test_values_are_the_formula(name):
    loss = LOSSES[name]()
    np.testing.assert_allclose(loss.value(GRID), [LITERAL[name](m) for m in GRID], rtol=1e-13)
    assert loss.formula().count("m") >= 1 and repr(loss) == f"{name}()"
    assert loss == LOSSES[name]() and hash(loss) == hash(LOSSES[name]())


@losses()
def test_slopes_are_subgradients_and_never_above_zero(loss):
    value, slope = loss.value(GRID), loss.slope(GRID)
    assert (slope <= 0).all() and (value >= 0).all() and (-slope <= loss.steepest).all()
    tangents = value[:, None] + slope[:, None] * (GRID[None] - GRID[:, None])
    assert (tangents <= value[None] + 1e-12 * (1 + value[None])).all()
    inside = GRID[np.abs(GRID - 1.0) > 1e-3]  # where all are differentiable
    inside = inside[np.abs(inside) < 10]
    steps = (loss.value(inside + 1e-6) - loss.value(inside - 1e-6)) / 2e-6
    np.testing.assert_allclose(loss.slope(inside), steps, atol=1e-6)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=repr)
def test_conjugates_are_minima(loss):
    margins = np.linspace(-30, 30, 60001)
    for s in (0.0, 0.03, 0.5, 0.9, 0.999):
        least = (loss.value(margins) + s * margins).min()
        exact = float(loss.conjugate(np.array([s]))[0])
        assert exact <= least + 1e-12 and exact == pytest.approx(least, abs=1e-5)
    top = min(loss.steepest, 7.0)
    assert np.isfinite(loss.conjugate(np.array([0.0, top]))).all()
    at = -loss.slope(GRID)  # Fenchel's inequality is an equation at the slope
    np.testing.assert_allclose(loss.conjugate(at), loss.value(GRID) + at * GRID, atol=1e-9)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=repr)
def test_the_literal_atom_is_the_value(loss):
    atom = loss.atom(GRID)
    assert atom.is_convex()
    np.testing.assert_allclose(np.asarray(atom.value), loss.value(GRID), atol=1e-9)


@losses()
def test_huge_margins_neither_overflow_nor_warn(loss):
    m = np.array([-1e150, -1e6, -800.0, 800.0, 1e6, 1e150])
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(loss.value(m)).all()
        slope = loss.slope(m)
    assert np.isfinite(slope).all() and slope[-1] == pytest.approx(0, abs=1e-300) and slope[0] <= -1


def test_a_loss_of_ones_own_needs_a_value_and_a_slope():
    rng = np.random.default_rng(0)
    X = np.r_[rng.standard_normal((15, 2)), rng.standard_normal((15, 2)) + 5]
    result = mm.solve(CPM3C(X, 2, loss=Smooth()), seed=0)
    assert result.status is Status.CONVERGED and result.verify()
    f, W = result.formulation, result.point
    T = f.features.dense() @ W.T
    literal = 0.015 * (W**2).sum() + Smooth().value(np.abs(T[:, 0] - T[:, 1])).mean()
    assert result.objective == pytest.approx(literal, rel=1e-12)
    assert len(set(result.labels[:15])) == len(set(result.labels[15:])) == 1
    assert "smooth(m)" in str(f)
