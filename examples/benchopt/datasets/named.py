"""Any data set by the name that `mmcopt.datasets.load` takes: -d "named[source='digits:3,8']"."""

from benchopt import BaseDataset

import mmcopt as mm


class Dataset(BaseDataset):
    name = "named"
    parameters = {"source": ["digits:3,8", "digits:0,6,8,9"]}

    def get_data(self):
        X, y = mm.datasets.load(self.source)
        return {"X": X, "y": y}
