"""Widgets without a front end: sliders are moved and buttons pressed by the program."""

import base64
import io
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

import mmcopt as mm
from mmcopt.errors import BackendError, DataError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian


@pytest.fixture
def widgets():
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    return mm.plot.widgets


@pytest.fixture
def moons():
    return mm.datasets.load("moons:n=40,noise=.05")[0]


def size(panel):
    """Width and height of the picture."""
    import matplotlib.pyplot as plt

    return plt.imread(io.BytesIO(panel.picture.value)).shape[:2]


# ---------------------------------------------------------------- clusters under sliders


def test_sliders_solve_again_and_draw(widgets, moons):
    panel = widgets.partition(moons, seconds=0.05)
    first = panel.result
    assert first.formulation.kernel == Gaussian(width=0.5) and first.formulation.lam == 0.1
    assert size(panel)[0] > 300 and panel.words.value.startswith(first.summary())
    before = panel.picture.value
    panel.lam.value = 0.01
    assert panel.result is not first and panel.result.formulation.lam == pytest.approx(0.01)
    assert panel.picture.value != before
    panel.width.value = 1.0
    assert panel.result.formulation.kernel.width == pytest.approx(1.0)
    panel.clusters.value = 3
    assert len(np.unique(panel.result.labels)) == 3


def test_a_move_goes_on_from_the_labels_before(widgets, moons, monkeypatch):
    starts = []

    def solve(problem, *, init=None, **options):
        starts.append(init)
        return mm.solve(problem, init=init, **options)

    monkeypatch.setattr(widgets, "solve", solve)
    panel = widgets.partition(moons, seconds=0.02)
    labels = panel.result.labels
    panel.lam.value = 1.0
    panel.clusters.value = 4
    assert starts[0] is None and starts[2] is None and np.array_equal(starts[1], labels)


def test_regions_are_drawn_of_two_features_alone(widgets, moons, monkeypatch):
    kinds = []
    monkeypatch.setattr(widgets, "draw", lambda result, kind, ax: kinds.append(kind))
    widgets.partition(moons, seconds=0.02)
    panel = widgets.partition(np.c_[moons, moons[:, 0]], seconds=0.02)
    widgets.partition(moons, 1, seconds=0.02)
    assert kinds == ["regions", "clusters", "clusters"] and panel.clusters.max == 10


def test_cautions_stand_in_the_panel(widgets, moons):
    panel = widgets.partition(moons, seconds=0.02)
    panel.lam.value = 1.0  # smooths so much that solve warns
    assert " | LeastSquares: the fits follow" in panel.words.value


def test_sparse_samples_of_two_features_are_drawn_without_regions(widgets, moons):
    panel = widgets.partition(csr_array(moons), seconds=0.02)
    assert size(panel)[0] > 300 and "LeastSquares" in panel.words.value


def test_what_cannot_be_solved_is_a_sentence_in_the_panel(widgets, moons):
    panel = widgets.partition(moons[:4], seconds=0.02)
    before = panel.picture.value
    panel.clusters.value = 7
    assert "4 samples cannot fill 7 clusters" in panel.words.value
    assert panel.picture.value == before


# ---------------------------------------------------------------- the ladder


@pytest.fixture
def problem():
    return LeastSquares(mm.datasets.load("gaussians:n=10,distance=2")[0], lam=0.05)


def test_the_button_climbs(widgets, problem):
    panel = widgets.ladder(problem, seconds=5)
    assert panel.result is None and not panel.picture.value and "Climb" in panel.words.value
    panel.button.click()
    assert panel.result.status is mm.Status.CERTIFIED and panel.result.ladder
    assert size(panel)[0] > 300 and not panel.button.disabled
    assert "certified" in panel.words.value and "certified" in repr(panel)


def test_a_result_with_a_ladder_shows_it_at_once(widgets, problem):
    result = mm.solve(problem, seed=0)
    assert not widgets.ladder(result).picture.value
    climbed = result.certify(time_limit=5)
    panel = widgets.ladder(climbed)
    assert panel.picture.value and panel.result is climbed


def test_the_picture_follows_the_climb_but_not_too_often(widgets, problem, monkeypatch, ticking):
    panel = widgets.ladder(mm.solve(problem, seed=0))
    shown = []
    monkeypatch.setattr(panel, "_show", lambda result, kind, words="": shown.append(result))
    watch = widgets._Watch(panel, panel.result)
    ticking(0.2)  # at each look
    for i in range(7):
        watch(mm.modeling.result.Rung("sdp", 0.1 * i, 1.0 + i, 20.0))
    assert [len(result.ladder) for result in shown] == [1, 4, 7]
    assert shown[-1].lower_bound == 7.0
    watch(mm.modeling.result.Rung("sdp", 1.0, -np.inf, 20.0))
    assert len(shown) == 3


def test_a_refusal_leaves_the_button_free(widgets, problem, monkeypatch):
    def breaks(*_, **__):
        raise BackendError("the back end <gave> up.")

    monkeypatch.setattr(widgets, "solve", breaks)
    panel = widgets.ladder(problem)
    panel.button.click()
    assert panel.words.value == "the back end &lt;gave&gt; up." and not panel.button.disabled


# ---------------------------------------------------------------- where no front end is


def test_pages_without_widgets_show_the_picture(widgets, problem):
    panel = widgets.ladder(mm.solve(problem, seed=0).certify(time_limit=5))
    bundle = panel._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == panel.picture.value
    assert bundle["text/plain"].startswith("Ladder: ")
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "image/png" not in widgets.ladder(problem)._repr_mimebundle_()


def test_wrong_arguments(widgets, moons):
    with pytest.raises(ParameterError, match="ladder: a result or a problem is expected; got list"):
        widgets.ladder([1, 2])
    with pytest.raises(ParameterError, match="partition: n_clusters must be"):
        widgets.partition(moons, 0)
    with pytest.raises(ParameterError, match="partition: seconds must be"):
        widgets.partition(moons, seconds=-1)
    with pytest.raises(DataError, match="partition: X"):
        widgets.partition("moons")


def test_without_ipywidgets_one_sentence_says_what_to_install(moons, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(BackendError, match=r"pip install 'mmcopt\[plot,widgets\]'"):
        mm.plot.widgets.partition(moons)
    with pytest.raises(BackendError, match=r"pip install 'mmcopt\[plot,widgets\]'"):
        mm.plot.widgets.ladder(LeastSquares(moons))
