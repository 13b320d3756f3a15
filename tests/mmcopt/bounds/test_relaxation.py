"""Relaxations as formulations: which apply, what they say, what they share, what they save."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from literal import solved

import mmcopt as mm
from mmcopt import registry
from mmcopt.bounds import relaxation
from mmcopt.bounds.relaxation import Relaxation, same_shape
from mmcopt.capabilities import Bounded
from mmcopt.constraints import Sizes
from mmcopt.errors import IncompatibleError, ParameterError
from mmcopt.formulations import Diffrac, LeastSquares
from mmcopt.formulations.relaxations import MaxCutRelaxation, Partition, PengWei
from mmcopt.kernels import Precomputed
from mmcopt.modeling import Formulation
from mmcopt.modeling.result import Status
from mmcopt.tables import spoken

X = np.random.default_rng(1).standard_normal((9, 2)) + np.arange(9).reshape(-1, 1) // 3
LADDER = ["eig", "sdp", "sdp+cuts", "partition", "partition+cuts", "diffrac", "peng-wei"]
OTHERS = ["peng-wei+cuts", "gmmc", "lifted", "mkc", "mmc", "joint", "lg", "xu-schuurmans"]
TWO, THREE = LeastSquares(X, 2, sizes=0.4), LeastSquares(X, 3, lam=0.3)


def brute_force(f):
    points = (np.array(c) for c in itertools.product(range(f.n_clusters), repeat=f.n))
    return min(f.objective(c) for c in points if f.violation(c) == 0.0)


# ---------------------------------------------------------------- which apply


def test_kinds_are_listed_from_cheap_to_dear():
    assert TWO.relaxations().kinds == LADDER == list(registry.relaxations())[:-len(OTHERS)]
    assert list(registry.relaxations())[-len(OTHERS):] == OTHERS
    assert THREE.relaxations().kinds == [k for k in LADDER if not k.startswith("sdp")]
    for kind in LADDER:
        r = TWO.relax(kind)
        assert isinstance(r, Relaxation) and r.kind == kind and r.problem is TWO
        assert (r.n, r.n_clusters) == (9, 2)


def test_refusals_word_for_word():
    with pytest.raises(ParameterError) as e:
        TWO.relax("sdpp")
    kinds = ", ".join(LADDER + OTHERS)
    assert str(e.value) == f"no relaxation is called 'sdpp'; there are {kinds}."
    with pytest.raises(IncompatibleError) as e:
        THREE.relax("sdp")
    assert str(e.value) == (
        "relax('sdp') does not apply to this LeastSquares: it is for 2 clusters, and there are 3; "
        "relax('partition') is for any number. These do: eig, partition, partition+cuts, diffrac, "
        "peng-wei.")
    with pytest.raises(IncompatibleError) as e:
        MaxCutRelaxation(THREE)
    assert str(e.value) == ("MaxCutRelaxation cannot relax LeastSquares: it is for 2 clusters, "
                            "and there are "
                            "3; relax('partition') is for any number.")
    fit = TWO.restrict(np.arange(9) % 2)
    assert fit.relaxations().kinds == []
    with pytest.raises(IncompatibleError) as e:
        fit.relax("eig")
    assert str(e.value) == ("relax('eig') does not apply to this LeastSquaresFit: it needs "
                            "LabelQuadratic, which LeastSquaresFit does not offer. These do: none.")
    with pytest.raises(IncompatibleError, match="it needs LabelQuadratic, which "
                                                "MaxCutRelaxation does not offer"):
        TWO.relax("sdp").relax("sdp")


def test_the_printed_table_has_a_line_for_each_kind_with_its_cost():
    lines = str(THREE.relaxations()).splitlines()
    assert [line.split()[0] for line in lines] == LADDER + OTHERS
    assert lines[1] == ("sdp             no: it is for 2 clusters, and there are 3; "
                        "relax('partition') is for any number.")
    for line in (lines[0], *lines[3:len(LADDER)]):
        assert re.search(r"  \S.+ \(\d\S* \S*B, about [\d.]+ (s|min|h)\)$", line), line
    assert repr(TWO.relaxations()) == str(TWO.relaxations())
    big = Diffrac(np.random.default_rng(0).standard_normal((3000, 2)), 2, sizes=0.2)
    assert "GiB" in str(big.relaxations()) and re.search(r"about \d+ (min|h)", str(
        big.relaxations()))


@pytest.mark.parametrize("seconds, words", [(0.0, "0.01 s"), (0.25, "0.25 s"), (5, "5 s"),
                                            (90, "2 min"), (3600, "60 min"), (7200, "2 h")])
def test_seconds_are_spoken(seconds, words):
    assert spoken(seconds) == words


def test_what_has_no_cvxpy_form_says_so():
    class _Bare(Relaxation):
        kind = ""
        memory = seconds = classmethod(lambda cls, problem: 0.0)
        recover = bound = objective = violation = statement = reference = None
        examples = classmethod(lambda cls: [])

    bare = _Bare(TWO)
    for ask in (lambda: bare.variables, bare.to_cvxpy):
        with pytest.raises(IncompatibleError, match="_Bare has no cvxpy form."):
            ask()


# ---------------------------------------------------------------- what they share


@pytest.mark.parametrize("kind", ["sdp", "partition", "diffrac"])
def test_a_path_of_problems_is_compiled_once(kind):
    first = TWO.relax(kind)
    program = first.program
    second = first.replace(problem=TWO.replace(lam=1.0))
    assert second.program is program and second.lift is not first.lift
    assert same_shape(first.lift, second.lift)
    alone = Partition if kind == "partition" else type(first)
    fresh = alone(TWO.replace(lam=1.0))
    assert fresh.program is not program
    values = [solved(r.to_cvxpy()) for r in (first, second, first, fresh)]
    assert values[1] == pytest.approx(values[3], rel=1e-6)  # the data are those of the last asked
    assert values[0] == pytest.approx(values[2], rel=1e-7)  # Clarabel ends at 1e-8
    assert values[1] > values[0] + 1e-2
    bounds = [mm.solve(r, "Conic").lower_bound for r in (second, first)]
    assert bounds == pytest.approx([values[1], values[0]], rel=1e-6)


@pytest.mark.parametrize("kind", ["sdp", "partition"])
@pytest.mark.parametrize("changes", [
    {"sizes": 0.0}, {"known": {0: 0, 8: 1}}, {"known": {0: 0, 1: 0}}, {"must_link": [(0, 1)]},
    {"cannot_link": [(0, 1)]}, {"X": X[:8]}])
def test_programs_of_other_shapes_are_not_shared(kind, changes):
    first = TWO.relax(kind)
    program = first.program
    second = first.replace(problem=TWO.replace(**changes))
    assert second.program is not program
    assert not same_shape(first.lift, second.lift)
    assert solved(second.to_cvxpy()) >= (-np.inf if "X" in changes else
                                         solved(first.to_cvxpy()) - 1e-6)


def test_nothing_is_shared_before_it_is_there():
    first = TWO.relax("sdp")
    second = first.replace(problem=TWO.replace(lam=1.0))
    assert "program" not in second._cache


def test_fingerprints_tell_problems_and_kinds_apart():
    relaxed = [f.relax(kind) for f in (TWO, TWO.replace(lam=0.2), Diffrac(X, 2, sizes=0.4))
               for kind in LADDER]
    assert len({r.fingerprint for r in relaxed}) == len(relaxed)
    assert TWO.relax("sdp").fingerprint == LeastSquares(X, 2, sizes=0.4).relax("sdp").fingerprint


# ---------------------------------------------------------------- points and variables


def test_points_of_labels_are_over_the_nodes():
    f = LeastSquares(X, 2, known={0: 0, 5: 1, 6: 0}, cannot_link=[(1, 2)], must_link=[(3, 4)])
    c = mm.solve(f, "BruteForce").labels
    for kind in ("sdp", "partition", "diffrac", "eig"):
        r = f.relax(kind)
        point = r.from_labels(c)
        assert r.violation(point) < 1e-12
        assert r.objective(point) == pytest.approx(f.objective(c))
        assert mm.evaluate(f, r.labels(point)).objective == pytest.approx(f.objective(c))
    assert len(f.relax("sdp").from_labels(c)) == 5 < len(f.relax("partition").from_labels(c)) == 7


def test_violations_are_seen():
    r = TWO.relax("sdp+cuts")
    Y = r.from_labels(np.arange(9) % 2)
    assert r.violation(Y) < 1e-12
    assert r.violation(np.ones((9, 9))) > 1.0  # all in one cluster
    third = np.full((9, 9), -1 / 8)
    np.fill_diagonal(third, 1.0)
    free = LeastSquares(X, 2).relax("sdp+cuts")
    assert free.violation(Y + np.eye(9)) == pytest.approx(1.0)
    assert free.violation(Y - np.eye(9)) >= 1.0
    assert free.violation(third) < 1e-9
    bad = np.full((9, 9), 0.0)
    bad[:3, :3] = -0.5
    np.fill_diagonal(bad, 1.0)  # three nodes mutually at -1/2: psd, and no two of them together
    assert free.violation(bad) == pytest.approx(0.5 / 2)
    assert LeastSquares(X, 2).relax("sdp").violation(bad) < 1e-9


@pytest.mark.parametrize("kind, name", [("sdp", "Y"), ("sdp+cuts", "Y"), ("partition", "M"),
                                        ("partition+cuts", "M"), ("diffrac", "M")])
def test_a_constraint_of_ones_own_changes_the_optimum(kind, name):
    import cvxpy as cp

    f = LeastSquares(X, 2, known={0: 0, 5: 1}, cannot_link=[(1, 2), (2, 7)], must_link=[(3, 4)])
    r = f.relax(kind)
    problem, V = r.to_cvxpy(), r.variables[name]
    before = solved(problem)
    apart = -1.0 if name == "Y" else 0.0
    values = V.value
    assert values.shape == (9, 9)
    np.testing.assert_allclose(np.diagonal(values), 1.0, atol=1e-6)
    np.testing.assert_allclose(values[3], values[4], atol=1e-6)
    for i, j in ((0, 5), (1, 2), (2, 7)):
        assert values[i, j] == pytest.approx(apart, abs=1e-6)
    best = mm.solve(f, "BruteForce").labels
    i, j = next((i, j) for i, j in itertools.combinations(range(9), 2)
                if best[i] == best[j] and values[i, j] > apart + 0.9 and (i, j) != (3, 4))
    after = solved(cp.Problem(problem.objective, [*problem.constraints, V[i, j] == apart]))
    assert after > before + 1e-3
    linked = f.replace(cannot_link=[(1, 2), (2, 7), (i, j)])
    assert after <= brute_force(linked) + 1e-6
    assert after == pytest.approx(solved(linked.relax(kind).to_cvxpy()), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", ["eig", "sdp", "partition"])
def test_the_order_of_the_samples_does_not_matter(kind):
    order = np.random.default_rng(5).permutation(9)
    bounds = [mm.solve(LeastSquares(D, 2, sizes=0.4).relax(kind), "Conic").lower_bound
              for D in (X, X[order])]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-5)


def test_labels_of_a_relaxation_are_those_of_its_point_or_as_good():
    relaxed = TWO.relax("sdp")
    result = mm.solve(relaxed, "Conic")
    assert result.verify()
    swapped = dataclasses.replace(result, labels=1 - result.labels)  # as good
    assert swapped.verify()
    one, all_of_one = result.labels.copy(), np.zeros_like(result.labels)
    one[0] = 1 - one[0]
    for worse in (one, all_of_one, result.labels + 1, result.labels[:-1]):
        assert not dataclasses.replace(result, labels=worse).verify()


def test_the_ladder_climbs():
    bounds = {kind: mm.solve(TWO.relax(kind), "Conic").lower_bound for kind in LADDER[:-1]}
    slack = 1e-6
    assert bounds["eig"] <= bounds["sdp"] + slack <= bounds["sdp+cuts"] + 2 * slack
    assert bounds["diffrac"] <= bounds["partition"] + slack
    assert bounds["partition"] <= bounds["partition+cuts"] + slack
    assert max(bounds.values()) <= brute_force(TWO)


# ---------------------------------------------------------------- saving


@pytest.mark.parametrize("solver", ["Conic", "RegularizedDual"])
def test_the_result_of_a_relaxation_is_saved_with_the_problem_below(solver, tmp_path):
    f = LeastSquares(X, 2, sizes=Sizes(low=3), known={0: 1}, cannot_link=[(0, 8)])
    r = mm.solve(f.relax("sdp+cuts"), solver)
    r.save(tmp_path / "a.npz")
    back = mm.load(tmp_path / "a.npz")
    assert type(back.formulation).__name__ == "MaxCutTriangles"
    assert back.formulation.problem.fingerprint == f.fingerprint and back.verify()
    assert (back.lower_bound, back.gap) == (r.lower_bound, r.gap)
    assert np.array_equal(back.labels, r.labels)
    r.save(tmp_path / "b.npz", data=False)
    assert mm.load(tmp_path / "b.npz", problem=f.relax("sdp+cuts")).verify()
    for wrong in (f.relax("sdp"), f.replace(lam=0.3).relax("sdp+cuts"), f):
        with pytest.raises(mm.errors.DataError, match="belongs to another problem"):
            mm.load(tmp_path / "b.npz", problem=wrong)


# ---------------------------------------------------------------- problems of one's own


@pytest.fixture
def seating():
    """Correlation clustering as a reader would type it; forgotten afterwards."""
    before = dict(registry._formulations)

    class Tables(Formulation):
        default_solver = "Tabu"

        def __init__(self, A, n_clusters=2):
            self.A, self.n_clusters, self.n = np.asarray(A, dtype=float), n_clusters, len(A)

        def objective(self, point):
            together = np.equal.outer(point, point)
            return float(((self.A > 0) & ~together | (self.A < 0) & together).sum() / 2)

        def offer(self, kind):
            if kind is mm.LabelQuadratic:
                return mm.LabelQuadratic(self.A, const=(self.A > 0).sum() / 2, scale=0.5,
                                         k=self.n_clusters, trivial=0.0)
            return None

        def violation(self, point):
            return float(self.n_clusters - len(np.unique(point)))

        def labels(self, point):
            return point

        def statement(self):
            return mm.Statement("Tables", (("minimise", "unhappy pairs", ""),))

        def reference(self, labels=None):
            raise NotImplementedError

        @classmethod
        def examples(cls):
            A = np.sign(np.random.default_rng(4).standard_normal((8, 8)))
            A = np.triu(A, 1)
            return [cls(A + A.T), cls(A + A.T, 3)]

    yield Tables
    registry._formulations.clear()
    registry._formulations.update(before)


@pytest.mark.parametrize("example", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_problem_of_ones_own_gets_every_relaxation_and_solver(seating, tmp_path, example):
    f = seating.examples()[example]
    best = brute_force(f)
    table = f.relaxations()
    assert table.kinds == [k for k in LADDER if not k.startswith("peng-wei")
                           and (f.n_clusters == 2 or not k.startswith("sdp"))]
    assert table["peng-wei"] == "it needs a kernel matrix, which Tables does not offer."
    bounds = {}
    for kind in table.kinds:
        r = f.relax(kind)
        assert str(r).splitlines()[-1].strip() or "Tables" in str(r)
        for solver in mm.fits(r).names:
            result = mm.solve(r, solver, seed=0)
            assert result.verify() and result.lower_bound <= best
            assert f.violation(result.labels) == 0.0 and f.objective(result.labels) >= best
            bounds[kind] = max(bounds.get(kind, -np.inf), result.lower_bound)
        result.save(tmp_path / "own.npz")
        assert mm.load(tmp_path / "own.npz").verify()
    assert bounds["partition"] > bounds["eig"] - 1e-6
    assert bounds["partition+cuts"] > best - 0.5


def test_a_relaxation_of_ones_own_is_listed(seating):
    class Loose(MaxCutRelaxation):
        kind = "loose"
        tightness = "as loose as it gets"

    f = seating.examples()[0]
    assert f.relaxations().kinds[-1] == "loose" and "as loose as it gets" in str(f.relaxations())
    assert mm.solve(f.relax("loose")).lower_bound == mm.solve(f.relax("sdp")).lower_bound
    del registry._formulations["Loose"]
    assert "loose" not in f.relaxations()


def test_k_means_is_bounded_on_a_given_kernel_matrix():
    K = X @ X.T
    r = PengWei(LeastSquares(K, 2, kernel=Precomputed()))
    result = mm.solve(r)
    assert result.lower_bound <= r.kmeans_cost(result.labels) + 1e-9 and result.verify()


@pytest.mark.parametrize("kind, solver", [("sdp", "LowRank"), ("partition+cuts", "RegularizedDual"),
                                          ("peng-wei", "Splitting")])
def test_time_limits_leave_room_for_judging_the_last_point(kind, solver, monkeypatch, ticking):
    f = TWO.replace(sizes=None).relax(kind)
    monkeypatch.setattr(relaxation, "JUDGING", 1.0)
    judging = f.judging
    assert judging >= f.n**3
    ticking(1e-3)
    soon, late = (mm.solve(f, solver, seed=0, time_limit=judging + seconds, max_iter=3)
                  for seconds in (0.0, 100.0))
    assert soon.status is Status.TIME_LIMIT and len(soon.history) == 0 and soon.verify()
    assert len(late.history) == 3
    assert LeastSquares(X).relax("eig").offer(Bounded).seconds == 0.0  # it is in closed form


def test_samples_of_one_node_take_no_time_of_their_own():
    ties = [(0, i) for i in range(1, TWO.n // 2)]
    f = TWO.replace(sizes=None, must_link=ties)
    few, all_ = (g.relax("sdp+cuts").judging for g in (f, TWO.replace(sizes=None)))
    assert few == pytest.approx(all_ * ((TWO.n - len(ties)) / TWO.n) ** 3)
