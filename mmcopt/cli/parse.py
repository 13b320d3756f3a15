"""What a user types, as kernels, sizes, losses and solvers; parsed here, never evaluated."""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from mmcopt import kernels, registry
from mmcopt.comparing.baselines import baseline_named
from mmcopt.constraints import Sizes
from mmcopt.errors import MMCError, ParameterError
from mmcopt.margins import LOSSES as MARGIN_LOSSES
from mmcopt.margins import MarginLoss

KERNELS: dict[str, Callable[..., Any]] = {
    "linear": kernels.Linear, "polynomial": kernels.Polynomial, "gaussian": kernels.Gaussian,
    "laplacian": kernels.Laplacian, "cosine": kernels.Cosine, "neighbors": kernels.Neighbors,
    "precomputed": kernels.Precomputed}
METHODS = {"nystroem": ("rank", "seed"), "random_features": ("rank", "seed"),
           "pca": ("share", "rank"), "cholesky": ("share", "rank"), "centered": (),
           "normalized": (), "unit": ()}
RANKED = {"nystroem": "linear.nystroem:300", "random_features": "gaussian.random_features:300"}
WORDS = ("weights",)  # parameters that are no numbers
POSITIONAL = {"polynomial": ("degree", "coef0"), "neighbors": ("n_neighbors",)}
LOSSES = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower(): cls
          for name, cls in MARGIN_LOSSES.items()}
EXAMPLE = "gaussian:width=0.5, linear, polynomial:degree=2,coef0=1, gaussian:width=1+0.3*linear"
_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|(?P<name>[A-Za-z_]\w*)|(?P<mark>[-+*.:,=()]))")


class _Reader:
    """A recursive descent over sums of products of kernels.

    sum: product ('+' product)*; product: factor ('*' factor)*;
    factor: (number | name [':' arguments] | '(' sum ')') ('.' method [':' arguments])*
    """

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, list[tuple[str, str]](), 0
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise self.error(f"cannot read {text[place:].strip()!r}")
            self.tokens.append((str(found.lastgroup), found.group(found.lastgroup or 0)))
            place = found.end()

    def error(self, words: str) -> ParameterError:
        return ParameterError(f"kernel {self.text!r}: {words}; examples: {EXAMPLE}, "
                              "linear.nystroem:300.")

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ("end", "the end")

    def take(self, mark: str) -> bool:
        """Step over a mark when it comes next."""
        found = self.peek() == ("mark", mark)
        self.at += found
        return found

    def sum(self) -> Any:
        out = self.product()
        while self.take("+"):
            out = out + self.product()
        return out

    def product(self) -> Any:
        out = self.factor()
        while self.take("*"):
            out = out * self.factor()
        if not isinstance(out, kernels.Kernel):
            raise self.error("a number must multiply a kernel")
        return out

    def factor(self) -> Any:
        kind, word = self.peek()
        if kind == "number":
            self.at += 1
            return float(word)
        if self.take("("):
            out = self.sum()
            if not self.take(")"):
                raise self.error("a ')' is missing")
        elif kind == "name":
            self.at += 1
            out = self.kernel(word.lower())
        else:
            shown = word if kind == "end" else repr(word)
            raise self.error(f"a kernel is expected where {shown} stands")
        while self.take("."):
            out = self.method(out)
        return out

    def kernel(self, name: str) -> Any:
        if name not in KERNELS:
            raise self.error(unknown("kernel", name, KERNELS))
        given = self.arguments(POSITIONAL.get(name, ()))
        allowed = [f.name for f in dataclasses.fields(KERNELS[name])]  # type: ignore[arg-type]
        self.check(name, given, allowed)
        if not given and {"gamma", "width"} <= set(allowed):
            given = {"width": 1.0}
        return KERNELS[name](**given)

    def method(self, inner: Any) -> Any:
        kind, name = self.peek()
        if kind != "name" or name.lower() not in METHODS:
            raise self.error(unknown("kernel method", name, METHODS))
        self.at += 1
        allowed = METHODS[name.lower()]
        given = self.arguments(allowed)
        self.check(name, given, list(allowed))
        if name.lower() in RANKED and "rank" not in given:
            raise self.error(f"{name.lower()} needs a rank, as in {RANKED[name.lower()]}")
        return getattr(inner, name.lower())(**given)

    def check(self, name: str, given: dict[str, Any], allowed: list[str]) -> None:
        for key in given:
            if key not in allowed:
                raise self.error(f"{name} has no parameter {key!r}; "
                                 f"it takes {', '.join(allowed) or 'none'}")

    def arguments(self, positional: tuple[str, ...]) -> dict[str, Any]:
        """Read ``:value,key=value`` into a dict."""
        given: dict[str, Any] = {}
        if not self.take(":"):
            return given
        while True:
            kind, word = self.peek()
            if kind == "name" and self.peek(1) == ("mark", "="):
                self.at += 2
                key = word
            elif len(given) < len(positional):
                key = positional[len(given)]
            else:
                raise self.error(f"{word!r} needs a name, as in width={word}")
            if key in given:
                raise self.error(f"{key} is given twice")
            given[key] = self.value(key)
            if not self.take(","):
                return given

    def value(self, key: str) -> int | float | str:
        sign = -1 if self.take("-") else 1
        kind, word = self.peek()
        if kind == "name" and key in WORDS:
            self.at += 1
            return word
        if kind != "number":
            raise self.error(f"{key} must be a number; got {word!r}")
        self.at += 1
        return sign * (int(word) if word.isdigit() else float(word))


def unknown(kind: str, name: str, table: Iterable[str]) -> str:
    """Say that nothing has this name, what may have been meant, and what there is."""
    names = {key.lower(): key for key in table}
    close = difflib.get_close_matches(name.lower(), names, 1)
    hint = f" (did you mean {names[close[0]]}?)" if close else ""
    return f"no {kind} is called {name!r}{hint}; there are {', '.join(names.values())}"


def parse_kernel(text: str) -> kernels.Kernel:
    """Read a kernel expression.

    >>> parse_kernel("gaussian:width=0.5 + 0.3*linear.nystroem:300")
    Gaussian(width=0.5) + 0.3 * Linear().nystroem(rank=300, seed=0)
    """
    reader = _Reader(text)
    try:
        out = reader.sum()
    except MMCError as e:
        if text in str(e):
            raise
        raise ParameterError(f"kernel {text!r}: {e}") from e
    if reader.peek()[0] != "end":
        raise reader.error(f"cannot read what follows {reader.peek()[1]!r}")
    return out


def parse_sizes(text: str | None) -> Sizes | None:
    """Read ``0.2`` (within that share of equal sizes) or ``low:high``.

    >>> parse_sizes("10:40")
    Sizes(low=10, high=40, within=None, exact=None)
    """
    if text is None:
        return None
    low, colon, high = text.partition(":")
    try:
        if colon:
            return Sizes(low=int(low) if low else None, high=int(high) if high else None)
        return Sizes(within=float(text))
    except ParameterError:
        raise
    except ValueError as e:
        raise ParameterError(f"sizes must be a share such as 0.2, or low:high such as 10:40; "
                             f"got {text!r}.") from e


def parse_known(text: str) -> dict[int, int]:
    """Read samples with their clusters, ``0:1,5:0``, or a file with one of them a line.

    >>> parse_known("0:1,5:0")
    {0: 1, 5: 0}
    """
    found: dict[int, int] = {}
    for i, cluster in _pairs("--known", text, ":", "SAMPLE:CLUSTER, as in 0:1,5:0"):
        if found.setdefault(i, cluster) != cluster:
            raise ParameterError(f"--known: sample {i} cannot be in the clusters {found[i]} and "
                                 f"{cluster}.")
    return found


def parse_links(option: str, text: str) -> list[tuple[int, int]]:
    """Read pairs of samples, ``3-8,4-9``, or a file with a pair a line.

    >>> parse_links("--must-link", "3-8,4-9")
    [(3, 8), (4, 9)]
    """
    return _pairs(option, text, "-", "SAMPLE-SAMPLE, as in 3-8,4-9")


def _pairs(option: str, text: str, mark: str, form: str) -> list[tuple[int, int]]:
    """Pairs of whole numbers with a mark, a comma or spaces between them, as typed or of a file."""
    typed = re.fullmatch(rf"[\d\s,{mark}]*", text) is not None
    if not typed and not pathlib.Path(text).is_file():
        raise ParameterError(f"{option}: {text!r} is neither a file nor of the form {form}.")
    lines = [] if typed else _lines(option, text)
    found = []
    for item in text.split(",") if typed else filter(str.strip, lines):
        pair = re.fullmatch(rf"\s*(\d+)\s*[{mark},\s]\s*(\d+)\s*", item)
        if pair is None:
            raise ParameterError(f"{option}: cannot read {item!r}; write {form}"
                                 f"{'' if typed else ', one a line'}.")
        found.append((int(pair[1]), int(pair[2])))
    return found


def _lines(option: str, path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as e:
        raise ParameterError(f"{option}: {path} is no text in UTF-8 ({e.reason} at byte "
                             f"{e.start}); save it as that.") from e
    except OSError as e:
        raise ParameterError(f"{option}: cannot read {path}: {e.strerror or e}.") from e


def parse_loss(text: str) -> MarginLoss:
    """Read the name of a loss of margins.

    >>> parse_loss("squared-hinge")
    SquaredHinge()
    """
    name = text.strip().lower().replace("_", "-")
    if name not in LOSSES:
        raise ParameterError(f"--loss: {unknown('loss', text, LOSSES)}.")
    return LOSSES[name]()


def _literal(text: str) -> Any:
    """Read a number, true, false or none; anything else is text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_solvers(text: str) -> list[Any]:
    """Read ``NAME[,param=value...]``, one or several: ``Shaking,polish=false,Tabu``.

    >>> tabu, direct = parse_solvers("tabu,length=5,direct")
    >>> tabu.length, direct
    (5, Direct())
    """
    return [_solver(name, given) for name, given in _specs(text)]


def parse_rivals(text: str) -> list[Any]:
    """Read solvers, and baselines, which have no parameters.

    >>> parse_rivals("tabu,length=5,kmeans")[1]
    Baseline(name='kmeans')
    """
    return [_rival(name, given) for name, given in _specs(text)]


def _rival(name: str, given: dict[str, Any]) -> Any:
    baseline = baseline_named(name)
    if baseline is None:
        return _solver(name, given)
    if given:
        raise ParameterError(f"{baseline} has no parameter {next(iter(given))!r}; it has none.")
    return baseline


def _specs(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Names, each with the parameters that follow it."""
    specs: list[tuple[str, dict[str, Any]]] = []
    for item in text.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not key or (equals and not specs):
            raise ParameterError(f"solver {text!r}: cannot read {item!r}; write "
                                 "NAME,param=value, as in Shaking,polish=false.")
        if equals:
            specs[-1][1][key] = _literal(value)
        else:
            specs.append((key, {}))
    return specs


def _solver(name: str, given: dict[str, Any]) -> Any:
    cls: Any = registry.solver(name)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for key, value in given.items():
        if key not in fields:
            raise ParameterError(f"{cls.__name__} has no parameter {key!r}; it has "
                                 f"{', '.join(fields) or 'none'}.")
        if isinstance(value, str) and value.lower() in map(str.lower, registry.solvers()):
            given[key] = registry.solver(value)()  # a solver inside a solver
    return cls(**given)
