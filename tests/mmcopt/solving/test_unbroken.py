"""A run that is a means to an end hands Ctrl-C on: what it found so far is of no use to anybody."""

import numpy as np
import pytest

from mmcopt.formulations import CPM3C, KernelKMeans
from mmcopt.reproduce import margin_protocol
from mmcopt.solvers import CuttingPlane, Hartigan, Tabu
from mmcopt.solving import label_search, ratio_search

X = np.random.default_rng(0).standard_normal((30, 3))


def test_loops_that_are_warmed_do_not_swallow_it(monkeypatch):
    for search in (Hartigan, Tabu):
        monkeypatch.setattr(search, "step", _stop)
    monkeypatch.setattr(ratio_search, "_warmed", set())
    with pytest.raises(KeyboardInterrupt):
        Hartigan().prepare(KernelKMeans(X, 2))
    with pytest.raises(KeyboardInterrupt):
        Tabu().warm(label_search.toy_problem(np.float64))


def test_nor_do_the_fits_of_a_paper(monkeypatch):
    monkeypatch.setattr(CuttingPlane, "step", _stop)
    with pytest.raises(KeyboardInterrupt):
        margin_protocol.fits(CPM3C(X, 2), 1)


def _stop(*args, **kwargs):
    raise KeyboardInterrupt
