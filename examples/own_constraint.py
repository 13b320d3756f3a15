"""A constraint of your own on a relaxation: read it in cvxpy, extend it, solve it where you like.

What it teaches: `relaxed.to_cvxpy()` is an ordinary cvxpy problem, and ``relaxed.variables`` are
its variables: Y_ij is 1 when samples i and j share a cluster and -1 when they do not. Whatever
holds of the labels you allow may be added, in terms of Y. The minimum stays below the best of those
labels. The rules here are simple enough for branch and bound to find it, with links and known
labels.
"""

import itertools
import os

import cvxpy as cp
import numpy as np

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian

QUICK = bool(os.environ.get("MMCOPT_QUICK"))
BACK_ENDS = {"CLARABEL": {}, "SCS": {"eps": 1e-5, "max_iters": 100_000}}


def exactly(problem):
    return mm.solve(problem, "BranchAndBound", seed=0, time_limit=4)


def halved(problem, group):
    """The best labels that put half of the group into each cluster: the best of all ways to."""
    ways = [way for way in itertools.combinations(group, len(group) // 2) if group[0] in way]
    found = [exactly(problem.replace(known={i: int(i in way) for i in group})) for way in ways]
    best = min(found, key=lambda r: r.objective)
    return best.objective, min(r.lower_bound for r in found)


def main():
    X, _ = mm.datasets.load("digits:3,8")
    rows = np.random.default_rng(0).choice(len(X), 14 if QUICK else 24, replace=False)
    problem = LeastSquares(X[rows], 2, kernel=Gaussian(width=0.5), lam=0.1)
    best = exactly(problem)
    i, j = map(int, np.flatnonzero(best.labels == 0)[:2])
    group = list(map(int, np.flatnonzero(best.labels == 1)[:4]))
    parted = problem.replace(cannot_link=[(i, j)])
    exact = exactly(parted)
    known = {"nothing added": (best.objective, best.lower_bound),
             "a pair apart": (exact.objective, exact.lower_bound),
             "a group halved": halved(problem, group)}

    relaxed = problem.relax("sdp")
    print(f"{relaxed}\n")
    convex, Y = relaxed.to_cvxpy(), relaxed.variables["Y"]
    rules = {"nothing added": [],
             "a pair apart": [Y[i, j] == -1],
             "a group halved": [cp.sum(Y[np.ix_(group, group)]) <= 0]}  # (2 - 2)^2
    print(f"The best labels hold {i} and {j} together: they are parted. They hold the group "
          f"{group} together:\nit is halved.\n")
    print(f"{'':16}{'back end':10}{'relaxed value':>14}{'exact bound':>13}{'objective':>11}"
          f"{'gap':>9}")
    for (name, rule), (back_end, options) in itertools.product(rules.items(), BACK_ENDS.items()):
        extended = cp.Problem(convex.objective, [*convex.constraints, *rule])
        value = extended.solve(solver=back_end, **options)
        objective, bound = known[name]
        print(f"{name:16}{back_end:10}{value:14.5f}{bound:13.5f}{objective:11.5f}"
              f"{100 * (objective - value) / objective:7.2f} %")
        assert value <= objective * (1 + 1e-4)  # the tolerance of the back ends

    print("""
relaxed value  minimum of the extended convex problem, as the back end reports it
exact bound    what trees of branch and bound prove under the same rule
objective      of the best labels under the same rule: the optimum
gap            what relaxing costs

A value that a back end reports is true up to its tolerance, and nobody has proved it. So where
a rule has a keyword, say it in the problem: then the bound comes from a dual point and is proved.
""")
    for kind in ("sdp", "sdp+cuts"):
        proved = mm.solve(parted.relax(kind), seed=0, time_limit=2)
        print(f"  problem.replace(cannot_link=...).relax({kind!r}): bound "
              f"{proved.lower_bound:.5f}, objective {exact.objective:.5f}, verified: "
              f"{bool(proved.verify())}")


if __name__ == "__main__":
    main()
