"""The eigenvalue bound of k-means and its kin: below all labels, and the textbook's value."""

import itertools

import numpy as np
import pytest

from mmcopt.bounds import certificates
from mmcopt.bounds.ratio_spectrum import ratio_eig_bound, sum_of_largest
from mmcopt.capabilities import LabelRatio
from mmcopt.capabilities.matrices import LowRank


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_no_labels_are_below_the_bound(count):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n, k, r = int(rng.integers(4, 8)), int(rng.integers(1, 4)), int(rng.integers(1, 9))
        Psi, v = rng.standard_normal((n, r)), rng.uniform(0.1, 3.0, n)
        if seed % 3 == 0:
            Psi -= np.outer(v, v @ (Psi / v[:, None]) / v.sum())  # the mean is 0
        W = LowRank(Psi) if seed % 2 else Psi @ Psi.T - (seed % 5) * np.eye(n) / 4
        ratio = LabelRatio(W, const=10.0, k=k, volumes=v)
        rows = np.array(list(itertools.product(range(k), repeat=n)))
        rows = rows[[len(set(c)) == k for c in rows.tolist()]]
        best = float((10.0 - ratio.associations(rows)).min())
        bound = ratio_eig_bound(ratio)
        assert bound <= best
        assert certificates.BOUNDS["eig"](ratio, {"t": float(rng.normal())}) == bound


def test_it_is_the_bound_of_the_textbook():
    X = np.random.default_rng(0).standard_normal((30, 5))
    X -= X.mean(axis=0)
    ratio = LabelRatio(LowRank(X), const=float((X * X).sum()), k=4)
    expected = np.linalg.eigvalsh(X.T @ X)[:2].sum()  # of five, k - 1 are taken away
    assert ratio_eig_bound(ratio) == pytest.approx(expected, rel=1e-9)
    dense = LabelRatio(X @ X.T, const=float((X * X).sum()), k=4)
    assert ratio_eig_bound(dense) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("m", [1, 7, 450])
def test_the_sum_of_the_largest_eigenvalues_is_never_below_itself(m):
    A = np.random.default_rng(m).standard_normal((m, m))
    A = A @ A.T
    w = np.linalg.eigvalsh(A)[::-1]
    for j in (0, 1, min(5, m), m):
        bound = sum_of_largest(A, j, 0.0)
        assert w[:j].sum() * (1 - 1e-12) <= bound <= w[:j].sum() * (1 + 1e-8) + 1e-300
