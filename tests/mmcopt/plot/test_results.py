"""Pictures are drawn without a window and saved; what they show is read back from the axes."""

import dataclasses
import sys

import numpy as np
import pytest

import mmcopt as mm
from mmcopt.errors import BackendError, DataError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian, Linear, Precomputed
from mmcopt.modeling.result import Rung
from mmcopt.plot import plot_comparison, plot_history, plot_ladder, plot_result, plot_tree
from mmcopt.solvers import BruteForce

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed():
    plt.close("all")  # what other modules left open
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return mm.datasets.load("gaussians:n=10,distance=4,d=3,seed=0")


@pytest.fixture(scope="module")
def table(data):
    problems = {"a": LeastSquares(data[0]), "b": LeastSquares(data[0], lam=1.0)}
    table = mm.compare(problems, {"all": BruteForce(), "again": BruteForce()}, seeds=2, y=data[1])
    return table.add("given", mm.evaluate(problems["a"], data[1]), 0.1)


def _saved(ax, path):
    ax.figure.savefig(path, dpi=50)
    return path.stat().st_size > 2000


@pytest.mark.as_given
def test_plane_data_are_drawn_as_they_are(tmp_path):
    X, y = mm.datasets.load("moons:n=30,noise=0.05")
    result = mm.evaluate(LeastSquares(X), np.array(["left", "right"])[y])
    ax = result.plot()
    drawn = np.vstack([c.get_offsets() for c in ax.collections])
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, X))
    assert ax.get_xlabel() == "feature 1"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["cluster left (15)", "cluster right (15)"]
    for word in ("objective", "bound", "gap"):
        assert word in ax.get_title()
    assert _saved(ax, tmp_path / "a.png")


def test_kernel_components(data, tmp_path):
    X, y = data
    problem = LeastSquares(X, kernel=Gaussian(width=0.5))
    ax = plot_result(mm.evaluate(problem, y))
    assert ax.get_xlabel() == "first kernel principal component"
    K = problem.fitted.matrix()  # centred already
    drawn = np.asarray(np.vstack([c.get_offsets() for c in ax.collections]))
    assert np.sort((drawn**2).sum(axis=0))[::-1] == pytest.approx(np.linalg.eigvalsh(K)[:-3:-1])
    assert _saved(ax, tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["precomputed", "sparse", "nystroem", "linear"])
def test_other_data(data, kind, monkeypatch):
    X, y = data
    if kind == "sparse":
        from scipy.sparse import csr_array

        monkeypatch.setattr("mmcopt.plot.results.KERNEL_LIMIT", 5)
        problem = LeastSquares(csr_array(X), kernel=Gaussian(width=1.0))
    elif kind == "precomputed":
        problem = LeastSquares(X @ X.T + np.eye(10), kernel=Precomputed())
    elif kind == "nystroem":
        monkeypatch.setattr("mmcopt.plot.results.KERNEL_LIMIT", 5)
        problem = LeastSquares(X, kernel=Gaussian(width=1.0).nystroem(4))
    else:
        problem = LeastSquares(X[:, :1], kernel=Linear())
    drawn = np.vstack([c.get_offsets() for c in plot_result(mm.evaluate(problem, y)).collections])
    assert drawn.shape == (10, 2) and np.isfinite(drawn).all()
    assert np.abs(drawn.mean(axis=0)).max() < 1e-6


def test_sparse_components_are_those_of_the_dense_data(data, monkeypatch):
    from scipy.sparse import csr_array

    from mmcopt.plot.results import _components

    assert np.abs(_components(csr_array(data[0]))) == pytest.approx(
        np.abs(_components(data[0])), abs=1e-2)


def test_infeasible_labels_say_so(data):
    result = mm.evaluate(LeastSquares(data[0], sizes=(4, 6)), [0] * 9 + [1])
    assert "violation 3, so no gap" in plot_result(result).get_title()


def test_history(data, tmp_path):
    result = mm.solve(LeastSquares(data[0]), BruteForce())
    ax = plot_history(result)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["each step", "best so far"] and labels[2].startswith("lower bound")
    assert ax.get_xscale() == "log" and _saved(ax, tmp_path / "h.png")
    with pytest.raises(DataError, match="no history"):
        plot_history(mm.evaluate(LeastSquares(data[0]), data[1]))


RUNGS = (Rung("cheap", 0.0, -np.inf, 9.0), Rung("eig", 1e-6, 1.0, 9.0), Rung("sdp", 0.1, 2.0, 9.0),
         Rung("sdp", 1.0, 3.0, 8.0), Rung("branch-and-bound", 10.0, 6.0, 8.0))


def test_ladder(data, tmp_path):
    result = dataclasses.replace(mm.evaluate(LeastSquares(data[0]), data[1]), ladder=RUNGS)
    ax = result.plot(kind="ladder")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["gap, 25 % in the end", "best labels", "eig: 1", "sdp: 3",
                     "branch-and-bound: 6"]
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines["sdp: 3"].get_ydata()) == [2.0, 3.0]
    assert list(lines["best labels"].get_ydata()) == [9.0, 9.0, 8.0, 8.0]
    assert ax.get_xscale() == "log" and len({line.get_color() for line in ax.lines}) == 4
    assert _saved(ax, tmp_path / "l.png")
    unlucky = dataclasses.replace(result, ladder=(Rung("eig", 0.0, 1.0, np.inf),))
    assert plot_ladder(unlucky).get_xscale() == "linear"
    with pytest.raises(DataError, match="no ladder; result.certify"):
        plot_ladder(mm.evaluate(LeastSquares(data[0]), data[1]))


def test_a_climbed_ladder_is_drawn_on_the_axes_of_the_caller(data):
    left = plt.subplots(1, 2)[1][0]
    result = mm.solve(LeastSquares(data[0]), BruteForce()).certify()
    assert plot_ladder(result, ax=left) is left and len(plt.get_fignums()) == 1


def test_tree(tmp_path):
    from mmcopt.bounds import proof_tree

    X, _ = mm.datasets.load("gaussians:n=16,distance=3,seed=0")
    result = mm.solve(LeastSquares(X, lam=0.5), "BranchAndBound", seed=0)
    nodes = proof_tree(result).nodes
    ax = result.plot(kind="tree")
    assert len(ax.texts) == len(nodes)
    assert ax.texts[0].get_text() == f"all labelings\n{nodes[0].bound:.6g}"
    assert _saved(ax, tmp_path / "t.png")
    mine = plt.subplots()[1]
    assert plot_tree(result, ax=mine) is mine
    with pytest.raises(DataError, match="no tree: its certificate is 'enumeration'"):
        plot_tree(mm.solve(LeastSquares(X[:8]), BruteForce()))
    with pytest.raises(ParameterError, match="'history', 'ladder', 'tree'; got 'pie'"):
        result.plot(kind="pie")


@pytest.mark.parametrize("kind", ["time", "profile", "box"])
def test_comparison(table, kind, tmp_path):
    axes = np.ravel(np.array(table.plot(kind), dtype=object))
    assert len(axes) == (1 if kind == "profile" else 2)
    assert _saved(axes[0], tmp_path / "c.png")
    if kind != "profile":
        assert [ax.get_title() for ax in axes] == ["a", "b"]
        dashed = [line for line in axes[0].lines if line.get_linestyle() == "--"]
        assert dashed[0].get_ydata()[0] == max(r["lower_bound"] for r in table.rows
                                               if r["problem"] == "a")


def _raced(objectives, times):
    """A comparison of one solver whose runs have these histories, row by row."""
    table = mm.compare(LeastSquares(np.arange(6.0)[:, None]), BruteForce(), seeds=len(times))
    for i, (values, seconds) in enumerate(zip(objectives, times, strict=True)):
        rows = [{"restart": 0, "seconds": t, "iteration": j, "objective": v, "best": v}
                for j, (t, v) in enumerate(zip(seconds, values, strict=True))]
        table.results[i] = dataclasses.replace(table.results[i], objective=values[-1],
                                               history=mm.modeling.History(rows))
        table.rows[i]["seconds"] = seconds[-1]
    return table


def test_a_race_shows_the_median_and_a_band():
    values = [[9.0, 5.0], [8.0, 4.0], [7.0, 6.0]]
    ax = _raced(values, [[0.001, 0.01], [0.001, 0.02], [0.001, 90.0]]).plot("time")
    median = next(line for line in ax.lines if line.get_label() == "BruteForce")
    t, v = median.get_data()
    assert (t[0], t[-1]) == (pytest.approx(0.001), pytest.approx(0.02))  # not that of the slow run
    assert (v[0], v[-1]) == (8.0, 5.0) and (np.diff(v) <= 0).all()
    (band,) = ax.collections  # of three runs it holds all
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (4.0, 9.0)
    assert tuple(band.get_facecolor()[0][:3]) == matplotlib.colors.to_rgb(median.get_color())
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", "time (seconds)")
    assert "1e" not in "".join(tick.get_text() for tick in ax.get_xticklabels())


def test_runs_in_their_first_step_count_as_infinite():
    ax = _raced([[3.0, 1.0], [8.0, 8.0], [9.0, 9.0], [7.0, 7.0]],
                [[0.001, 0.5], [0.002, 0.5], [0.1, 0.5], [0.2, 0.5]]).plot("time")
    t, v = next(line for line in ax.lines if line.get_label() == "BruteForce").get_data()
    assert t[0] == pytest.approx(0.2) and v[0] == 8.0 and np.isfinite(v).all()


def test_the_legend_of_a_race_stands_beside_it(table):
    left, right = table.plot("time")
    assert left.get_legend() is None
    legend = right.get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["all", "again", "given", "lower bound"]  # the bounds of two problems differ
    assert legend.get_title().get_text() == "line: median of 2 runs\nband: all of them"
    right.figure.canvas.draw()
    assert legend.get_window_extent().x0 > right.get_window_extent().x1
    assert legend.get_window_extent().x1 <= right.figure.bbox.x1
    mine = plt.subplots(1, 2)[1]
    given = plot_comparison(table, "time", ax=mine)
    names = [text.get_text() for text in given[1].get_legend().get_texts()]
    assert names[:2] == ["all", "again"] and names[2].startswith("lower bound ")


def test_a_dozen_solvers_have_a_colour_each(data):
    solvers = {f"solver {i}": BruteForce() for i in range(12)}
    ax = mm.compare(LeastSquares(data[0]), solvers, seeds=1).plot("time")
    assert len({line.get_color() for line in ax.lines if line.get_label() in solvers}) == 12
    assert "each run" not in ax.get_legend().get_title().get_text()


def test_profile_ends_at_the_share_of_hits(table):
    ax = plot_comparison(table, "profile")
    assert [line.get_label() for line in ax.lines] == ["all", "again"]
    assert all(line.get_ydata()[-1] == 1.0 for line in ax.lines)


def test_axes_of_the_caller_are_used(table, data):
    figure, (left, right) = plt.subplots(1, 2)
    assert plot_result(mm.evaluate(LeastSquares(data[0]), data[1]), ax=left) is left
    assert list(plot_comparison(table, "time", ax=(left, right))) == [left, right]
    assert len(plt.get_fignums()) == 1


def test_bad_input(table, monkeypatch):
    with pytest.raises(ParameterError, match="must be one of 'time', 'box', 'profile', 'data'"):
        table.plot("pie")
    with pytest.raises(ParameterError, match="needs 2 axes; got 1"):
        table.plot("time", ax=plt.subplots()[1])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(BackendError, match="drawing needs matplotlib: pip install 'mmcopt.plot.'"):
        table.plot("time")
