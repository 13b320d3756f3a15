"""No claim of a result is outside its interval in exact arithmetic, at the edges of floats too."""

import dataclasses

import exact
import extremes
import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import Diffrac, Hypersphere, LeastSquares, OneClassHinge
from mmcopt.kernels import Gaussian
from mmcopt.modeling import Status

pytestmark = pytest.mark.as_given  # the exact value is that of these very bytes

FEW, MANY = 25, 2000  # instances of a family: 14,000 in the slow tests


def false_claims(family, seeds):
    """What is false, by seed; refusals must be one sentence that says what to change."""
    found = {}
    for seed in seeds:
        said = extremes.claims(family, seed)
        if isinstance(said, str):
            assert said.endswith(".") and "\n" not in said, (seed, said)
            assert "bookkeeping" not in said and "column" not in said, (seed, said)
        elif said:
            found[seed] = said
    return found


@pytest.mark.parametrize("family", extremes.FAMILIES)
def test_no_claim_is_outside_its_exact_interval(family):
    assert not false_claims(family, range(FEW))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("family", extremes.FAMILIES)
def test_no_claim_of_many_is_outside_its_exact_interval(family, part):
    size = MANY // 4
    assert not false_claims(family, range(part * size, (part + 1) * size))


@pytest.mark.parametrize("family, seed", [
    ("least squares", 15), ("diffrac", 28), ("diffrac", 67), ("diffrac", 1722), ("diffrac", 1956),
    ("diffrac", 2041), ("one class", 7), ("margin", 96), ("fit", 337), ("fit", 339), ("fit", 350),
    ("fit", 391), ("sphere", 364), ("sphere", 385)])
def test_what_was_false_once_is_not_again(family, seed):
    assert not false_claims(family, [seed])


def test_a_fit_is_not_refused_at_the_lam_that_its_refusal_names():
    named = 0
    for seed in range(60):
        said = extremes.claims("fit", seed)
        if isinstance(said, str) and "give a lam of at least" in said:
            rng = np.random.default_rng([extremes.FAMILIES.index("fit"), seed])
            f = extremes.problem_of("fit", rng)
            lam = float(said.partition("at least ")[2].partition(",")[0])
            assert lam > f.lam and mm.solve(f.replace(lam=1.01 * lam)).verify(), seed
            named += 1
    assert named > 2


def false_bounds(family, seeds):
    """Bounds of climbed results above the least value of all labelings, and else what is false."""
    found, judged = {}, 0
    for seed in seeds:
        climbed = extremes.hinge_bound(family, seed)
        if climbed is None:
            continue
        result, value, least = climbed
        judged += 1
        with exact.arithmetic():
            said = exact.judged(result, value, least)
        if said or not result.verify():
            found[seed] = said or str(result.verify())
    return found, judged


@pytest.mark.parametrize("family, count", [("margin", 8), ("several kernels", 2)])
def test_no_bound_of_a_hinge_problem_is_above_the_least_of_all_labels(family, count):
    found, judged = false_bounds(family, range(count))
    assert not found and judged >= 1


@pytest.mark.slow
@pytest.mark.parametrize("family", ["margin", "several kernels"])
def test_no_bound_of_many_hinge_problems_is_above_the_least_of_all_labels(family):
    found, judged = false_bounds(family, range(8, 108))
    assert not found and judged > 50


def test_most_of_the_instances_are_solved_and_not_refused():
    for family in ("least squares", "margin"):
        refused = [isinstance(extremes.claims(family, seed), str) for seed in range(10)]
        assert sum(refused) < 5


# ---------------------------------------------------------------- the judge itself


@pytest.fixture(scope="module")
def proved():
    X = np.random.default_rng(0).standard_normal((7, 2))
    problem = LeastSquares(X, 2, kernel=Gaussian(width=0.5))
    result = mm.solve(problem, "BruteForce")
    with exact.arithmetic():
        return result, *extremes.true_value(result)


@pytest.mark.parametrize("change, word", [
    (lambda r: {"objective": r.objective * (1 + 1e-5)}, "objective"),
    (lambda r: {"lower_bound": r.objective * (1 + 1e-9)}, "bound"),
    (lambda r: {"trivial_bound": r.objective * 1.1}, "trivial bound"),
    (lambda r: {"lower_bound": r.objective * 1.1}, "gap")])
def test_the_oracle_sees_what_is_false(proved, change, word):
    result, value, least = proved
    with exact.arithmetic():
        assert exact.judged(result, value, least) == []
        forged = dataclasses.replace(result, **change(result))
        assert any(said.startswith(word) for said in exact.judged(forged, value, least))


def test_the_oracle_sees_a_gap_that_is_not_closed(proved):
    result, value, least = proved
    worse = mm.evaluate(result.formulation, np.arange(7) % 2)
    with exact.arithmetic():
        high = exact.LabelForm(worse.formulation).value(worse.point)
        assert exact.judged(worse, high, least) == []
        forged = dataclasses.replace(worse, status=Status.CERTIFIED)
        assert any(said.startswith("CERTIFIED") for said in exact.judged(forged, high, least))


def test_the_oracle_knows_the_optimum_of_a_box_and_of_a_simplex():
    X = np.random.default_rng(2).standard_normal((6, 2))
    for cls, least in ((OneClassHinge, exact.domain_least), (Hypersphere, exact.sphere_least)):
        for C in (2.0, 4.0, 30.0):
            f = cls(X, C=C, kernel=Gaussian(width=0.5))
            result = mm.solve(f, "Conic")
            with exact.arithmetic():
                assert float(least(f, result.point)) == pytest.approx(result.objective, rel=1e-6)
                assert exact.mpf(result.lower_bound) <= least(f, result.point)


def test_the_oracle_takes_no_optimum_of_a_singular_kernel_for_one():
    said = extremes.claims("one class", 946)  # a row that is there twice
    assert said == [] or isinstance(said, str)


def test_the_oracle_agrees_with_plain_floats_where_they_are_safe():
    X = np.random.default_rng(1).standard_normal((6, 2))
    for problem in (LeastSquares(X, 3, lam=0.3), Diffrac(X, 2, kappa=0.02)):
        with exact.arithmetic():
            form = exact.LabelForm(problem)
            for c in ([0, 1, 2, 0, 1, 2], [0, 1, 1, 1, 0, 1]):
                c = np.array(c) % problem.n_clusters
                assert float(form.value(c)) == pytest.approx(problem.objective(c), rel=1e-12)
            best = mm.solve(problem, "BruteForce").objective
            assert float(form.least()) == pytest.approx(best, rel=1e-12)
