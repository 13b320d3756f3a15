"""Pictures of domains: what is on them, and where they cannot be drawn."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import mmcopt as mm
from mmcopt.assignment import equilibrium, graph, level_tree
from mmcopt.errors import DataError
from mmcopt.formulations import OneClassHinge
from mmcopt.kernels import Gaussian
from mmcopt.plot.domains import plot_assignment, plot_dendrogram


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def solved():
    X, _ = mm.datasets.load("moons:n=120,noise=.08,seed=0")
    return mm.solve(OneClassHinge(X, C=60.0, kernel=Gaussian(gamma=8.0)), seed=0)


def written(ax, path):
    ax.figure.savefig(path)
    return plt.imread(path).std() > 0.01


def test_the_sides_of_a_domain_are_not_called_clusters(solved):
    names = [text.get_text() for text in solved.plot().get_legend().get_texts()]
    assert [name.split()[0] for name in names] == ["outside", "inside"]


def test_a_domain_shows_every_sample_and_its_boundary(solved, tmp_path):
    ax = solved.plot(kind="domain")
    clusters = graph(solved)
    drawn = sum(len(c.get_offsets()) for c in ax.collections if c.get_offsets().shape[1:] == (2,)
                and len(c.get_offsets()) < 121 and not c.get_label().startswith("on"))
    assert drawn >= 120
    names = [t.get_text() for t in ax.get_legend().get_texts()]
    assert {"on the boundary", "segments inside"} <= set(names)
    assert ("outside" in names) == clusters.outside.any()
    assert str(clusters) in ax.get_title()
    assert written(ax, tmp_path / "a.png")


def test_trajectories_end_at_equilibria(solved, tmp_path):
    clusters = equilibrium(solved, trajectories=True)
    mine = plt.subplots()[1]
    assert plot_assignment(clusters, ax=mine) is mine
    ways = [line.get_xydata() for line in mine.lines]
    assert len(ways) == len(clusters.anchors)
    ends = np.array([way[-1] for way in ways])
    near = np.linalg.norm(ends[:, None] - clusters.equilibria[None], axis=2).min(axis=1)
    assert near.max() < 1e-2
    assert written(mine, tmp_path / "b.png")


def test_a_dendrogram_of_peaks(solved, tmp_path):
    clusters = level_tree(solved)
    ax = plot_dendrogram(clusters)
    assert written(ax, tmp_path / "c.png")
    with pytest.raises(DataError, match="graph makes no tree"):
        plot_dendrogram(graph(solved))


def test_more_than_two_features_are_refused():
    X, _ = mm.datasets.load("iris")
    result = mm.solve(OneClassHinge(X, C=150.0, kernel=Gaussian(gamma=1.0)), seed=0)
    with pytest.raises(DataError, match="two features and a Gaussian kernel; got 4 features"):
        result.plot(kind="domain")
