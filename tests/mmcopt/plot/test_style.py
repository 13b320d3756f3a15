"""All kinds of pictures, on bright and on dark paper: all is seen, and nothing is covered."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.assignment import equilibrium, graph, level_tree
from mmcopt.formulations import CPM3C, LeastSquares, OneClassHinge
from mmcopt.kernels import Gaussian
from mmcopt.plot import draw
from mmcopt.plot.kinds import KINDS
from mmcopt.plot.style import CONTRAST, PALETTE, ink, legible, palette, paper, shade
from mmcopt.solvers import BranchAndBound, BruteForce, Tabu

matplotlib = pytest.importorskip("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
PAPERS = ("default", "dark_background")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sources():
    """What is drawn: results, clusters of a domain, a comparison, a grid."""
    X, y = mm.datasets.load("blobs:n=60,k=5,sd=.5,seed=1")
    labels = LeastSquares(X, 5, kernel=Gaussian(width=0.3), lam=0.01)
    few = LeastSquares(mm.datasets.load("gaussians:n=9,distance=2")[0], lam=0.05)
    domain = mm.solve(OneClassHinge(X, C=60.0, kernel=Gaussian(gamma=1.0)), seed=0)
    return {"labels": mm.solve(labels, Tabu(), seed=0, max_iter=50),
            "margins": mm.solve(CPM3C(X, 3, size_floor=0.5), seed=0, max_iter=3, init="kmeans"),
            "climbed": mm.solve(few, BruteForce(), seed=0).certify(time_limit=5),
            "tree": mm.solve(few, BranchAndBound(enumerate=1, root_rounds=1, node_rounds=1),
                             seed=0),
            "domain": domain, "graph": graph(domain), "level": level_tree(domain, 3),
            "equilibrium": equilibrium(domain, trajectories=True),
            "compared": mm.compare({"few": few}, {"one": BruteForce(), "other": BruteForce()},
                                   seeds=2)}


PICTURES = {
    **{kind: (lambda s, kind=kind: s["labels"].plot(kind=kind))
       for kind in ("clusters", "regions", "sizes", "kernel", "history")},
    "margins": lambda s: s["margins"].plot(kind="regions"),
    "floor": lambda s: s["margins"].plot(kind="sizes"),
    "ladder": lambda s: s["climbed"].plot(kind="ladder"),
    "tree": lambda s: s["tree"].plot(kind="tree"),
    "domain": lambda s: s["domain"].plot(kind="domain"),
    "sides": lambda s: s["domain"].plot(),
    "equilibrium": lambda s: s["equilibrium"].plot(),
    "level domain": lambda s: s["level"].plot(),
    "level tree": lambda s: s["level"].plot(kind="tree"),
    **{f"comparison {kind}": (lambda s, kind=kind: s["compared"].plot(kind))
       for kind in ("time", "box", "data", "profile")},
}


def luminance(colour):
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    return float(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
                 @ (0.2126, 0.7152, 0.0722))


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def strokes(ax):
    """The colours of lines, dots and words on the paper, not on pictures and in boxes."""
    for line in ax.lines:
        if len(line.get_xdata()) and line.get_alpha() is None and not ax.images:
            yield line.get_label(), line.get_color()
    for group in ax.collections:
        if isinstance(group, matplotlib.collections.LineCollection):
            yield group.get_label(), group.get_colors()[0]
        elif isinstance(group, matplotlib.contour.ContourSet) and not group.filled:
            yield "a contour", group.get_edgecolor()[0]
        elif len(group.get_offsets()) and isinstance(group, matplotlib.collections.PathCollection):
            faces = group.get_facecolor()
            yield group.get_label(), (faces if len(faces) else group.get_edgecolor())[0][:3]
    for text in ax.texts:
        if text.get_bbox_patch() is None:
            yield text.get_text(), text.get_color()


@pytest.mark.parametrize("style", PAPERS)
@pytest.mark.parametrize("name", PICTURES)
def test_everything_is_seen_on_bright_and_on_dark_paper(sources, name, style, tmp_path):
    with plt.style.context(style):
        ax = PICTURES[name](sources)
        seen = list(strokes(ax))
        for what, colour in seen:
            assert contrast(colour[:3] if len(colour) == 4 else colour, paper(ax)) > 1.9, what
        for text in ax.texts:
            if box := text.get_bbox_patch():
                assert contrast(text.get_color(), box.get_facecolor()[:3]) > 4.5
        assert seen or ax.images or ax.patches or ax.texts
        for ending in ("png", "svg"):
            ax.figure.savefig(tmp_path / f"a.{ending}", dpi=40)
            assert (tmp_path / f"a.{ending}").stat().st_size > 1000


@pytest.mark.parametrize("name", [n for n in PICTURES if n not in ("kernel", "tree", "sizes",
                                                                   "level tree", "comparison box")])
def test_legends_stand_beside_what_they_explain(sources, name):
    ax = PICTURES[name](sources)
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert legend.x0 > ax.get_window_extent().x1
    assert legend.x1 <= ax.figure.bbox.x1 + 1 and legend.y0 >= 0


def test_all_kinds_of_results_are_among_these_pictures():
    assert set(KINDS) <= set(PICTURES)


# ---------------------------------------------------------------- colours


@pytest.mark.parametrize("colour", PALETTE)
def test_colours_are_as_light_as_they_must_be(colour):
    bright, dark = plt.subplots()[1], plt.subplots(facecolor="black")[1]
    dark.set_facecolor("black")
    assert legible(bright, colour) == matplotlib.colors.to_rgb(colour)
    assert contrast(legible(dark, colour), "black") >= CONTRAST


def test_papers_and_inks():
    ax = plt.subplots()[1]
    assert paper(ax) == (1, 1, 1) and ink(ax) == (0, 0, 0) and shade(ax, 0.25)[0] == 0.75
    ax.set_facecolor("none")
    ax.figure.set_facecolor("#101010")
    assert ink(ax) == (1, 1, 1) and paper(ax)[0] == pytest.approx(16 / 255)
    ax.figure.set_facecolor("none")  # as notebooks have it: the page behind is taken for white
    assert paper(ax) == (1, 1, 1)
    assert len(set(palette(ax))) == len(PALETTE)


# ---------------------------------------------------------------- what is drawn where


def test_many_clusters_have_their_names_on_a_sample_of_theirs(sources):
    result = sources["labels"]
    ax = result.plot()
    named = {text.get_text(): tuple(text.xy) for text in ax.texts}
    assert sorted(named) == ["0", "1", "2", "3", "4"]
    X = result.formulation.X
    for name, place in named.items():
        assert place in set(map(tuple, X[np.asarray(result.labels) == int(name)]))
    assert not sources["margins"].plot().texts  # three are told apart without


def test_equilibria_have_no_colour_of_a_cluster(sources):
    ax = sources["equilibrium"].plot()
    (stars,) = [c for c in ax.collections if c.get_label() == "equilibria"]
    assert tuple(stars.get_facecolor()[0][:3]) not in palette(ax)[:-1]


def test_a_level_tree_has_the_colours_of_its_clusters_and_their_cuts(sources):
    clusters = sources["level"]
    tree, ax = clusters.tree, clusters.plot(kind="tree")
    colours = palette(ax)
    upright = {int(t.get_text()): line for t, line in zip(
        ax.get_xticklabels(), sorted((li for li in ax.lines if len(li.get_xdata()) == 2
                                      and li.get_xdata()[0] == li.get_xdata()[1]),
                                     key=lambda li: li.get_xdata()[0]), strict=True)}
    assert set(upright) == {tree.root, *(m.peak for m in tree.merges)}
    for peak, line in upright.items():
        assert line.get_color() == colours[clusters.labels[peak]]
        assert max(line.get_ydata()) == tree.domain.f[peak]
    for m in tree.merges:
        assert min(upright[m.peak].get_ydata()) == m.height
    rings = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines
             if line.get_marker() == "o"]
    assert len(rings) == clusters.n_clusters - 1 == 2
    assert [y for _, y in rings] == [m.height for m in tree.merges[:2]]
    crossed = [li for li in ax.lines if len(li.get_xdata()) == 2
               and li.get_ydata()[0] == li.get_ydata()[1]]
    for flat in crossed:
        left, right = sorted(flat.get_xdata())
        for line in upright.values():
            x, (low, high) = line.get_xdata()[0], sorted(line.get_ydata())
            assert not (left < x < right and low < flat.get_ydata()[0] < high)


def test_the_bound_of_a_box_plot_has_its_name_below_it(sources):
    ax = sources["compared"].plot("box")
    (words,) = [t for t in ax.texts if t.get_text().startswith("lower bound")]
    ax.figure.canvas.draw()
    (line,) = [li for li in ax.lines if str(li.get_label()).startswith("lower bound")]
    y = ax.transData.transform((0, line.get_ydata()[0]))[1]
    box = words.get_window_extent()
    assert box.y1 <= y and box.y0 >= ax.get_window_extent().y0
    assert ax.get_legend() is None


# ---------------------------------------------------------------- regions, sizes, kernels


def test_regions_are_where_new_samples_fall_and_margins_where_scores_differ_by_one(sources):
    result = sources["margins"]
    ax = draw(result, "regions")
    (image,) = ax.images
    colours, picture = np.array(palette(ax)), np.asarray(image.get_array())[..., :3]
    left, right, low, high = image.get_extent()
    n = picture.shape[0]
    x, y = np.linspace(left, right, n), np.linspace(low, high, n)
    for i, j in ((0, 0), (n // 2, n // 3), (n - 1, n // 2)):
        found = result.predict(np.array([[x[j], y[i]]]))[0]
        np.testing.assert_allclose(picture[i, j], colours[found])
    assert "margin 1" in [t.get_text() for t in ax.get_legend().get_texts()]
    dashed = ax.collections[-4]  # before the samples of three clusters
    places = np.concatenate([path.vertices for path in dashed.get_paths()])
    scores = np.sort(result.decision_function(places), axis=1)
    assert np.median(abs(scores[:, -1] - scores[:, -2] - 1.0)) < 0.02


def test_regions_of_labels_have_no_margins(sources):
    ax = draw(sources["labels"], "regions")
    assert not any(t.get_text().startswith("margin") for t in ax.get_legend().get_texts())
    assert len(ax.images) == 1


def test_sizes_are_counted_beside_what_is_allowed(sources):
    ax = draw(sources["labels"], "sizes")
    counts = np.bincount(sources["labels"].labels)
    assert [bar.get_height() for bar in ax.patches] == counts.tolist()
    assert [t.get_text() for t in ax.texts] == [str(c) for c in counts]
    assert ax.get_legend() is None
    X, y = mm.datasets.load("gaussians:n=20")
    ax = draw(mm.evaluate(LeastSquares(X, sizes=0.2), y), "sizes")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["at least 8", "at most 12"]
    ax = draw(sources["margins"], "sizes")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["at least 10"]


def test_kernels_are_drawn_in_the_order_of_clusters(sources):
    result = sources["labels"]
    ax = draw(result, "kernel")
    order = np.argsort(result.labels, kind="stable")
    K = result.formulation.fitted.matrix()[np.ix_(order, order)]
    np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()), K)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1", "2", "3", "4"]
    f = sources["margins"].formulation
    order = np.argsort(sources["margins"].labels, kind="stable")
    features = f.features.dense()[order]
    np.testing.assert_allclose(np.asarray(draw(sources["margins"], "kernel").images[0].get_array()),
                               features @ features.T)


def test_pictures_that_cannot_be_drawn_say_why(sources, monkeypatch):
    X, y = mm.datasets.load("gaussians:n=20,d=3")
    flat = mm.evaluate(LeastSquares(X), y)
    sparse = mm.evaluate(LeastSquares(csr_array(X[:, :2])), y)
    for result, kind, words in (
            (flat, "regions", "two features; kind='clusters' draws the others"),
            (sources["domain"], "regions", "a domain is drawn by kind='domain'"),
            (sources["labels"], "domain", "those of one-class problems; this is LeastSquares"),
            (sparse, "regions", "of dense samples with two features; kind='clusters'"),
            (sources["domain"], "nothing", "kind must be one of 'clusters', 'regions', 'sizes'")):
        with pytest.raises((mm.errors.DataError, mm.errors.ParameterError), match=words):
            draw(result, kind)
    monkeypatch.setattr("mmcopt.plot.regions.KERNEL_LIMIT", 10)
    with pytest.raises(mm.errors.DataError, match="20 samples is too large to draw"):
        draw(flat, "kernel")
