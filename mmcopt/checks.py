"""Validation of parameters, data and labels, with one sentence for each refusal."""

from __future__ import annotations

import ctypes
import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmcopt.errors import DataError, KeywordError, ParameterError, ResourceError
from mmcopt.tables import human
from mmcopt.types import RowBlocks

P = ParamSpec("P")
R = TypeVar("R")
FEW, LONG = 5, 80  # entries of an array, and letters of a value, that a message shows

# ---------------------------------------------------------------- parameters


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a parameter may be: a test and the words that describe it."""

    allowed: str
    accepts: Callable[[Any], bool]

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise a `ParameterError` when ``value`` breaks the rule."""
        if not self.accepts(value):
            raise ParameterError(f"{owner}: {name} must be {self.allowed}; got {shown(value)}.")


def shown(value: Any) -> str:
    """A value in a message: the shape of an array, and the beginning of what is long."""
    shape = getattr(value, "shape", None)
    if shape is not None and np.size(value) > FEW:
        return f"an array of shape {tuple(shape)}"
    words = " ".join(repr(value).split())
    return words if len(words) <= LONG else f"{words[:LONG]}..."


# ---------------------------------------------------------------- keywords

# What other packages call it.
ELSEWHERE = {"random_state": "seed", "rng": "seed", "n_init": "restarts", "timeout": "time_limit",
             "verbose": "progress", "k": "n_clusters", "alpha": "lam", "metric": "kernel"}


@functools.cache
def _keywords(taker: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of the parameters of a function or class; None when it takes any keyword."""
    made = isinstance(taker, type)
    parameters = list(inspect.signature(taker.__init__ if made else taker).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters[made:])  # without self


def check_keywords(taker: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise a `KeywordError` for keywords that a function or class does not take."""
    taken = _keywords(taker)
    unknown = [name for name in given if taken is not None and name not in taken]
    if not unknown or taken is None:
        return
    name = unknown[0]
    close = [w for w in (ELSEWHERE.get(name), *difflib.get_close_matches(name, taken, n=1))
             if w in taken]
    hint = f" Did you mean {close[0]}?" if close else ""
    raise KeywordError(f"{taker.__name__}() got an unexpected keyword argument {name!r}.{hint} "
                       f"It takes: {', '.join(taken) or 'none'}.")


def known_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function say what may have been meant by a keyword that it does not take.

    One that takes a ``seed`` takes it by scikit-learn's name ``random_state``, too.
    """
    takes_seed = "seed" in inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = kwargs
        if takes_seed and "random_state" in given:
            given["seed"] = _as_seed(function.__name__, given)
        check_keywords(function, given)
        return function(*args, **given)

    return checked


def _as_seed(owner: str, given: dict[str, Any]) -> Any:
    """Take ``random_state`` from keywords, as a seed: a RandomState draws one."""
    value = given.pop("random_state")
    if "seed" in given:
        raise ParameterError(f"{owner}: seed and random_state are two names for the same; give "
                             "one of them.")
    return int(value.randint(2**31 - 1)) if isinstance(value, np.random.RandomState) else value


# ---------------------------------------------------------------- rules


def _range_words(low: float | None, high: float | None, open_low: bool) -> str:
    words = []
    if low is not None:
        words.append(f"{'above' if open_low else 'at least'} {low:g}")
    if high is not None:
        words.append(f"at most {high:g}")
    return " and ".join(words)


def integer(low: int | None = None, high: int | None = None) -> Rule:
    """Accept an integer (never a bool) between ``low`` and ``high``, both allowed."""

    def accepts(v: Any) -> bool:
        if not isinstance(v, numbers.Integral) or isinstance(v, bool):
            return False
        return (low is None or int(v) >= low) and (high is None or int(v) <= high)

    return Rule(f"an integer {_range_words(low, high, False)}".strip(), accepts)


def real(low: float | None = None, high: float | None = None, *, open_low: bool = False) -> Rule:
    """Accept a finite number between ``low`` and ``high``; ``open_low`` excludes ``low``."""

    def accepts(v: Any) -> bool:
        if not isinstance(v, numbers.Real) or isinstance(v, bool) or not math.isfinite(v):
            return False
        x = float(v)
        above = low is None or (x > low if open_low else x >= low)
        return above and (high is None or x <= high)

    return Rule(f"a finite number {_range_words(low, high, open_low)}".strip(), accepts)


def choice(*options: Any) -> Rule:
    """Accept one of a few values."""

    def accepts(v: Any) -> bool:  # arrays, and what else compares entry by entry, are none of them
        return (v is None or isinstance(v, str | numbers.Number)) and v in options

    return Rule("one of " + ", ".join(map(repr, options)), accepts)


def flag() -> Rule:
    """Accept True or False."""
    return Rule("True or False", lambda v: isinstance(v, bool | np.bool_))


def optional(rule: Rule) -> Rule:
    """Accept None as well as what ``rule`` accepts."""
    return Rule(f"None or {rule.allowed}", lambda v: v is None or rule.accepts(v))


FUNCTION = Rule("a function", callable)
JOBS = Rule("None, -1 for as many as there are cores, or an integer at least 1 (1: one at a time)",
            lambda v: v is None or (integer(-1).accepts(v) and v != 0))


def instance(*types: type) -> Rule:
    """Accept instances of the given classes."""
    return Rule("a " + " or ".join(t.__name__ for t in types), lambda v: isinstance(v, types))


def hyper(default: Any, rule: Rule, doc: str) -> Any:
    """Declare a hyper-parameter: a dataclass field that carries its rule and its description."""
    return dataclasses.field(default=default, metadata={"rule": rule, "doc": doc})


def check_fields(obj: Any) -> None:
    """Check every field of a dataclass that was declared by `hyper`."""
    for f in dataclasses.fields(obj):
        if "rule" in f.metadata:
            f.metadata["rule"].check(type(obj).__name__, f.name, getattr(obj, f.name))


def seed_of(random_state: Any, owner: str) -> int:
    """Turn the ``random_state`` of an estimator (None, an int or a RandomState) into a seed."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer):
        integer(0).check(owner, "random_state", random_state)
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


# ---------------------------------------------------------------- data

REACH = 1e150  # entries of data up to which their squares are floats


def read_only(a: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of ``a``; the caller's own flags stay as they are."""
    view = a.view()
    view.flags.writeable = False
    return view


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse matrix or array (without importing scipy.sparse)."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def is_dask(X: Any) -> bool:
    """Whether X is an array of Dask (without importing it)."""
    return hasattr(X, "to_delayed") and hasattr(X, "rechunk")


def unmasked(a: Any, owner: str, name: str) -> Any:
    """A masked array as a plain one; entries that are masked would be lost in silence."""
    if not isinstance(a, np.ma.MaskedArray):
        return a
    missing = int(np.ma.count_masked(a))
    if missing:
        raise DataError(f"{owner}: {name} is a masked array with {missing} of {a.size} entries "
                        f"masked; drop these rows, or fill them: {name}.filled(value).")
    return np.ma.getdata(a)


def data_matrix(X: Any, *, owner: str, name: str = "X", sparse: bool = True) -> Any:
    """Check a data matrix (rows are samples) and return it as floats, read-only, or as CSR.

    Unsigned 8-bit and other integer data keep their type (kernels convert them in chunks).
    """
    if isinstance(X, RowBlocks) or is_dask(X):
        raise DataError(f"{owner}: {name} comes in blocks, on which this does not work; problems "
                        "of margins and of regression do, and predict. "
                        f"np.asarray({name}) reads all {X.shape[0]} rows, and "
                        "mmcopt.condensing.micro_cells makes few of many.")
    if is_sparse(X):
        if not sparse:
            raise DataError(f"{owner}: {name} is sparse, which is not supported here; "
                            f"pass {name}.toarray() if it fits in memory.")
        X = X.tocsr()
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise DataError(f"{owner}: {name} is empty (shape {X.shape}).")
        _finite(X.data, owner, name)
        _within_reach(X.data, owner, name)
        return X
    if hasattr(X, "to_numpy"):  # pandas, polars
        X = X.to_numpy()
    X = unmasked(X, owner, name)
    try:
        a = np.asarray(X)
    except ValueError as e:  # rows of several lengths
        raise DataError(f"{owner}: {name} must be 2-D (samples x features), with rows of one "
                        f"length; got {shown(X)}.") from e
    if np.iscomplexobj(a):
        raise DataError(f"{owner}: {name} holds complex numbers. Complex data not supported.")
    if a.dtype.kind not in "fiub":
        try:
            a = a.astype(np.float64)
        except (TypeError, ValueError) as e:
            raise DataError(f"{owner}: {name} must hold numbers; got dtype {a.dtype} ({e}).") from e
    if a.dtype.kind == "b":
        a = a.astype(np.float64)
    if a.ndim != 2:
        raise DataError(f"{owner}: {name} must be 2-D (samples x features); got {a.ndim}-D of "
                        f"shape {a.shape}. Reshape your data with {name}.reshape(-1, 1) if it "
                        "has one feature, or .reshape(1, -1) if it is one sample.")
    if a.shape[0] == 0:
        raise DataError(f"{owner}: {name} is empty: 0 sample(s) (shape={a.shape}) while a minimum "
                        "of 1 is required.")
    if a.shape[1] == 0:
        raise DataError(f"{owner}: {name} is empty: 0 feature(s) (shape={a.shape}) while a minimum "
                        "of 1 is required.")
    if a.dtype.kind == "f":
        _finite(a, owner, name)
        _within_reach(a, owner, name)
        if a.dtype == np.float16:
            a = a.astype(np.float64)
    return read_only(a)


def unpacked(X: Any) -> NDArray[np.float64]:
    """The rows of X as floats, those of a sparse matrix too, where memory holds them."""
    if is_sparse(X):
        require_memory(8.0 * X.shape[0] * X.shape[1], "the features as a dense array",
                       "reduce their number, for example by TruncatedSVD.")
        X = X.toarray()
    return np.asarray(X, dtype=np.float64)


def _finite(a: NDArray[Any], owner: str, name: str) -> None:
    # The sum is finite whenever all entries are (short of overflow): one cheap pass, no mask.
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(a, dtype=np.float64)
    if math.isfinite(total):
        return
    bad_nan = int(np.isnan(a).sum())
    bad_inf = int(np.isinf(a).sum())
    if bad_nan or bad_inf:
        what = " and ".join(w for w, c in ((f"{bad_nan} NaN", bad_nan),
                                           (f"{bad_inf} infinity (inf)", bad_inf)) if c)
        raise DataError(f"{owner}: {name} contains {what} among {a.size} entries; "
                        "drop or impute these rows first.")


def _within_reach(a: NDArray[Any], owner: str, name: str) -> None:
    """Refuse entries whose squares overflow, and data whose squares all underflow."""
    largest = max(abs(float(a.max(initial=0.0))), abs(float(a.min(initial=0.0))))
    if largest > REACH:
        raise DataError(f"{owner}: the entries of {name} reach {largest:.3g}, and beyond "
                        f"{REACH:g} their squares overflow; divide {name} by {largest:.0e}.")
    if 0.0 < largest < 1.0 / REACH:
        raise DataError(f"{owner}: no entry of {name} is larger than {largest:.3g}, and below "
                        f"{1.0 / REACH:g} their squares underflow; divide {name} by {largest:.0e}.")


# ---------------------------------------------------------------- labels

NAMES = (str, bool, int, float, np.bool_, np.integer, np.floating, type(None))


def encode_labels(labels: ArrayLike, n: int, *, owner: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Map labels of any kind to 0..k-1 and return the codes with the original values."""
    labels = unmasked(labels, owner, "labels")
    try:
        a = np.asarray(labels)
    except ValueError as e:
        raise DataError(f"{owner}: labels must be one a sample; got {shown(labels)}.") from e
    if a.shape != (n,):
        raise DataError(f"{owner}: labels must have shape ({n},), one a sample; got {a.shape}.")
    if a.dtype.kind == "f":
        _finite(a, owner, "labels")
    odd = next((type(v).__name__ for v in a.tolist() if not isinstance(v, NAMES)), None) \
        if a.dtype.kind == "O" else None if a.dtype.kind in "biufU" else a.dtype.name
    if odd is not None:
        raise DataError(f"{owner}: labels must be integers, numbers, booleans or strings, which "
                        f"can be compared and saved; got {odd}. Turn them into strings first: "
                        "[str(v) for v in labels].")
    try:
        values, codes = np.unique(a, return_inverse=True)
    except TypeError:
        raise DataError(f"{owner}: labels must be of one kind, such as integers or strings; got "
                        "a mixture that has no order.") from None
    return codes.astype(np.int64).reshape(n), list(values.tolist())


def plural(count: int, word: str) -> str:
    """``plural(1, "cluster")`` is "1 cluster", ``plural(3, "class")`` "3 classes"."""
    return f"{count} {word}" + ("" if count == 1 else "es" if word.endswith("s") else "s")


def listed(names: Sequence[str]) -> str:
    """Join names for a message; "none" when there are none."""
    return ", ".join(names) if names else "none"


# ---------------------------------------------------------------- memory


def available_memory() -> int:
    """Bytes of memory that a new array may take without swapping, as the system reports it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return 4 << 30


def fits_in_memory(size: float) -> bool:
    """Whether the machine has so many bytes free, and some to spare."""
    return size <= 0.9 * available_memory()


def give_back() -> None:
    """Let the C library give back to the system what was freed, before a large array is made.

    Threads that work on blocks each leave some tens of megabytes.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # another library than that of GNU
        return


def require_memory(size: float, what: str, way_out: str) -> None:
    """Raise a `ResourceError` when ``size`` bytes are more than the machine has free."""
    if not fits_in_memory(size):
        raise ResourceError(f"{what} needs {human(size)}, and {human(available_memory())} are "
                            f"free; {way_out}")
