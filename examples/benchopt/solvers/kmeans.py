"""k-means of scikit-learn, which sees the samples and not the problem."""

import numpy as np
from benchopt import BaseSolver
from sklearn.cluster import KMeans


class Solver(BaseSolver):
    name = "kmeans"
    sampling_strategy = "iteration"
    requirements = ["pip::scikit-learn"]
    parameters = {"seed": [0]}

    def skip(self, problem):
        return problem.embedding() is None, "it needs the samples as vectors"

    def set_objective(self, problem):
        self.X, self.k, self.n = problem.embedding(), problem.n_clusters, problem.n

    def run(self, n_iter):
        self.labels = np.arange(self.n) % self.k
        if n_iter:
            model = KMeans(self.k, n_init=1, max_iter=n_iter, random_state=self.seed)
            self.labels = model.fit(self.X).labels_

    def get_result(self):
        return {"labels": self.labels}
