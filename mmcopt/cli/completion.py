"""`mmcopt completion`: what can follow which word, read from the parser itself."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmcopt import datasets, registry
from mmcopt.cli.console import say
from mmcopt.cli.exit_codes import DONE
from mmcopt.cli.parse import KERNELS, LOSSES
from mmcopt.cli.parser import build_parser
from mmcopt.cli.shell_scripts import SCRIPTS
from mmcopt.cli.task import clusterings
from mmcopt.comparing.baselines import BASELINES
from mmcopt.datasets.public_sets import PUBLISHED
from mmcopt.errors import ParameterError
from mmcopt.solving.executors import NAMES

PLAIN = re.compile(r"\w[\w.:+-]*")  # which no shell parts or runs; files may be called anything
FILES, FOLDERS, WORDS, LIST, NOTHING = "files", "folders", "words", "list", "nothing"


@dataclass(frozen=True)
class Value:
    """What can stand somewhere: words, a list of words with commas, files, folders, or a number.

    ``files`` may stand beside words. ``called`` is its name in the help.
    """

    kind: str
    called: str = ""
    words: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True)
class Option:
    """An option by its names, what it is for, and its value; None where it has none."""

    names: tuple[str, ...]
    about: str
    value: Value | None


@dataclass(frozen=True)
class Command:
    """A command by its words, as ``("data", "fetch")``, with what may follow it."""

    words: tuple[str, ...]
    about: str
    options: tuple[Option, ...]
    argument: Value | None


def completion(args: Namespace) -> int:
    """Print the script for a shell."""
    shell = args.shell.casefold()
    if shell not in SCRIPTS:
        raise ParameterError(f"completion is for {', '.join(SCRIPTS)}; got {args.shell!r}.")
    say(SCRIPTS[shell](commands(build_parser())).rstrip())
    return DONE


def commands(parser: argparse.ArgumentParser, before: tuple[str, ...] = ()) -> list[Command]:
    """All commands of a parser that comes after some words, those within others after them."""
    found: list[Command] = []
    for group in (a for a in parser._actions if isinstance(a, argparse._SubParsersAction)):
        abouts = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for name, child in group.choices.items():
            found += _with_inner((*before, name), abouts.get(name, ""), child)
    return found


def _with_inner(words: tuple[str, ...], about: str, parser: argparse.ArgumentParser
                ) -> list[Command]:
    """A command and the commands within it, whose last words can follow its own."""
    inner = commands(parser, words)
    options = tuple(_option(words, parser, a) for a in parser._actions if a.option_strings)
    places = [a for a in parser._actions
              if not a.option_strings and not isinstance(a, argparse._SubParsersAction)]
    argument = Value(WORDS, "COMMAND", tuple(c.words[-1] for c in inner)) if inner \
        else _value(words, places[0]) if places else None
    return [Command(words, about, options, argument), *inner]


def _option(words: tuple[str, ...], parser: argparse.ArgumentParser, action: argparse.Action
            ) -> Option:
    about = parser._get_formatter()._expand_help(action) if action.help else ""
    value = None if action.nargs == 0 else _value(words, action)
    return Option(tuple(action.option_strings), _short(about), value)


def _short(text: str) -> str:
    """A help text without defaults and references."""
    for mark in (";", " (default"):
        text = text.partition(mark)[0]
    return " ".join(text.split())


# ---------------------------------------------------------------- values


def _data() -> tuple[str, ...]:
    return (*datasets.names(), "openml:")


def _solvers() -> tuple[str, ...]:
    return tuple(registry.solvers())


def _describable() -> tuple[str, ...]:
    return (*registry.formulations(), *registry.relaxations(), *_solvers(), "capabilities",
            *_data())


def _papers() -> tuple[str, ...]:
    from mmcopt.reproduce import PAPERS

    return tuple(PAPERS)


# Words of arguments and options by their names in the parser, and of one command alone by both.
KNOWN: dict[str, tuple[str, Callable[[], Sequence[str]]]] = {
    "formulation": (WORDS, lambda: tuple(clusterings())),
    "solver": (LIST, _solvers),
    "solvers": (LIST, lambda: (*_solvers(), *BASELINES)),
    "kernel": (WORDS, lambda: tuple(KERNELS)),
    "loss": (WORDS, lambda: tuple(LOSSES)),
    "scaling": (WORDS, lambda: ("sum", "mean")),
    "init": (WORDS, lambda: ("random", "kmeans", "spectral", "sdp")),
    "executor": (WORDS, lambda: NAMES),
    "data": (WORDS, _data),
    "paper": (WORDS, _papers),
    "shell": (WORDS, lambda: tuple(SCRIPTS)),
    "describe name": (WORDS, _describable),
    "warmup names": (WORDS, lambda: tuple(registry.formulations())),
    "data fetch names": (WORDS, lambda: tuple(PUBLISHED)),
}


def _value(command: tuple[str, ...], action: argparse.Action) -> Value:
    """What an argument or the value of an option can be, by its name and how the help calls it."""
    called = str(action.metavar or action.dest)
    known = KNOWN.get(f"{' '.join(command)} {action.dest}") or KNOWN.get(action.dest)
    if known is not None:
        kind, names = known
        words = tuple(name for name in names() if PLAIN.fullmatch(name))
        return Value(kind, called, words, files="DATA" in called)
    if "FILE" in called or ".npz" in called:
        return Value(FILES, called)
    return Value(FOLDERS if "DIR" in called else NOTHING, called)
