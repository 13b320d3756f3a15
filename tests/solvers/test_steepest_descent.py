"""The best move each time."""

import numpy as np

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.solvers import SteepestDescent

X = np.random.default_rng(0).standard_normal((40, 2))
F = LeastSquares(X, 3, kernel=mm.kernels.Gaussian(width=0.3))


def test_it_follows_the_steepest_path_of_a_literal_transcription():
    c = np.arange(40) % 3
    start = c.copy()
    while True:
        here, best, move = F.objective(c), -1e-9, None
        for j in range(40):
            for d in range(3):
                near = c.copy()
                near[j] = d
                if F.violation(near) == 0 and F.objective(near) - here < best:
                    best, move = F.objective(near) - here, near
        if move is None:
            break
        c = move
    r = mm.solve(F, SteepestDescent(swaps=False), init=start)
    assert r.labels.tolist() == c.tolist()


def test_swaps_matter_where_sizes_are_tight():
    tight = F.replace(sizes=mm.constraints.Sizes(exact=[13, 13, 14]))
    stuck = mm.solve(tight, SteepestDescent(swaps=False), init=np.arange(40) % 3)
    free = mm.solve(tight, SteepestDescent(), init=np.arange(40) % 3)
    assert free.objective < stuck.objective - 0.1
    assert free.violation == stuck.violation == 0


def test_the_objective_never_rises():
    h = mm.solve(F, SteepestDescent(), seed=1).history["objective"]
    assert (np.diff(h) <= 1e-9).all()
