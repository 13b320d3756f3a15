"""A problem and a solver of your own, in one script outside the package.

What it teaches: a problem that offers `LabelQuadratic` gets every label search, the bounds, the
certificates and the errors; a solver that needs `LabelQuadratic` gets every such problem. The
problem here is correlation clustering: people who like (+1) or dislike (-1) each other are to be
seated at k tables so that the fewest pairs are unhappy. The solver is Metropolis sampling.
"""

import dataclasses
import os

import numpy as np

import mmcopt as mm
from mmcopt.checks import hyper, integer, real  # the rules behind readable errors
from mmcopt.solving import Progress

QUICK = bool(os.environ.get("MMCOPT_QUICK"))


class Seating(mm.Formulation):
    """Minimise the number of friends apart and foes together: p - 1/2 sum_h z_h'A z_h."""

    default_solver = "Metropolis"

    def __init__(self, A, n_clusters=2):
        self.A, self.n_clusters, self.n = np.asarray(A, dtype=float), n_clusters, len(A)

    def objective(self, point):
        together = np.equal.outer(point, point)
        unhappy = (self.A > 0) & ~together | (self.A < 0) & together
        return float(unhappy.sum() / 2)

    def offer(self, kind):
        if kind is mm.LabelQuadratic:  # trivial: no seating makes fewer than 0 pairs unhappy
            return mm.LabelQuadratic(self.A, const=(self.A > 0).sum() / 2, scale=0.5,
                                     k=self.n_clusters, trivial=0.0)
        return None

    def violation(self, point):
        return float(self.n_clusters - len(np.unique(point)))  # no table stays empty

    def labels(self, point):
        return point

    def statement(self):
        return mm.Statement(f"Seating: {self.n} people at {self.n_clusters} tables", (
            ("minimise", "p - 1/2 sum_h z_h'A z_h   (friends apart + foes together)",
             r"p - \tfrac12 \sum_h z_h^\top A z_h"),
            ("where", "A_ij = +1 friends, -1 foes; p pairs of friends; z_h sits at table h", "")))

    def reference(self, labels=None):
        raise NotImplementedError("a cvxpy transcription, for those who want the tests of mmcopt")

    @classmethod
    def examples(cls):
        return [cls(party(9, 3, seed=s)[0], 3) for s in range(3)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metropolis(mm.Solver):
    """Move one sample at a time; accept a loss with probability exp(-loss / temperature)."""

    needs = (mm.LabelQuadratic,)
    sweeps: int = hyper(200, integer(1), "sweeps over all samples")
    hot: float = hyper(2.0, real(0, open_low=True), "first temperature, falling to 0 linearly")

    def begin(self, f, init, rng):
        lq = f.offer(mm.LabelQuadratic)
        c = lq.random_labels(rng) if init is None else lq.repair(lq.reduce(init), rng)
        return self.progress(lq, (c, lq.value(c), 0))

    def step(self, f, state, rng):
        lq = f.offer(mm.LabelQuadratic)
        W, (c, value, t) = lq.matrix.dense(), state
        temperature = self.hot * (1 - t / self.sweeps)
        c = c.copy()
        for i, d, u in zip(rng.permutation(lq.n), rng.integers(lq.k, size=lq.n),
                           rng.random(lq.n), strict=True):
            pull = W[i] @ (c == d) - W[i] @ (c == c[i]) + W[i, i]
            loss = -2 * lq.scale * pull if d != c[i] else 0.0
            if d != c[i] and u < np.exp(min(0.0, -loss / temperature)):
                moved = c.copy()
                moved[i] = d
                if lq.violation(lq.expand(moved)) == 0:  # sizes, known labels, links: all of them
                    c, value = moved, value + loss
        return self.progress(lq, (c, value, t + 1))

    def outcome(self, f, state):
        return mm.Status.CONVERGED if state[2] >= self.sweeps else None

    def progress(self, lq, state):
        return Progress(state, lq.expand(state[0]), state[1])


def party(n, k, seed, noise=0.15):
    """Signed graph of k circles of friends, some of whose feelings are the other way round."""
    rng = np.random.default_rng(seed)
    circle = np.arange(n) % k
    A = np.where(np.equal.outer(circle, circle), 1.0, -1.0)
    A = np.triu(np.where(rng.random((n, n)) < noise, -A, A), 1)
    return A + A.T, circle


def main():
    small, circle = party(11, 3, seed=1)
    problem = Seating(small, 3)
    print(f"{problem}\n\n{mm.fits(problem)}\n")
    print(f"Metropolis fits: {', '.join(mm.fits(Metropolis).names)}\n")

    result = mm.solve(problem, seed=0)  # its default solver, Metropolis
    print(result)
    print(f"{result.certify()}\n  (certify() tried every seating: the bound is the optimum)")
    print(f"{mm.certify(problem, circle)}\n  (the circles of friends, in the same words)\n")

    for wrong in (lambda: Metropolis(hot=0.0), lambda: mm.solve(problem, "Metropolys"),
                  lambda: mm.solve(problem, "Direct")):
        try:
            wrong()
        except mm.errors.MMCError as error:
            print(f"{type(error).__name__}: {error}")

    large = Seating(party(80, 4, seed=2, noise=0.3)[0], 4)
    iris = mm.formulations.LeastSquares(mm.datasets.load("iris")[0], 3, sizes=0.2,
                                        kernel=mm.kernels.Gaussian(width=0.5))
    table = mm.compare({"80 people": large, "iris": iris},
                       [Metropolis(sweeps=60 if QUICK else 200), "Shaking", "Tabu", "Memetic"],
                       seeds=2 if QUICK else 5)
    print(f"\n{table}")


if __name__ == "__main__":
    main()
