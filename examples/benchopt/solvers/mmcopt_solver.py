"""Solvers of mmcopt by their names: `mmcopt describe` lists them."""

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

import mmcopt as mm
from mmcopt import registry


class Solver(BaseSolver):
    name = "mmcopt"
    sampling_strategy = "iteration"
    stopping_criterion = SufficientProgressCriterion(patience=5)
    parameters = {"solver": ["Shaking", "Tabu", "KernighanLin", "Memetic"], "seed": [0]}

    def skip(self, problem):
        reason = registry.solver(self.solver)().refuses(problem)
        return reason is not None, reason

    def set_objective(self, problem):
        self.problem, self.chosen = problem, registry.solver(self.solver)()

    def warm_up(self):
        """Make the kernel and compile the loops, which all share."""
        self.chosen.prepare(self.problem)

    def run(self, n_iter):
        """So many steps from the start of the seed; more of them go on along the same way."""
        if n_iter == 0:  # before the first step: clusters one after another
            self.labels = np.arange(self.problem.n) % self.problem.n_clusters
            return
        self.labels = mm.solve(self.problem, self.chosen, seed=self.seed, max_iter=n_iter,
                               bound=False).labels

    def get_result(self):
        return {"labels": self.labels}
