"""A signed graph that chooses its own number of clusters.

What it teaches: a cluster of a `LabelQuadratic` may be empty where ``low=0`` is given, so that k is
the most clusters there may be, and the data say how many there are. The problem is correlation
clustering: pairs that agree (+) or disagree (-), some strongly, are to be put together or apart so
that least weight of them is unhappy. With one cluster a node allowed, the number is free, and the
partition relaxation with its cuts proves the answer.
"""

import os

import numpy as np
from scipy.sparse import csr_array

import mmcopt as mm

QUICK = bool(os.environ.get("MMCOPT_QUICK"))


class Agreement(mm.Formulation):
    """Minimise the weight of the pairs that agree and are apart, or disagree and are together."""

    default_solver = "Memetic"

    def __init__(self, A, most=None):
        self.A, self.most = csr_array(A, dtype=float), most
        self.n = self.A.shape[0]

    def objective(self, point):
        pairs = self.A.tocoo()
        together = point[pairs.row] == point[pairs.col]
        return float(np.abs(pairs.data[together == (pairs.data < 0)]).sum() / 2)

    def offer(self, kind):
        if kind is mm.LabelQuadratic:
            agree = self.A.data[self.A.data > 0].sum() / 2
            return mm.LabelQuadratic(self.A, const=agree, scale=0.5, k=self.most or self.n, low=0,
                                     trivial=0.0)
        return None

    def violation(self, point):
        return 0.0  # all labels are allowed, and clusters may be empty

    def labels(self, point):
        return point

    def statement(self):
        return mm.Statement(f"Agreement: {self.n} nodes, {self.A.nnz // 2} signed edges", (
            ("minimise", "p - 1/2 sum_h z_h'A z_h   (agreeing apart + disagreeing together)",
             r"p - \tfrac12 \sum_h z_h^\top A z_h"),
            ("over", f"c in {{0..{(self.most or self.n) - 1}}}^{self.n}, clusters may be empty",
             "")))

    def reference(self, labels=None):
        raise NotImplementedError("a cvxpy transcription, for those who want the tests of mmcopt")

    @classmethod
    def examples(cls):
        return [cls(opinions(6, 2, seed=s)[0]) for s in range(3)]


def opinions(n, k, seed, known=1.0, wrong=0.1):
    """Agreement within k groups and not between them; ``wrong`` says how much of it is noise."""
    rng = np.random.default_rng(seed)
    group = rng.integers(k, size=n)
    A = np.where(np.equal.outer(group, group), 1.0, -1.0) * rng.integers(1, 4, (n, n))
    A = np.where(rng.random((n, n)) < wrong, -A, A) * (rng.random((n, n)) < known)
    A = np.triu(A, 1)
    return A + A.T, group


def main():
    A, group = opinions(18 if QUICK else 30, 4, seed=1)
    problem = Agreement(A)
    print(f"{problem}\n")
    result = mm.solve(problem, seed=0).certify(time_limit=5 if QUICK else 30)
    found = len(np.unique(result.labels))
    agreement = mm.metrics.adjusted_rand_index(group, result.labels)
    print(f"{result}\n  {found} clusters of {len(np.unique(group))} groups, ARI {agreement:.2f}\n")

    n = 600 if QUICK else 4000
    thin, group = opinions(n, 6, seed=2, known=40.0 / n)
    large = mm.solve(Agreement(thin, most=12), "Annealing", seed=0)
    print(f"{n} nodes, {np.count_nonzero(thin) // 2} edges: {large}\n  "
          f"{len(np.unique(large.labels))} clusters of up to 12, "
          f"ARI {mm.metrics.adjusted_rand_index(group, large.labels):.2f}\n")

    print("clusters allowed   used   objective   bound     gap")
    for most in (2, 3, 6, problem.n):
        allowed = problem.replace(most=most)
        answer = mm.solve(allowed, seed=0).certify(time_limit=2 if QUICK else 10)
        print(f"{most:16d} {len(np.unique(answer.labels)):6d} {answer.objective:11g} "
              f"{answer.lower_bound:7.4g} {answer.gap:7.1%}")


if __name__ == "__main__":
    main()
