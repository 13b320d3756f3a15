"""Results are what they say where eigenvectors come with other signs, as of another BLAS."""

import dataclasses

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.formulations import CPM3C, MKC
from mmcopt.kernels import Gaussian

X = np.random.default_rng(3).standard_normal((14, 3)) + 2.0 * (np.arange(14) % 2)[:, None]


def made():
    """Results whose points, or labels, are made of eigenvectors."""
    wide, several = CPM3C(X, 2, beta=0.1, kernel=Gaussian(width=1.0)), MKC(X, 2, C=5.0)
    yield mm.solve(wide, "CuttingPlane", seed=0)
    yield mm.solve(several, "CuttingPlane", seed=0)
    for problem, kinds in ((CPM3C(X, 2, beta=0.1), ("lifted", "joint", "mmc")), (several, ("mkc",)),
                           (CPM3C(X, 3, beta=0.1), ("lifted",))):
        for kind in kinds:
            yield mm.solve(problem.relax(kind), seed=0)


@pytest.mark.parametrize("seed", range(3))
def test_no_honest_result_is_refused_where_eigenvectors_have_other_signs(monkeypatch, seed):
    results = list(made())
    eigh, rng = np.linalg.eigh, np.random.default_rng(seed)

    def flipped(A):
        w, V = eigh(A)
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
