"""What is minimised: the objective of `LeastSquares` at the labels that a solver returns."""

import numpy as np
from benchopt import BaseObjective

import mmcopt as mm
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian


class Objective(BaseObjective):
    name = "Least-squares clustering"
    min_benchopt_version = "1.6"
    requirements = ["pip::mmcopt"]
    sampling_strategy = "iteration"
    test_dataset_name = "moons"
    parameters = {"width": [0.5], "lam": [0.1]}

    def set_data(self, X, y):
        """Any other formulation may stand here: what follows asks for its labels only."""
        self.y = y
        self.problem = LeastSquares(X, int(y.max()) + 1, kernel=Gaussian(width=self.width),
                                    lam=self.lam)

    def get_objective(self):
        return {"problem": self.problem}

    def evaluate_result(self, labels):
        found = mm.evaluate(self.problem, labels)
        return {"value": found.objective, "violation": found.violation,
                "ari": mm.metrics.adjusted_rand_index(self.y, labels)}

    def get_one_result(self):
        return {"labels": np.arange(self.problem.n) % self.problem.n_clusters}
