"""The language of problems: `Formulation`, and the `Statement` that prints it as mathematics."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np

from mmcopt.capabilities import Capability, LabelProblem, LabelQuadratic, LabelRatio
from mmcopt.checks import check_keywords, encode_labels, is_sparse
from mmcopt.errors import DataError, IncompatibleError, ParameterError
from mmcopt.linalg import same_threads
from mmcopt.registry import register_formulation
from mmcopt.tolerances import LOST
from mmcopt.types import Floats, Ints, Labels, RowBlocks, Samples

C = TypeVar("C", bound=Capability)
_keeping = threading.Lock()
# What is done with a problem is done by functions.
VERBS = {"solve": "solve(problem)", "fit": "solve(problem)", "minimize": "solve(problem)",
         "certify": "certify(problem, labels)", "evaluate": "evaluate(problem, labels)",
         "compare": "compare(problem, solvers, seeds=5)", "fits": "fits(problem)"}


@dataclass(frozen=True)
class Statement:
    """A problem as a reader sees it: rows of (label, plain text, LaTeX)."""

    title: str
    rows: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        width = max(len(label) for label, _, _ in self.rows)
        indent = "\n" + " " * (width + 4)
        body = "\n".join(f"  {label:<{width}}  {text.replace(chr(10), indent)}"
                         for label, text, _ in self.rows)
        return f"{self.title}\n{body}"

    def latex(self) -> str:
        """The rows that have a formula, as an aligned display."""
        lines = [rf"\text{{{label}}}\quad & {tex}" for label, _, tex in self.rows if tex]
        return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$"


def cached(method: Callable[[Any], Any]) -> Any:
    """Turn a method into a property computed once and dropped on pickling.

    Of threads that compute it at the same time the first is believed by all.
    """
    name, missing = method.__name__, object()

    def get(self: Formulation) -> Any:
        value = self._cache.get(name, missing)
        if value is missing:
            with same_threads(getattr(self, "n", 0)):
                value = method(self._keeper)
            return self._cache.setdefault(name, value)
        return value

    return property(get, doc=method.__doc__)


def _once(offer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make each offer of an instance once: its solvers ask for it at every step."""

    @functools.wraps(offer)
    def remembered(self: Formulation, kind: Any) -> Any:
        if kind is LabelProblem:
            offered = self.offer(LabelQuadratic)
            return self.offer(LabelRatio) if offered is None else offered
        offers = self._cache.setdefault("offers", {})
        if (offer, kind) not in offers:  # whichever thread was first
            made = offer(self._keeper, kind)
            if made is not None and isinstance(kind, type) and not isinstance(made, kind):
                raise ParameterError(
                    f"{type(self).__name__}.offer({kind.__name__}) gives a {type(made).__name__}; "
                    f"it must look at the kind it is asked for, and return a {kind.__name__} or "
                    "None.")
            return offers.setdefault((offer, kind), made)
        return offers[offer, kind]

    return remembered


class Formulation(ABC):
    """A problem: data, constants and mathematics. It never iterates, and never changes.

    A subclass keeps each constructor argument as an attribute of the same name; `params`,
    `replace`, saving and `fingerprint` are built on that. It states the problem, evaluates points,
    and offers capabilities to solvers. Where it has labels, ``n`` and ``n_clusters`` say how many
    samples and clusters there are.
    """

    paper: ClassVar[str] = ""
    default_solver: ClassVar[str] = ""
    negligible: ClassVar[float] = 1e-10  # see `vanishing`; 0 where no objective is 0
    asks_bound: ClassVar[bool] = False  # whether it is solved for its bound more than its point
    signature: ClassVar[str] = ""  # its name in fingerprints, of a class that was renamed

    n: int
    n_clusters: int
    _cache: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "offer" in cls.__dict__:
            setattr(cls, "offer", _once(cls.offer))  # noqa: B010 (checkers know offer as declared)
        if not inspect.isabstract(cls) and not cls.__name__.startswith("_"):
            register_formulation(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse unknown keywords before the constructor sees them."""
        check_keywords(cls, kwargs)
        return super().__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise ParameterError(f"{type(self).__name__} is frozen; "
                                 f"use problem.replace({name}=...) to get a changed copy.")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "_cache":  # made on first use, and again after unpickling
            object.__setattr__(self, "_cache", {})
            return self._cache
        asking = f"asked for k in thread {threading.get_ident()}"
        if name == "n_clusters" and asking not in self._cache:
            self._cache[asking] = True  # an offer that asks for it itself has none
            lq = self.offer(LabelProblem)
            del self._cache[asking]
            if lq is not None:
                return lq.k
        hint = f"; write mmcopt.{VERBS[name]}" if name in VERBS else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

    @property
    def _keeper(self) -> Self:
        """Another object of the same attributes: it makes what is kept, which refers to it alone.

        So nothing that is kept refers to this one, which goes, and takes all of it along, as soon
        as nobody holds it: matrices are too large to wait for the next collection of cycles.
        """
        mine = vars(self)
        if "_keeper" not in mine:
            with _keeping:
                if "_keeper" not in mine:
                    other = object.__new__(type(self))
                    object.__setattr__(other, "__dict__", mine)
                    mine["_keeper"] = other
        return cast(Self, mine["_keeper"])

    def __del__(self) -> None:
        mine = vars(self)
        mine.pop("_keeper", None)
        mine.get("_cache", {}).clear()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_cache", "_keeper")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    # ------------------------------------------------------------ required of every formulation

    @abstractmethod
    def statement(self) -> Statement:
        """Return the problem as mathematics."""

    @abstractmethod
    def objective(self, point: Any) -> float:
        """Objective of a point, in float64: the number that every solver's answer is judged by."""

    @abstractmethod
    def violation(self, point: Any) -> float:
        """Largest violation of a constraint by a point; 0 when it is feasible."""

    @abstractmethod
    def labels(self, point: Any) -> Ints:
        """Return the cluster of each sample at a point."""

    def uncertainty(self, point: Any) -> float:
        """How far rounding may have taken the objective of a point from that of the exact data.

        To first order. What it leaves in doubt is shown beside the objective, taken off bounds, and
        allowed by `verify`; problems in which it leaves too much in doubt are refused.
        """
        return 0.0

    def rough_words(self) -> str:
        """What to change where rounding leaves too much of an objective in doubt, as a clause."""
        return "rounding leaves no digit of the objective; rescale the data"

    def settled(self, point: Any) -> float:
        """The objective of a point, refused where rounding leaves too much of it in doubt."""
        value = self.objective(point)
        if self.uncertainty(point) > LOST * abs(value):
            raise ParameterError(f"{type(self).__name__}: {self.rough_words()}.")
        return value

    def agrees(self, point: Any, labels: Ints) -> bool:
        """Whether labels are those of a point, up to what the rounding of scores may decide."""
        return np.array_equal(self.labels(point), labels)

    @abstractmethod
    def reference(self, labels: Ints | None = None) -> Any:
        """Return the literal cvxpy problem (with the labels fixed, when they are discrete)."""

    @classmethod
    @abstractmethod
    def examples(cls) -> list[Self]:
        """Tiny instances, small enough for brute force."""

    # ------------------------------------------------------------ optional

    def offer(self, kind: type[C]) -> C | None:
        """A capability of that kind, or None when this instance cannot offer it.

        What a subclass returns is kept, so it may be made anew here. A problem that offers
        `LabelQuadratic` or `LabelRatio` offers `LabelProblem` by that, and has its ``n_clusters``
        where it names none.
        """
        return None

    def from_labels(self, labels: Ints) -> Any:
        """Return the best point with the given labels; for label problems, the labels."""
        return labels

    def as_point(self, given: Any) -> Any:
        """A point that was given, or read from a file, in the form that this problem works with."""
        return given

    def means_labels(self, given: Any) -> bool:
        """Whether what a caller gives are labels, and not a point of another form."""
        if isinstance(given, list | tuple) and any(np.ndim(part) for part in given):
            return False  # rows of a matrix, or the parts of a point
        array = np.asarray(given)
        # Where points are labels, numbers with fractions are names of clusters too.
        return array.ndim == 1 and (array.dtype.kind in "iuUSbO"
                                    or self.offer(LabelProblem) is not None)

    def coded_labels(self, labels: Labels) -> Ints:
        """Labels of any values as 0..k-1; integers that lie in that range stay as they are."""
        n, k = self.n, self.n_clusters
        codes, values = encode_labels(labels, n, owner=type(self).__name__)
        if len(values) > k:
            raise DataError(f"{type(self).__name__}: the labels name {len(values)} clusters, but "
                            f"n_clusters is {k}; merge some, or set n_clusters={len(values)}.")
        if all(isinstance(v, int) and 0 <= v < k for v in values):
            return np.asarray(labels, dtype=np.int64)
        return codes

    def embedding(self) -> Floats | None:
        """Vectors of the samples for k-means starts, when there are any."""
        return None

    def caution(self, point: Any, labels: Ints | None = None,
                value: float | None = None) -> str | None:
        """What a user should know before trusting an answer, such as that it collapsed; or None.

        ``labels`` and ``value`` are those of the point, where they are known.
        """
        return None

    def decision_function(self, point: Any, X: Samples) -> Floats:
        """Scores of new samples, one column a cluster; of two clusters one column may do."""
        raise IncompatibleError(f"{type(self).__name__} gives no decision function.")

    def scorer(self, point: Any) -> Callable[[Samples], Floats]:
        """`decision_function` at a point; where rows are in blocks it can be sent without them."""
        return functools.partial(self.decision_function, point)

    @property
    def magnitude(self) -> float:
        """What the terms of the objective come to, about, or 1 where that is more.

        Rounding and tolerances are relative to it in problems whose units are small.
        """
        lq = self.offer(LabelProblem)
        if lq is None or abs(lq.constant) >= 1.0:
            return 1.0
        return min(1.0, lq.magnitude)

    @property
    def vanishing(self) -> float:
        """What counts as an objective of 0: a share of `magnitude`."""
        return self.negligible * self.magnitude if self.negligible else 0.0

    def let_go(self) -> None:
        """Forget what is as long as rows in blocks, and can be read again."""
        return

    # ------------------------------------------------------------ convex relaxations

    def relaxations(self) -> Any:
        """Kinds of convex relaxation: which apply, how tight and how costly they are."""
        from mmcopt.bounds.relaxation import Relaxations

        return Relaxations(self)

    def relax(self, kind: str, **options: Any) -> Any:
        """Return the relaxation of that kind: a convex formulation in the units of this one."""
        from mmcopt.bounds.relaxation import relax

        return relax(self, kind, **options)

    # ------------------------------------------------------------ what all share

    def params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some arguments changed; heavy results are shared where they hold."""
        params = self.params()
        unknown = set(changes) - set(params)
        if unknown:
            raise ParameterError(f"{type(self).__name__} has no parameter {sorted(unknown)[0]!r}; "
                                 f"it has {', '.join(params)}.")
        new = type(self)(**{**params, **changes})
        new._adopt(self, set(changes))
        return new

    def _adopt(self, other: Self, changed: set[str]) -> None:
        """Take over caches of the problem this one was made from, where they still hold."""

    @property
    def fingerprint(self) -> str:
        """Return the sha256 of the class name, parameters and data; equal problems share it."""
        if "fingerprint" not in self._cache:
            name = vars(type(self)).get("signature") or type(self).__name__
            digest = hashlib.sha256(name.encode())
            for name, value in sorted(self.params().items()):
                digest.update(name.encode())
                _digest(digest, value)
            self._cache["fingerprint"] = digest.hexdigest()
        return str(self._cache["fingerprint"])

    def __str__(self) -> str:
        return str(self.statement())

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={_short(v)}" for k, v in self.params().items() if v is not None)
        return f"{type(self).__name__}({shown})"

    def _repr_latex_(self) -> str:
        return self.statement().latex()


def _digest(digest: Any, value: Any) -> None:
    """Feed a value in a form from which it could be read back, so that no two values agree."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif is_sparse(value):
        # SciPy picks 32 or 64 bits for indices as it likes; they say the same in both.
        whole = np.int32 if max(*value.shape, value.nnz) < 2**31 else np.int64
        for part in (value.data, value.indices.astype(whole), value.indptr.astype(whole),
                     np.array(value.shape)):
            _digest(digest, np.asarray(part))
    elif isinstance(value, dict):
        digest.update(f"{{{len(value)}".encode())
        for key in sorted(value, key=str):
            _digest(digest, key)
            _digest(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _digest(digest, item)
    elif isinstance(value, Formulation | RowBlocks):
        digest.update(value.fingerprint.encode())
    elif hasattr(value, "as_dict"):
        digest.update(json.dumps(value.as_dict(), sort_keys=True, default=str).encode())
    elif hasattr(value, "__dataclass_fields__"):
        digest.update(type(value).__name__.encode())
        _digest(digest, {f: getattr(value, f) for f in value.__dataclass_fields__})
    else:
        text = repr(value)
        digest.update(f"{len(text)}:{text}".encode())


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) or is_sparse(value):
        return f"<{' x '.join(map(str, value.shape))}>"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
