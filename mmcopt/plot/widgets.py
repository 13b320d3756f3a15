"""Pictures of notebooks that answer: the ladder of bounds as it climbs, clusters under sliders.

Public are `ladder` and `partition`, which need ipywidgets (``pip install 'mmcopt[plot,widgets]'``).
Where no front end shows widgets, as on a page that a notebook was made into, the picture stands
there as it was.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import html
import io
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.checks import data_matrix, integer, is_sparse, real
from mmcopt.errors import BackendError, MMCError, MMCWarning, ParameterError
from mmcopt.kernels import Gaussian
from mmcopt.modeling import Formulation, Result
from mmcopt.modeling.result import Rung
from mmcopt.plot.kinds import draw
from mmcopt.plot.style import pyplot
from mmcopt.solving import solve

__all__ = ["Ladder", "Partition", "ladder", "partition"]

EVERY = 0.5  # seconds between two pictures of a climb
SEARCH = 0.1  # of these seconds to look for labels, where there are none yet, come on top


def ladder(source: Result | Formulation, *, seconds: float = 10.0) -> Ladder:
    """A button that raises the bound of a result, or of a problem, and a picture that follows.

    What is shown last is ``result`` of what comes back.

    Parameters
    ----------
    source
        A result; or a problem, which is solved first.
    seconds
        How long a climb lasts, unless another number is typed beside the button.
    """
    if not isinstance(source, Result | Formulation):
        raise ParameterError(f"ladder: a result or a problem is expected; got "
                             f"{type(source).__name__}.")
    real(0).check("ladder", "seconds", seconds)
    return Ladder(source, seconds)


def partition(X: Any, n_clusters: int = 2, *, seed: int = 0, seconds: float = 0.5) -> Partition:
    """Sliders for lambda, the width of a Gaussian kernel and the number of clusters.

    With each move ``LeastSquares`` is solved again, from the labels before, and the clusters are
    drawn; of two features with the regions where new samples would fall. What is shown last is
    ``result`` of what comes back.

    Parameters
    ----------
    X
        Samples (n, d).
    n_clusters
        The number of clusters at first.
    seed
        Of each solve.
    seconds
        At most, for each solve.
    """
    data = data_matrix(X, owner="partition")
    integer(1).check("partition", "n_clusters", n_clusters)
    integer(0).check("partition", "seed", seed)
    real(0).check("partition", "seconds", seconds)
    return Partition(data, n_clusters, seed, seconds)


def _widgets() -> Any:
    """Import ipywidgets, or say how to get it."""
    try:
        import ipywidgets
    except ImportError as e:
        raise BackendError("widgets need ipywidgets: pip install 'mmcopt[plot,widgets]'.") from e
    return ipywidgets


@contextlib.contextmanager
def _cautions() -> Iterator[list[str]]:
    """The texts of warnings, which a panel shows itself."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", MMCWarning)
        yield texts
    texts += dict.fromkeys(str(w.message) for w in seen)


class _Panel:
    """Controls above a sentence and a picture, kept as PNG for where no widget is shown."""

    result: Result | None = None

    def __init__(self, *controls: Any) -> None:
        widgets = _widgets()
        pyplot()  # says how to get matplotlib
        self.words, self.picture = widgets.HTML(), widgets.Image(format="png")
        self.box = widgets.VBox([widgets.HBox(controls), self.words, self.picture])

    def _show(self, result: Result, kind: str, words: str = "") -> None:
        """Draw a result, away from the figures of pyplot."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        draw(result, kind, figure.subplots())
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=100)
        self.picture.value = file.getvalue()
        self._say(words or result.summary())

    def _say(self, words: str) -> None:
        self.words.value = html.escape(words)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = dict(self.box._repr_mimebundle_(**kwargs))
        bundle["text/plain"] = repr(self)
        if self.picture.value:
            bundle["image/png"] = base64.b64encode(self.picture.value).decode("ascii")
        return bundle

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.result or 'nothing yet'}"


class Ladder(_Panel):
    """The ladder of a result or a problem: see `ladder`.

    ``button`` and ``seconds`` are its widgets, ``result`` what it has come to.
    """

    def __init__(self, source: Result | Formulation, seconds: float) -> None:
        widgets = _widgets()
        self.source = source
        self.button = widgets.Button(description="Climb", button_style="primary")
        self.seconds = widgets.BoundedFloatText(seconds, min=0.0, max=1e6, description="seconds")
        super().__init__(self.button, self.seconds)
        self.button.on_click(lambda _: self.climb())
        self._say("Climb raises the bound from relaxation to relaxation.")
        if isinstance(source, Result):
            self.result = source
            if source.ladder:
                self._show(source, "ladder")

    def climb(self) -> None:
        """Raise the bound for so many seconds; Ctrl-C keeps what is proved."""
        self.button.disabled = True
        try:
            if self.result is None and not isinstance(self.source, Result):
                self._say("Looking for labels ...")
                self.result = solve(self.source, seed=0, time_limit=SEARCH * self.seconds.value)
            found: Any = self.result
            found = found.certify(time_limit=self.seconds.value, progress=_Watch(self, found))
            self.result = found
            self._show(found, "ladder" if found.ladder else "clusters")
        except MMCError as e:
            self._say(str(e))
        finally:
            self.button.disabled = False


class _Watch:
    """Draws a climb, not too often."""

    def __init__(self, panel: Ladder, result: Result) -> None:
        self.panel, self.result = panel, result
        self.rungs: list[Rung] = []
        self.drawn = -np.inf

    def __call__(self, rung: Rung) -> None:
        self.rungs.append(rung)
        now = time.perf_counter()
        if now - self.drawn < EVERY or not np.isfinite(rung.lower):
            return
        self.drawn = now
        so_far = dataclasses.replace(self.result, ladder=tuple(self.rungs), lower_bound=rung.lower)
        self.panel._show(so_far, "ladder", f"{rung.level}: bound {rung.lower:.6g} after "
                                           f"{rung.seconds:.1f} s")


class Partition(_Panel):
    """Clusters of samples under sliders: see `partition`.

    ``lam``, ``width`` and ``clusters`` are its sliders, ``result`` what they have come to.
    """

    def __init__(self, X: Any, n_clusters: int, seed: int, seconds: float) -> None:
        widgets = _widgets()
        self.X, self.seed, self.time_limit = X, seed, seconds
        slow = {"continuous_update": False}  # one solve where a slider is let go
        self.lam = widgets.FloatLogSlider(0.1, min=-4, max=1, step=0.25, description="lambda",
                                          **slow)
        self.width = widgets.FloatLogSlider(0.5, min=-2, max=0.5, step=0.1, description="width",
                                            **slow)
        self.clusters = widgets.IntSlider(n_clusters, min=1, max=max(10, n_clusters),
                                          description="clusters", **slow)
        super().__init__(self.lam, self.width, self.clusters)
        for slider in (self.lam, self.width, self.clusters):
            slider.observe(lambda _: self.update(), names="value")
        self.update()

    def update(self) -> None:
        """Solve and draw what the sliders say."""
        try:
            problem: Any = registry.formulation("LeastSquares")(
                self.X, self.clusters.value, lam=self.lam.value,
                kernel=Gaussian(width=self.width.value))
            before = self.result
            again = before is not None and before.formulation.n_clusters == problem.n_clusters
            with _cautions() as heard:
                self.result = solve(problem, seed=self.seed, time_limit=self.time_limit,
                                    init=before.labels if before is not None and again else None)
            flat = self.X.shape[1] == 2 and problem.n_clusters > 1 and not is_sparse(self.X)
            self._show(self.result, "regions" if flat else "clusters",
                       " | ".join([self.result.summary(), *heard]))
        except MMCError as e:
            self._say(str(e))
