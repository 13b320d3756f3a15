"""`mmcopt.check` finds nothing wrong with our classes, and names what is wrong with others."""

import dataclasses

import numpy as np
import pytest
from notebook import classes

import mmcopt as mm
from mmcopt import registry
from mmcopt.capabilities import LabelQuadratic
from mmcopt.errors import IncompatibleError, ParameterError
from mmcopt.solving import Progress

QUICK = {"LeastSquares", "OneClassHinge"}
CLASSES = [pytest.param(cls, id=name, marks=() if name in QUICK else pytest.mark.slow)
           for name, cls in {**registry.formulations(), **registry.solvers()}.items()]


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """Classes that a test defines are gone after it."""
    monkeypatch.setattr(registry, "_formulations", dict(registry._formulations))
    monkeypatch.setattr(registry, "_solvers", dict(registry._solvers))


def broken(base, **changes):
    """The class with something else in a place, and with its name."""
    made = type(base.__name__, (base,), changes)
    return dataclasses.dataclass(frozen=True, kw_only=True)(made) \
        if issubclass(base, mm.Solver) else made


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_is_wrong_with_ours(cls):
    report = mm.check(cls)
    assert report and len(report.checks) > 8, report


def test_nothing_is_wrong_with_what_a_reader_types():
    for cls in classes():
        report = mm.check(cls)
        assert report and str(report).count("ok   ") == len(report.checks)
    assert mm.check(classes()[1]())  # an object as well


def offers_all(self, kind):
    return LabelQuadratic(-self.A, k=self.n_clusters)


def half(self, kind):
    return LabelQuadratic(-self.A, k=self.n_clusters, scale=0.5) if kind is LabelQuadratic else None


def shifted(self, labels):
    return labels + 1


def drifting(self, point):
    return float(np.random.default_rng().random())


WRONG = [
    ({"offer": offers_all}, "offer", "must look at the kind it is asked for"),
    ({"offer": half}, "agreement", "look at scale and const"),
    ({"default_solver": ""}, "default solver", 'default_solver = "Memetic"'),
    ({"default_solver": "Direct"}, "default solver", "it needs LinearSystem"),
    ({"default_solver": "Nobody"}, "default solver", "no solver is called 'Nobody'"),
    ({"examples": classmethod(lambda cls: [])}, "class", "at least one"),
    ({"labels": shifted}, "labels", "must lie in 0..1"),
    ({"labels": lambda self, point: point[:-1]}, "labels", "must be 7 integers"),
    ({"from_labels": lambda self, c: c[::-1]}, "labels", "must return c"),
    ({"objective": drifting}, "objective", "another value when asked again"),
    ({"objective": lambda self, point: 1}, "objective", "must be a finite float"),
    ({"violation": lambda self, point: -1.0}, "objective", "at least 0"),
    ({"statement": lambda self: "few"}, "statement", "must return a Statement"),
]


@pytest.mark.parametrize("changes, name, words", WRONG, ids=[f"{c[1]}-{i}" for i, c in
                                                             enumerate(WRONG)])
def test_what_is_wrong_with_a_formulation_is_said(changes, name, words):
    report = mm.check(broken(classes()[0], **changes))
    failed = {c.name: c.detail for c in report.checks if not c.ok}
    assert not report and words in failed[name], report


def no_super(self, f):
    return None


def praised(self, f, state, rng):
    progress = type(self).__mro__[1].step(self, f, state, rng)
    return dataclasses.replace(progress, value=progress.value - 1.0)


def global_luck(self, f, init, rng):
    return self.step(f, 0, np.random)


def endless(self, f, state, rng):
    raise ZeroDivisionError("inside")


def luck(self, f, state, rng):
    lq = f.offer(LabelQuadratic)
    c = lq.random_labels(np.random.default_rng(np.random.randint(10**6)))  # noqa: NPY002
    return Progress(state + 1, lq.expand(c), lq.value(c))


@pytest.mark.parametrize("changes, name, words", [
    ({"refuses": no_super}, "refuses", "super().refuses(f)"),
    ({"step": praised}, "steps", "reports"),
    ({"step": luck}, "same seed", "draw from the rng"),
    ({"step": endless}, "answers", "raises ZeroDivisionError: inside"),
    ({"needs": ()}, "needs", "must name the capabilities"),
], ids=["refuses", "value", "seed", "error", "needs"])
def test_what_is_wrong_with_a_solver_is_said(changes, name, words):
    report = mm.check(broken(classes()[1], **changes))
    failed = {c.name: c.detail for c in report.checks if not c.ok}
    assert not report and words in failed[name], report


def test_solve_blames_who_is_to_blame():
    FewEdges, Lottery = classes()
    f = FewEdges.examples()[0]
    with pytest.raises(ParameterError, match="names no default_solver.*those that fit: .*Tabu"):
        mm.solve(broken(FewEdges, default_solver="").examples()[0])
    with pytest.raises(ParameterError, match=r"FewEdges: objective\(point\) is .* where offer"):
        mm.solve(broken(FewEdges, offer=half).examples()[0], seed=0)
    with pytest.raises(ParameterError, match=r"FewEdges.offer\(BoxDual\) gives a LabelQuadratic"):
        mm.solve(broken(FewEdges, offer=offers_all).examples()[0], "DualCoordinate")
    with pytest.raises(IncompatibleError, match="it needs LabelQuadratic"):
        mm.solve(registry.formulation("OneClassHinge").examples()[0],
                 broken(Lottery, refuses=no_super)())
    with pytest.raises(mm.errors.BackendError, match="its bookkeeping is wrong"):
        mm.solve(f, broken(Lottery, step=praised)(), seed=0)
    with pytest.raises(ParameterError, match="give a subclass of"):
        mm.check(int)
