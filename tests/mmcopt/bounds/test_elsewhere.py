"""Results are what they say where eigenvectors come as another BLAS would choose them."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian

ROUND = np.array([(np.cos(a), np.sin(a)) for a in 2 * np.pi * np.arange(12) / 12])  # equal ones
HALVES = np.arange(12) // 6
X = np.random.default_rng(3).standard_normal((14, 3)) + 2.0 * (np.arange(14) % 2)[:, None]


@functools.cache
def made():
    """Results whose points, or labels, are made of eigenvectors."""
    return list(_made())


def _made():
    for kernel in (Gaussian(width=1.0), Gaussian(width=1.0).nystroem(12),
                   Gaussian(width=1.0).pca(0.9), Gaussian(width=1e-3)):
        yield mm.solve(CPM3C(ROUND, 2, beta=0.03, kernel=kernel), "CuttingPlane", init=HALVES)
    wide, several = CPM3C(X, 2, beta=0.1, kernel=Gaussian(width=1.0)), MKC(X, 2, C=5.0)
    yield mm.solve(wide, "CuttingPlane", seed=0)
    yield mm.solve(several, "CuttingPlane", seed=0)
    for problem, kinds in ((CPM3C(X, 2, beta=0.1), ("lifted", "joint", "mmc")), (several, ("mkc",)),
                           (CPM3C(X, 3, beta=0.1), ("lifted",))):
        for kind in kinds:
            yield mm.solve(problem.relax(kind), seed=0)


@pytest.mark.parametrize("seed", range(3))
def test_no_honest_result_is_refused_where_eigenvectors_are_others(monkeypatch, seed):
    results = made()
    eigh, rng = np.linalg.eigh, np.random.default_rng(seed)

    def flipped(A):
        w, V = eigh(A)
        for a, b in itertools.pairwise([0, *(np.flatnonzero(np.diff(w) > 1e-9 * w[-1]) + 1), None]):
            Q, _ = np.linalg.qr(rng.standard_normal((V[:, a:b].shape[1],) * 2))
            V[:, a:b] = V[:, a:b] @ Q
        signs = rng.choice([-1.0, 1.0], V.shape[:-2] + (1, V.shape[-1]))
        return w, V * (-np.ones_like(signs) if seed == 0 else signs)

    monkeypatch.setattr(np.linalg, "eigh", flipped)
    for result in results:
        report = result.verify()
        assert report, f"{result}: {report}"


def test_labels_of_a_relaxation_that_are_worse_are_refused():
    result = mm.solve(CPM3C(X, 2, beta=0.1).relax("lifted"), seed=0)
    assert result.verify()
    assert dataclasses.replace(result, labels=1 - result.labels).verify()  # another name
    assert not dataclasses.replace(result, labels=np.arange(14) % 14 // 7).verify()
