"""The lifted problem: no duals whatever prove a bound above the optimum that brute force finds."""

import dataclasses
import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
from instances import COUNTS, FIRST, draw, judged

import mmcopt as mm
from mmcopt import registry
from mmcopt.bounds.label_lift import (
    NO_CUTS,
    SIGNS,
    Cuts,
    Entries,
    binary_lift,
    orthogonal,
    partition_lift,
    signed_groups,
)
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Sizes
from mmcopt.errors import InfeasibleError
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import InteriorPoint, RegularizedDual
from mmcopt.solving import Budget, run

KINDS = ("eig", "sdp", "sdp+cuts", "partition", "partition+cuts", "diffrac")
SOME = range(0, FIRST, 5)
X = np.random.default_rng(1).standard_normal((9, 2)) + np.arange(9).reshape(-1, 1) // 3


@functools.cache
def relaxed(seed, kind):
    """The relaxation of a random instance, or None when the kind is for two clusters only."""
    f = draw(seed).problem()
    cls = registry.relaxations()[kind]
    return None if cls.refuses(f) else cls(f)


def exact_minimum(seed):
    """The smallest objective of all labels, in extended precision; None when none is feasible."""
    _, _, rows, values = judged(seed)
    if not len(rows):
        return None
    lq = draw(seed).problem().offer(LabelQuadratic)
    near = rows[values <= values.min() + 1e-6 * (1 + abs(values.min()))]
    W = lq.matrix.dense().astype(np.longdouble)
    within = [sum(W[np.ix_(c == h, c == h)].sum() for h in range(lq.k))
              for c in map(lq.reduce, near)]
    return np.longdouble(lq.constant) - np.longdouble(lq.scale) * max(within)


def good_duals(r, seed):
    """Duals from a few steps of a solver of ours; the best shift for the eigenvalue bound."""
    if r.kind == "eig":
        return {"t": np.array(0.5 / r.n)}
    inner = r.kind == "sdp" and seed % 2 and r.lift.extras is None and r.lift.square > 0
    solver, steps = (InteriorPoint(), 6) if inner else (RegularizedDual(), 1 + seed % 2)
    done = run(solver, r, None, np.random.default_rng(seed), Budget(max_iter=steps))
    return done.duals


def random_cuts(lift, rng):
    """Cuts drawn at random, all of them valid; some twice."""
    t, q = int(rng.integers(0, 6)), int(rng.integers(0, 3))
    low = 0 if lift.binary else 1
    triangles = [[*rng.choice(lift.m, 3, replace=False), rng.integers(low, 4)] for _ in range(t)] \
        if lift.m > 2 else []
    cliques = [rng.choice(lift.m, lift.k + 1, replace=False) for _ in range(q)] \
        if lift.m > lift.k else []
    return {"triangles": np.array(triangles, dtype=np.int64).reshape(-1, 4),
            "cliques": np.array(cliques, dtype=np.int64).reshape(-1, lift.k + 1),
            "g": 10.0 ** rng.uniform(-3, 1) * rng.standard_normal(len(triangles) + len(cliques))}


def perturbed(duals, rng, scale):
    """Every float array plus noise of that scale: multipliers become negative as well."""
    return {name: np.asarray(v) + scale * rng.standard_normal(np.shape(v))
            if np.asarray(v).dtype.kind == "f" else v for name, v in duals.items()}


def broken(duals, rng):
    """Some entries NaN, infinite, hugely negative or simply huge."""
    out = {}
    for name, v in duals.items():
        out[name] = np.array(v)
        if out[name].dtype.kind == "f" and out[name].size:
            hit = rng.random(out[name].shape) < 0.2
            odd = rng.choice([np.nan, np.inf, -np.inf, -1e3, 1e9, 1e200, -1e308, 0.0],
                             size=out[name].shape)
            out[name] = np.where(hit, odd, out[name])
    return out


def dual_points(r, seed):
    """Good, perturbed, broken and random duals of a relaxation."""
    rng = np.random.default_rng([7, seed, KINDS.index(r.kind)])
    good = good_duals(r, seed)
    yield "good", good
    for scale in 10.0 ** rng.uniform(-6, 2, 6 if r.kind == "eig" else 3):
        yield f"perturbed by {scale:.1e}", perturbed(good, rng, scale)
    yield "broken", broken(good, rng)
    if r.kind == "eig":
        return
    lift = r.lift
    for _ in range(2):
        cuts = random_cuts(lift, rng)
        yield "random cuts", {**good, **cuts}
        yield "broken cuts", broken({**good, **cuts}, rng)
    base = np.abs(lift.R).sum(axis=1)
    yield "only u", {"u": base * rng.uniform(0, 1, lift.m)}
    yield "nothing", {}
    yield "noise", {"u": base * rng.standard_normal(lift.m), "t": rng.standard_normal(),
                    "up": rng.standard_normal(lift.rows.size),
                    "down": rng.standard_normal(lift.rows.size),
                    "N": rng.standard_normal((lift.m, lift.m)),
                    "pairs": 10 * rng.standard_normal(len(lift.pairs))}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_is_above_the_optimum(kind, count):
    """The figure: brute force on 240 random instances, 0 bounds above, with no tolerance at all."""
    above, tried, instances, finite, close = [], 0, 0, 0, 0
    for seed in range(count):
        best = exact_minimum(seed)
        if best is None or (r := relaxed(seed, kind)) is None:
            continue
        instances += 1
        for what, duals in dual_points(r, seed):
            if kind == "eig" and not abs(duals["t"]) < 1e100:
                continue  # refused by LAPACK, or by t itself
            bound = r.bound(duals)
            assert not np.isnan(bound), (seed, what)
            tried += 1
            finite += bound > -np.inf
            if np.longdouble(bound) > best:
                above.append((seed, what, bound, float(best)))
            close += what == "good" and bound > float(best) - 0.1 * abs(float(best))
    assert not above
    assert instances >= (0.4 if kind.startswith("sdp") else 0.8) * count
    assert finite > 0.6 * tried > 3 * instances
    assert close > {"eig": 0.05, "sdp": 0.15, "partition": 0.05}.get(kind, 0.1) * instances


def test_the_instances_have_every_kind_of_constraint():
    """For two and three clusters: sizes, known labels, must- and cannot-links, and none."""
    seen = set()
    for seed in range(FIRST):
        d, _, rows, _ = judged(seed)
        if len(rows):
            given = {name for name, v in d.options.items() if v is not None}
            names = given & {"sizes", "known", "must_link", "cannot_link"}
            seen |= {(d.k, name) for name in names | ({"none"} if not names else set())}
    assert seen == set(itertools.product((2, 3), ("sizes", "known", "must_link", "cannot_link",
                                                  "none")))


def test_no_label_is_cut_off():
    """Every feasible labeling of some instances is a feasible point with the same objective."""
    for seed in SOME:
        _, _, rows, _ = judged(seed)
        for kind in ("sdp", "partition", "diffrac"):
            if not len(rows) or (r := relaxed(seed, kind)) is None:
                continue
            for c in rows[:: max(1, len(rows) // 15)]:
                point = r.from_labels(c)
                assert r.lift.violation(point) < 1e-11
                assert r.objective(point) == pytest.approx(r.problem.objective(c), rel=1e-9,
                                                           abs=1e-10)


# ---------------------------------------------------------------- cuts


def every_labeling(k, m=6):
    return (np.array(c) for c in itertools.product(range(k), repeat=m))


def lift_of(k, m=6, **options):
    A = np.random.default_rng(k).standard_normal((m, m))
    lq = LabelQuadratic(A + A.T, k=k, **options)
    return binary_lift(lq) if k == 2 else partition_lift(lq)


def all_cuts(lift):
    kinds = range(4) if lift.binary else range(1, 4)
    triangles = [[*t, kind] for t in itertools.combinations(range(lift.m), 3) for kind in kinds]
    cliques = list(itertools.combinations(range(lift.m), lift.k + 1))
    return Cuts(np.array(triangles), np.array(cliques))


@pytest.mark.nojit
@pytest.mark.parametrize("k", [2, 3, 4])
def test_cuts_hold_for_all_partitions_and_are_tight(k):
    lift = lift_of(k)
    cuts = all_cuts(lift)
    entries = lift.entries(cuts)
    most = np.full(len(cuts), -np.inf)
    for c in every_labeling(k):
        M = (c[:, None] == c[None, :]).astype(float)
        most = np.maximum(most, entries.of(lift.floor + (lift.top - lift.floor) * M))
    assert (most <= entries.right + 1e-12).all()
    np.testing.assert_allclose(most, entries.right, atol=1e-12)  # a larger right side is weaker


@pytest.mark.nojit
@pytest.mark.parametrize("k", [2, 3])
def test_cuts_are_what_they_say(k):
    lift = lift_of(k)
    M = np.eye(6)
    M[0, 1] = M[1, 0] = M[0, 2] = M[2, 0] = 1.0  # together with 0, but not with one another
    point = lift.floor + (lift.top - lift.floor) * M
    for i, j, h, kind in all_cuts(lift).triangles:
        entries = lift.entries(Cuts(np.array([[i, j, h, kind]])))
        broken = entries.of(point)[0] > entries.right[0] + 1e-9
        if kind:
            a, b, c = M[i, j], M[i, h], M[j, h]
            assert broken == ((a, b, c) == {1: (1, 1, 0), 2: (1, 0, 1), 3: (0, 1, 1)}[kind])
        else:
            assert broken == (M[i, j] + M[i, h] + M[j, h] == 0)
    for q in all_cuts(lift).cliques:
        entries = lift.entries(Cuts(cliques=q[None]))
        pairs = sum(M[i, j] for i, j in itertools.combinations(q, 2))
        assert (entries.of(point)[0] > entries.right[0] + 1e-9) == (pairs < 1)
    assert SIGNS.shape == (4, 3) and (SIGNS.sum(axis=1) == [-3, 1, 1, 1]).all()


@pytest.mark.nojit
@pytest.mark.parametrize("k", [2, 3])
def test_entries_are_the_dense_matrices_of_the_cuts(k):
    lift, rng = lift_of(k), np.random.default_rng(0)
    cuts = all_cuts(lift)
    e = lift.entries(cuts)
    dense = np.zeros((len(cuts), 6, 6))
    for c, i, j, coef in zip(e.cut, e.i, e.j, e.coef, strict=True):
        dense[c, i, j] += coef / 2
        dense[c, j, i] += coef / 2
    A = rng.standard_normal((6, 6))
    A = A + A.T
    np.testing.assert_allclose(e.of(A), (dense * A).sum(axis=(1, 2)), atol=1e-12)
    S, g = rng.standard_normal((6, 6)), rng.random(len(cuts))
    S = S + S.T
    added = S.copy()
    e.add(added, g)
    np.testing.assert_allclose(added, S + np.tensordot(g, dense, 1), atol=1e-12)
    assert np.array_equal(added, added.T)


@pytest.mark.nojit
def test_no_cuts_add_nothing():
    lift = lift_of(3)
    e, S = lift.entries(Cuts()), np.eye(6)
    assert isinstance(e, Entries) and e.of(S).shape == (0,)
    e.add(S, np.zeros(0))
    assert np.array_equal(S, np.eye(6)) and len(Cuts()) == 0


@pytest.mark.nojit
def test_joining_and_taking_cuts():
    a = Cuts(np.array([[0, 1, 2, 1], [0, 1, 3, 2]]), np.array([[0, 1, 2, 3]]))
    b = Cuts(np.array([[0, 1, 3, 2], [1, 2, 3, 3]]), np.array([[0, 1, 2, 3], [0, 1, 2, 4]]))
    both = a.join(b)
    assert both.triangles.tolist() == [[0, 1, 2, 1], [0, 1, 3, 2], [1, 2, 3, 3]]
    assert both.cliques.tolist() == [[0, 1, 2, 3], [0, 1, 2, 4]] and len(both) == 5
    some = both.take(np.array([False, True, True, False, True]))
    assert some.triangles.tolist() == both.triangles[1:].tolist()
    assert some.cliques.tolist() == [[0, 1, 2, 4]]
    assert len(a.join(Cuts())) == len(Cuts().join(a)) == len(a.join(a)) == 3
    none = both.take(np.zeros(5, dtype=bool))
    assert len(none) == 0 and len(none.join(a)) == 3
    # Columns of another memory order are the same rows.
    assert len(a.join(Cuts(np.asfortranarray(a.triangles), a.cliques))) == 3


MALFORMED = {
    "a node twice": {"triangles": [[0, 0, 2, 1]]}, "two others": {"triangles": [[0, 2, 2, 1]]},
    "first and last": {"triangles": [[3, 1, 3, 2]]}, "beyond": {"triangles": [[0, 1, 6, 1]]},
    "negative": {"triangles": [[-1, 1, 2, 1]]}, "no such type": {"triangles": [[0, 1, 2, 4]]},
    "negative type": {"triangles": [[0, 1, 2, -1]]}, "cut short": {"triangles": [[0, 1, 2]]},
    "huge": {"triangles": np.array([[0, 1, 2**63, 1]], dtype=np.uint64)},
    "not a number": {"triangles": np.array([[0.0, 1.0, np.nan, 1.0]])},
    "infinite": {"triangles": np.array([[0.0, np.inf, 2.0, 1.0]])},
    "words": {"triangles": [["a", "b", "c", "d"]]},
    "clique with a node twice": {"cliques": [[0, 1, 1, 2]]},
    "clique beyond": {"cliques": [[0, 1, 2, 6]]}, "clique negative": {"cliques": [[0, 1, 2, -2]]},
    "clique too small": {"cliques": [[0, 1, 2]]},
    "clique too large": {"cliques": [[0, 1, 2, 3, 4]]},
    "clique not a number": {"cliques": np.array([[0.0, 1.0, 2.0, np.nan]])},
}


@pytest.mark.nojit
@pytest.mark.parametrize("rows", MALFORMED.values(), ids=MALFORMED)
def test_malformed_cuts_are_refused(rows):
    with pytest.raises((ValueError, TypeError)):
        lift_of(3).lower({**rows, "g": np.ones(1)})


@pytest.mark.nojit
def test_that_two_of_three_are_together_is_said_for_two_clusters_only():
    cut = {"triangles": np.array([[0, 1, 2, 0]]), "g": np.ones(1)}
    assert lift_of(2).lower(cut) > -np.inf
    with pytest.raises(ValueError, match="a triangle cut is malformed"):
        lift_of(3).lower(cut)


@pytest.mark.nojit
@pytest.mark.parametrize("name", ["u", "up", "down", "pairs", "g", "N", "t"])
def test_duals_of_another_shape_are_refused(name):
    lift = lift_of(3, apart=[(0, 1)])
    with pytest.raises(ValueError, match=f"dual {name} must have shape"):
        lift.lower({name: np.ones((2, 3))})


# ---------------------------------------------------------------- the bound, piece by piece


def fractions(A):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(A, dtype=np.float64))


def exact_slack(lift, duals, entries):
    """`Lift.slack` in rational arithmetic, from the definition."""
    b, S = fractions(lift.b), -fractions(lift.R)
    S = S + Fraction(duals["t"]) * np.outer(b, b)
    for a, i in enumerate(lift.rows):
        v = Fraction(float(duals["up"][a])) - Fraction(float(duals["down"][a]))
        S[i] = S[i] + v * b / 2
        S[:, i] = S[:, i] + v * b / 2
    if lift.bounded:
        S = S - fractions(duals["N"])
    for c, i, j, coef in zip(entries.cut, entries.i, entries.j, entries.coef, strict=True):
        half = Fraction(float(coef)) * Fraction(float(duals["g"][c])) / 2
        S[i, j] += half
        S[j, i] += half
    for (i, j), p in zip(lift.pairs, duals["pairs"], strict=True):
        S[i, j] += Fraction(float(p)) / 2
        S[j, i] += Fraction(float(p)) / 2
    for i in range(lift.m):
        S[i, i] += Fraction(float(duals["u"][i]))
    return S


def exactly_orthogonal(S, b):
    b = fractions(b)
    H = fractions(np.eye(len(b))) - np.outer(b, b) / sum(b * b)
    return H @ S @ H


def test_the_rounding_of_the_slack_is_within_its_bound():
    worst, flat = 0.0, 0
    for seed in range(60):
        rng = np.random.default_rng([3, seed])
        k, m = 2 + seed % 3, 6
        options = {"low": 2, "high": 2} if seed % 4 == 1 and k == 3 else {}
        if seed % 4 == 2:
            options = {"weights": rng.integers(1, 5, m), "apart": [(0, 1), (2, 5)][:seed % 3]}
        lift = dataclasses.replace(lift_of(k, **options),
                                   R=fractions_free(rng, lift_of(k, **options).m))
        duals = {"u": rng.standard_normal(lift.m) * 10.0 ** rng.uniform(-3, 3),
                 "t": rng.standard_normal() * 10.0 ** rng.uniform(-3, 3),
                 "up": rng.standard_normal(lift.rows.size),
                 "down": rng.standard_normal(lift.rows.size) * 100,
                 "pairs": rng.standard_normal(len(lift.pairs)) * 10,
                 "N": rng.standard_normal((lift.m, lift.m)), **random_cuts(lift, rng)}
        clean, cuts = lift.clean(duals)
        entries = lift.entries(cuts)
        S, exact = lift.slack(clean, entries), exact_slack(lift, clean, entries)
        if lift.flat:
            S, exact, flat = orthogonal(S, lift.b), exactly_orthogonal(exact, lift.b), flat + 1
        error = np.linalg.norm((fractions(S) - exact).astype(float), 2)
        assert error <= lift._size(clean, entries), seed
        worst = max(worst, error / lift._size(clean, entries))
    assert flat >= 3 and 1e-3 < worst


def fractions_free(rng, m):
    A = rng.standard_normal((m, m)) * 10.0 ** rng.uniform(-2, 2, (m, 1))
    return A + A.T


def test_the_upper_bound_is_the_linear_terms_when_the_slack_is_definite():
    lift = lift_of(2)
    far = {"u": np.full(6, 100.0)}
    assert lift.upper(far) == pytest.approx(600.0) and lift.upper(far) >= 600.0
    top = float(np.linalg.eigvalsh(lift.R)[-1])
    assert lift.upper({}) == pytest.approx(6 * top) and lift.upper({}) >= 6 * top  # tr X = 6
    low = {"u": np.full(6, top - 1.0)}
    assert lift.upper(low) == pytest.approx(6 * (top - 1.0) + 6 * 1.0)


def test_clusters_of_equal_size_need_no_weight_of_the_balance():
    lq = LeastSquares(X[:8], 2, sizes=Sizes(exact=4), center=False).offer(LabelQuadratic)
    lift = binary_lift(lq)
    assert lift.flat
    duals = {"u": np.full(8, float(np.linalg.eigvalsh(orthogonal(lift.R, lift.b))[-1]))}
    plain = dataclasses.replace(lift, square=1.0)
    assert lift.lower(duals) > plain.lower(duals) + 1e-3
    far = plain.lower({**duals, "t": 1e6})
    assert lift.lower(duals) >= far - 1e-6


def test_overflow_is_no_bound():
    lift = lift_of(3)
    assert lift.lower({"u": np.full(6, 1e308)}) == -np.inf
    assert lift.upper({"N": np.full((6, 6), 1e308)}) == np.inf


@pytest.mark.parametrize("k", [2, 3, 5, 6, 7, 11, 49])
def test_equal_sizes_are_flat_whatever_the_number_of_samples(k):
    for each in (1, 7, 333, 3333):
        weights = np.full(k, each)
        lq = LabelQuadratic(np.eye(k), k=k, weights=weights, low=each, high=each)
        assert partition_lift(lq).flat, (k, each)


def test_merging_nodes_whose_entries_cancel_is_rounded_down_too():
    """Every label is known; the total and y'Wy are 1e-15 of the entries of W, as is the error."""
    above = 0
    for seed in range(20):
        rng, y = np.random.default_rng(seed), np.where(np.arange(12) % 2, -1.0, 1.0)
        A = 1e8 * rng.standard_normal((12, 12))
        W = A + A.T
        for v in (np.ones(12), y):
            W -= np.outer(v, v) * (v @ W @ v) / 144
        W = (W + W.T) / 2
        lift = binary_lift(LabelQuadratic(W, fixed=(y < 0).astype(int)))
        exact = -fractions(W)[np.equal.outer(y, y)].sum()
        above += Fraction(lift.lower({"u": np.diagonal(lift.R)})) > exact
    assert not above


# ---------------------------------------------------------------- from a label problem


def test_nodes_of_two_clusters_merge_as_known_labels_and_links_say():
    rng, contradictory = np.random.default_rng(4), 0
    for _ in range(300):
        n = 6
        fixed = np.where(rng.random(n) < 0.25, rng.integers(0, 2, n), -1)
        pairs = [tuple(rng.choice(n, 2, replace=False)) for _ in range(int(rng.integers(0, 5)))]
        lq = LabelQuadratic(np.eye(n), fixed=fixed, apart=np.array(pairs).reshape(-1, 2))
        allowed = [c for c in every_labeling(2) if ((fixed < 0) | (c == fixed)).all()
                   and all(c[i] != c[j] for i, j in pairs)]
        if not allowed:
            contradictory += 1
            with pytest.raises(InfeasibleError, match="no labeling with two clusters"):
                signed_groups(lq)
            continue
        groups, signs = signed_groups(lq)
        assert sorted(set(groups)) == list(range(groups.max() + 1))
        assert set(signs) <= {-1.0, 1.0}
        for c in allowed:
            z = signs * np.where(c == 0, 1.0, -1.0)
            assert all(len(set(z[groups == g])) == 1 for g in set(groups))
        assert len(allowed) == 2 ** (len(set(groups)) - bool((fixed >= 0).any()))
    assert contradictory >= 20


def test_impossible_sizes_of_two_clusters_are_infeasible():
    with pytest.raises(InfeasibleError, match="no sizes of the two clusters"):
        binary_lift(LabelQuadratic(np.eye(5), low=[1, 1], high=[2, 2]))


def test_equal_known_labels_merge_and_different_ones_are_apart():
    lq = LabelQuadratic(np.arange(36.0).reshape(6, 6) + np.arange(36.0).reshape(6, 6).T, k=3,
                        fixed=[0, 0, 1, -1, 1, -1], apart=[(3, 5)])
    lift = partition_lift(lq)
    assert lift.m == 4 and lift.groups.tolist() == [0, 0, 1, 2, 1, 3]
    assert lift.pairs.tolist() == [[0, 1], [2, 3]] and lift.b.tolist() == [2, 2, 1, 1]
    assert (lift.signs == 1).all() and lift.trace == pytest.approx(4 * 2 / 3)
    assert partition_lift(lq, cone="plain").floor == 0.0


# ---------------------------------------------------------------- tampered certificates


@functools.cache
def honest():
    f = LeastSquares(X, 3, sizes=0.5, cannot_link=[(0, 8)]).relax("partition+cuts")
    result = mm.solve(f, "RegularizedDual", max_iter=8)
    assert result.verify() and len(result.certificate.duals["g"]) > 3
    return result


def with_duals(result, **changes):
    duals = {**result.certificate.duals, **changes}
    return dataclasses.replace(result, certificate=dataclasses.replace(result.certificate,
                                                                       duals=duals))


def forged():
    r = honest()
    d = r.certificate.duals
    triangles = np.array(d["triangles"])
    turned = triangles.copy()
    turned[:, 3] = 1 + turned[:, 3] % 3  # valid cuts, but others
    outside = triangles.copy()
    outside[0, 1] = 99
    certificate = r.certificate

    def certified(**changes):
        return dataclasses.replace(r, certificate=dataclasses.replace(certificate, **changes))

    yield "a bound raised", dataclasses.replace(r, lower_bound=r.lower_bound + 1e-3)
    yield "a bound that is infinite", dataclasses.replace(r, lower_bound=np.inf)
    yield "a bound that is no number", dataclasses.replace(r, lower_bound=np.nan)
    yield "no certificate", dataclasses.replace(r, certificate=None)
    yield "u changed", with_duals(r, u=d["u"] + np.linspace(-1, 1, d["u"].size))
    yield "u gone", with_duals(r, u=None)
    yield "duals gone", certified(duals={})
    yield "u of another shape", with_duals(r, u=d["u"][:-1])
    yield "u of words", with_duals(r, u=np.array(["a"] * d["u"].size))
    yield "u of objects", with_duals(r, u=[{}] * d["u"].size)
    yield "g too short", with_duals(r, g=d["g"][:-1])
    yield "N of another shape", with_duals(r, N=d["N"][:, :-1])
    yield "t a vector", with_duals(r, t=np.zeros(2))
    yield "duals a list", certified(duals=[1.0, 2.0])
    yield "duals None", certified(duals=None)
    yield "cuts turned", with_duals(r, triangles=turned)
    yield "cuts outside", with_duals(r, triangles=outside)
    yield "cuts gone", with_duals(r, triangles=NO_CUTS)
    yield "cuts of no number", with_duals(r, triangles=np.full(triangles.shape, np.nan))
    yield "cliques too small", with_duals(r, cliques=np.array([[0, 1]]))
    yield "kind unknown", certified(kind="magic")
    yield "another kind", certified(kind="eig")
    yield "fingerprint swapped", certified(of="0" * 64)
    other = r.formulation.problem.replace(lam=0.2).relax("partition+cuts")
    yield "another problem", dataclasses.replace(r, formulation=other)
    yield "its fingerprint", dataclasses.replace(r, formulation=other, certificate=dataclasses
                                                 .replace(certificate,
                                                          of=other.fingerprint))
    yield "the point moved", dataclasses.replace(r, point=r.point + 1e-3)
    yield "the point cut", dataclasses.replace(r, point=r.point[:-1])
    yield "labels changed", dataclasses.replace(r, labels=1 - r.labels)


FORGED = ["a bound raised", "a bound that is infinite", "a bound that is no number",
          "no certificate", "u changed", "u gone", "duals gone", "u of another shape",
          "u of words", "u of objects", "g too short", "N of another shape", "t a vector",
          "duals a list", "duals None", "cuts turned", "cuts outside", "cuts gone",
          "cuts of no number", "cliques too small", "kind unknown", "another kind",
          "fingerprint swapped", "another problem", "its fingerprint", "the point moved",
          "the point cut", "labels changed"]


@pytest.mark.parametrize("what", FORGED)
def test_tampered_certificates_do_not_verify(what):
    report = dict(forged())[what].verify()
    assert not report, str(report)


def test_every_forgery_is_named():
    assert [what for what, _ in forged()] == FORGED
