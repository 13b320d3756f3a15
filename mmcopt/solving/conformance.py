"""`check`: whether a class of the user's keeps what the package promises of every class.

A formulation is judged on its own ``examples()``, a solver on those of every formulation that it
fits. Each check is a function that returns what is wrong in a sentence, or None.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from mmcopt import registry
from mmcopt.bounds import enumeration
from mmcopt.bounds.certificates import evaluate
from mmcopt.capabilities import Capability, LabelProblem
from mmcopt.errors import DataError, ParameterError
from mmcopt.modeling import Formulation, Statement
from mmcopt.modeling.result import Check, Report, Result, Status
from mmcopt.solving.agreement import Wrong, disagreement
from mmcopt.solving.driver import solve, whole
from mmcopt.solving.pairing import missing
from mmcopt.solving.runs import run
from mmcopt.solving.solver import Progress, Solver
from mmcopt.tolerances import FEASIBLE
from mmcopt.types import Ints

SAMPLES = 40  # of an example that is looked at
DRAWS = 5  # random labelings of each example
STEPS = 3  # of a solver that are looked at one by one
PARTNERS = 6  # formulations that a solver is run on
LABELINGS = 10_000  # that are all tried, for an optimum to judge bounds by


def check(cls: Any) -> Report:
    """Judge a formulation or a solver of your own; a line a check, true when all hold.

    Parameters
    ----------
    cls : a subclass of Formulation or Solver, or an instance
        A formulation needs ``examples()``: tiny instances.

    Examples
    --------
    >>> import mmcopt as mm
    >>> report = mm.check(mm.solvers.KernighanLin)
    >>> bool(report)
    True
    >>> print(str(report).splitlines()[0])
    ok   class: a frozen dataclass that is built without arguments
    """
    kind = cls if isinstance(cls, type) else type(cls)
    if issubclass(kind, Formulation):
        examples, found = _examples(kind)
        judged = [Check(name, *_said(test, examples, good)) for name, good, test
                  in OF_FORMULATIONS] if examples else []
    elif issubclass(kind, Solver):
        solver, found = _built(cls)
        subject = Judged(solver)
        judged = [] if solver is None else [
            Check(name, *_said(test, [subject], good)) for name, good, test in OF_SOLVERS]
    else:
        raise ParameterError("check: give a subclass of mmcopt.Formulation or mmcopt.Solver; "
                             f"got {cls!r}.")
    return Report((found, *judged))


def _said(test: Callable[[Any], Wrong], subjects: list[Any], good: str) -> tuple[bool, str]:
    """Whether a check holds for all subjects, and if not, what is wrong with the first of them."""
    for i, subject in enumerate(subjects):
        where = f"examples()[{i}]: " if len(subjects) > 1 else ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tiny example may well be worth a warning
            try:
                wrong = test(subject)
            except Exception as e:  # whatever a class of the user's raises is what is to be said
                wrong = f"it raises {type(e).__name__}: {e}"
        if wrong is not None:
            return False, where + wrong
    return True, good


# ---------------------------------------------------------------- formulations


def _examples(cls: type[Formulation]) -> tuple[list[Any], Check]:
    abstract = sorted(getattr(cls, "__abstractmethods__", ()))
    if abstract:
        return [], Check("class", False, f"it does not define {', '.join(abstract)}")
    found: list[Any] = []

    def made(kind: Any) -> Wrong:
        found.extend(kind.examples())
        return None if found and all(isinstance(f, kind) for f in found) else \
            f"examples() must give a list of {kind.__name__} objects, at least one; got {found!r}"

    good, text = _said(made, [cls], "")
    return found if good else [], Check("class", good, f"{len(found)} examples" if good else text)


def _parameters(f: Any) -> Wrong:
    for name in list(inspect.signature(type(f).__init__).parameters)[1:]:
        if name not in vars(f) and not hasattr(type(f), name):
            return (f"the argument {name} of the constructor is not kept as an attribute of that "
                    "name, on which params, replace, saving and the fingerprint are built")
    return None


def _fingerprint(f: Any) -> Wrong:
    if f.replace().fingerprint != f.fingerprint:
        return ("a copy by replace() has another fingerprint: the constructor changes its "
                "arguments before it keeps them, or draws at random")
    return None


def _statement(f: Any) -> Wrong:
    if not isinstance(f.statement(), Statement):
        return f"statement() must return a Statement; got {type(f.statement()).__name__}"
    return None if str(f).strip() and f.statement().latex() else "the statement is empty"


def _kinds(base: type[Capability] = Capability) -> Iterator[type[Capability]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _offers(f: Any) -> Wrong:
    for kind in _kinds():
        f.offer(kind)  # which refuses what is of another kind
    return None


def _drawn(f: Any) -> list[Ints]:
    rng = np.random.default_rng(0)
    return [rng.permutation(np.arange(f.n) % f.n_clusters) for _ in range(DRAWS)]


def random_points(f: Any) -> list[Any]:
    """Points of random labels with all clusters in use, or of first steps where labels are none."""
    own = type(f).from_labels is not Formulation.from_labels
    if own or f.offer(LabelProblem) is not None:
        try:
            return [f.from_labels(c) for c in _drawn(f)]
        except DataError:  # its labels determine no point
            pass
    return [whole(solve(f, seed=seed, max_iter=1, bound=False)).point for seed in range(2)]


def _labels(f: Any) -> Wrong:
    for point in random_points(f):
        labels = np.asarray(f.labels(point))
        if labels.shape != (f.n,) or labels.dtype.kind not in "iu":
            return (f"labels(point) must be {f.n} integers, one a sample; got "
                    f"{labels.dtype} of shape {labels.shape}")
        if labels.min() < 0 or labels.max() >= f.n_clusters:
            return f"labels(point) must lie in 0..{f.n_clusters - 1}; got {labels.tolist()}"
    for c in _drawn(f) if f.offer(LabelProblem) is not None else ():
        if not np.array_equal(f.labels(f.from_labels(c)), c):
            return ("a problem that offers LabelQuadratic has labels for points: from_labels(c) "
                    "and labels(c) must return c")
    return None


def _numbers(f: Any) -> Wrong:
    for point in random_points(f):
        kept = np.array(point, copy=True) if isinstance(point, np.ndarray) else None
        values = [f.objective(point), f.violation(point)]
        for name, value in zip(("objective", "violation"), values, strict=True):
            if not isinstance(value, float) or not np.isfinite(value):
                return f"{name}(point) must be a finite float; got {value!r}"
        if values[1] < 0.0:
            return f"violation(point) must be at least 0, and 0 where feasible; got {values[1]!r}"
        if values != [f.objective(point), f.violation(point)]:
            return "objective(point) or violation(point) gives another value when asked again"
        if kept is not None and not np.array_equal(kept, point):
            return "objective(point) or violation(point) changes the point"
    return None


def _agrees(f: Any) -> Wrong:
    lq = f.offer(LabelProblem)
    if lq is None:
        return None
    rng = np.random.default_rng(0)
    for _ in range(DRAWS):
        c = lq.expand(lq.random_labels(rng))
        wrong = disagreement(f, c)
        if wrong is not None:
            return wrong
        if f.violation(c) > 0:
            return ("labels that obey its offer have the violation "
                    f"{f.violation(c):g}; sizes, fixed labels and links belong into it as well")
    return None


def _default_solver(f: Any) -> Wrong:
    if not f.default_solver:
        return (f"{type(f).__name__}.default_solver is not set; name a solver, as in "
                'default_solver = "Memetic"')
    solver = registry.solver(f.default_solver)()
    reason = missing(solver, f) or solver.refuses(f)
    return None if reason is None else f"default_solver {f.default_solver} refuses it: {reason}"


def _solved(f: Any) -> Wrong:
    result = whole(solve(f, seed=0))
    report = result.verify()
    if not report:
        return "its result fails verify(): " + "; ".join(
            f"{c.name}: {c.detail}" for c in report.checks if not c.ok)
    return above_optimum(result)


def above_optimum(result: Result) -> Wrong:
    """A bound above, or an objective below, what all labelings have, where they are few."""
    lq = result.formulation.offer(LabelProblem)
    if lq is None or enumeration.count_labelings(lq) > LABELINGS:
        return None
    best = enumeration.minimum(lq)[0]
    slack = 1e-6 * max(1.0, abs(best))
    if result.lower_bound is not None and result.lower_bound > best + slack:
        return f"its bound {result.lower_bound:.10g} is above the optimum {best:.10g}"
    if result.feasible and result.objective < best - slack:
        return f"its objective {result.objective:.10g} is below the optimum {best:.10g}"
    return None


def _bounds(f: Any) -> Wrong:
    if f.offer(LabelProblem) is None:
        return None
    return next(filter(None, (above_optimum(evaluate(f, c)) for c in random_points(f))), None)


def _kept(f: Any) -> Wrong:
    from mmcopt.saving import load

    result = whole(solve(f, seed=0))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.npz"
        result.save(path)
        again = load(path)
    if again.formulation.fingerprint != f.fingerprint:
        return "the problem that comes back from a file has another fingerprint"
    return None if again.objective == result.objective and again.verify() else \
        "the result that comes back from a file is another one"


def same_bytes(f: Any, solver: Any) -> Wrong:
    """Whether two runs of one seed differ, whatever NumPy's own generator was given."""
    found = []
    for other in (1, 2):
        before = np.random.get_state()  # noqa: NPY002 (that it is not used is what is seen)
        np.random.seed(other)  # noqa: NPY002
        found.append(whole(solve(f, solver, seed=5, max_iter=20, bound=False)))
        np.random.set_state(before)  # noqa: NPY002
    a, b = found
    same = a.objective == b.objective and np.array_equal(np.asarray(a.labels), np.asarray(b.labels))
    return None if same else ("two runs of one seed end differently; draw from the rng that is "
                              "handed in, and keep nothing between runs")


OF_FORMULATIONS: tuple[tuple[str, str, Callable[[Any], Wrong]], ...] = (
    ("parameters", "each argument is kept under its name", _parameters),
    ("fingerprint", "that of a copy", _fingerprint),
    ("statement", "printed as mathematics", _statement),
    ("offer", "of the kind that was asked for, or None", _offers),
    ("labels", "one integer a sample", _labels),
    ("objective", "finite numbers that only the point decides", _numbers),
    ("agreement", "objective and offer have the same value for the same labels", _agrees),
    ("default solver", "it fits", _default_solver),
    ("solve", "verified, and not below the optimum", _solved),
    ("bounds", "not above the optimum", _bounds),
    ("same seed", "the same bytes", lambda f: same_bytes(f, None)),
    ("save", "what comes back is the same", _kept),
)


# ---------------------------------------------------------------- solvers


def _built(given: Any) -> tuple[Any, Check]:
    if not isinstance(given, type):
        return given, Check("class", True, "an object that was given")
    abstract = sorted(getattr(given, "__abstractmethods__", ()))
    if abstract:
        return None, Check("class", False, f"it does not define {', '.join(abstract)}")
    frozen = is_dataclass(given) and "__dataclass_fields__" in vars(given)
    if not frozen:
        return None, Check("class", False, "it is no dataclass; write "
                           "@dataclasses.dataclass(frozen=True, kw_only=True) above it")
    made: list[Any] = []
    good, text = _said(lambda cls: made.append(cls()), [given], "")
    return (made[0] if good else None), Check(
        "class", good, "a frozen dataclass that is built without arguments" if good else text)


class Judged:
    """A solver, and the small examples that it is judged on, made once."""

    def __init__(self, solver: Any) -> None:
        self.solver = solver

    @functools.cached_property
    def examples(self) -> list[Any]:
        """Those of all formulations, a list a formulation."""
        return [cls.examples() for cls in registry.formulations().values()]

    @functools.cached_property
    def partners(self) -> list[Any]:
        """Small examples that the solver fits, one a formulation."""
        out = []
        for few in self.examples:
            fit = (f for f in few if missing(self.solver, f) is None
                   and getattr(f, "n", 0) <= SAMPLES and self.solver.refuses(f) is None)
            out += [f for f in [next(fit, None)] if f is not None]
        return out[:PARTNERS]


def _needs(of: Judged) -> Wrong:
    if not of.solver.needs or not all(isinstance(kind, type) and issubclass(kind, Capability)
                                   for kind in of.solver.needs):
        return ("needs must name the capabilities that it works on, as in "
                f"needs = (LabelQuadratic,); got {of.solver.needs!r}")
    return None


def _refuses(of: Judged) -> Wrong:
    for few in of.examples:
        for f in few[:1]:
            lacks = missing(of.solver, f)
            if lacks is not None and of.solver.refuses(f) is None:
                return (f"refuses() does not say that {lacks[:-1]}; begin it with "
                        "reason = super().refuses(f), and return that where it is not None")
    return None


def _fits(of: Judged) -> Wrong:
    return None if of.partners else "no formulation that is registered has a fitting example"


def _steps(of: Judged) -> Wrong:
    for f in of.partners:
        rng = np.random.default_rng(0)
        progress = of.solver.begin(f, None, rng)
        for _ in range(STEPS):
            if not isinstance(progress, Progress):
                return f"begin and step must return a Progress; got {type(progress).__name__}"
            point = progress.point() if callable(progress.point) else progress.point
            value = f.objective(point)
            if not abs(value - progress.value) <= of.solver.agreement(f, value, point):
                return (f"on {type(f).__name__} it reports {progress.value!r} for a point whose "
                        f"objective is {value!r}")
            if of.solver.outcome(f, progress.state) is not None:
                break
            progress = of.solver.step(f, progress.state, rng)
    return None


def _answers(of: Judged) -> Wrong:
    for f in of.partners:
        result = whole(solve(f, of.solver, seed=0))
        name = type(f).__name__
        if not f.asks_bound and result.violation > FEASIBLE:
            return f"on {name} its answer breaks the constraints by {result.violation:g}"
        report = result.verify()
        if not report:
            return f"on {name} its result fails verify(): " + "; ".join(
                f"{c.name}: {c.detail}" for c in report.checks if not c.ok)
        wrong = above_optimum(result)
        if wrong is not None:
            return f"on {name} {wrong}"
    return None


def _limits(of: Judged) -> Wrong:
    for f in of.partners:
        done = run(of.solver, f, None, np.random.default_rng(0), max_iter=1)
        if done.steps > 1 or done.point is None:
            return f"on {type(f).__name__} one step leaves no point"
        late = whole(solve(f, of.solver, seed=0, time_limit=0.0, bound=False))
        if late.status not in (Status.TIME_LIMIT, Status.CONVERGED, Status.CERTIFIED):
            return f"on {type(f).__name__} it ends as {late.status} where no time is given"
    return None


def _start(of: Judged) -> Wrong:
    for f in of.partners:
        if f.offer(LabelProblem) is None:
            continue
        lq = f.offer(LabelProblem)
        c = lq.expand(lq.random_labels(np.random.default_rng(0)))
        kept = c.copy()
        of.solver.begin(f, c, np.random.default_rng(0))
        if not np.array_equal(c, kept):
            return f"on {type(f).__name__} begin() changes the labels that it starts from"
    return None


def _seeds(of: Judged) -> Wrong:
    return next(filter(None, (same_bytes(f, of.solver) for f in of.partners)), None)


OF_SOLVERS: tuple[tuple[str, str, Callable[[Any], Wrong]], ...] = (
    ("needs", "capabilities", _needs),
    ("refuses", "all that lacks what it needs", _refuses),
    ("fits", "some formulation", _fits),
    ("steps", "the value that is reported is the objective of the point", _steps),
    ("start", "labels that are given stay as they were", _start),
    ("answers", "feasible, verified, and not below the optimum", _answers),
    ("same seed", "the same bytes", _seeds),
    ("limits", "are limits", _limits),
)
