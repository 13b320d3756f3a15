"""Two half circles, one in the other."""

from benchopt import BaseDataset

import mmcopt as mm


class Dataset(BaseDataset):
    name = "moons"
    parameters = {"n": [100], "noise": [0.1]}

    def get_data(self):
        X, y = mm.datasets.load(f"moons:n={self.n},noise={self.noise},seed=0")
        return {"X": X, "y": y}
