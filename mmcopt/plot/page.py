"""Results and comparisons as one web page that needs nothing else: no network, no other files.

Pictures stand in it as SVG, tables sort by a click on a heading, and the end says what made it.
"""

from __future__ import annotations

import functools
import html
import io
import os
import pathlib
import platform
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from mmcopt.comparing.table import COLUMNS, Comparison
from mmcopt.errors import MMCError, ParameterError
from mmcopt.modeling.result import Result
from mmcopt.plot.comparisons import plot_comparison
from mmcopt.plot.kinds import draw
from mmcopt.plot.results import IN_BLOCKS, plot_history
from mmcopt.plot.style import pyplot
from mmcopt.tables import html_table
from mmcopt.types import Path, RowBlocks

PACKAGES = ("mmcopt", "numpy", "scipy", "scikit-learn", "numba", "cvxpy")
LADDER = ("level", "seconds", "lower", "upper")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em;
       color: #222; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; white-space: nowrap }
th { text-align: left; cursor: pointer; background: #f6f6f6 }
svg { max-width: 100%; height: auto }
"""
SORTING = """
document.querySelectorAll("th").forEach(th => th.onclick = () => {
  const body = th.closest("table").tBodies[0], at = th.cellIndex, up = th.dataset.up !== "1";
  th.dataset.up = up ? "1" : "";
  const value = row => { const cell = row.cells[at], text = cell.dataset.value ?? cell.textContent;
    const number = parseFloat(text); return isNaN(number) ? text : number; };
  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0)
    : typeof a === "number" ? -1 : 1;
  [...body.rows].sort((r, s) => (up ? 1 : -1) * compare(value(r), value(s)))
    .forEach(row => body.append(row));
});
"""


def write_result(result: Result, path: Path) -> None:
    """Write a page about a result: its numbers, pictures, ladder, and what `verify` finds."""
    name = type(result.formulation).__name__
    parts = [("Numbers", _wide(result._repr_html_())),
             ("What it says", f"<p>{_text(result.message or result.status.value)}</p>"),
             ("The problem", f"<pre>{_text(result.formulation)}</pre>")]
    parts += [(title, picture) for title, make in (
        ("Clusters", lambda: draw(result, "clusters", None)),
        ("Objective against time", lambda: plot_history(result)),
        ("Bounds", lambda: draw(result, "ladder", None))) if (picture := _drawn(make))]
    if isinstance(getattr(result.formulation, "X", None), RowBlocks):
        parts.append(("Clusters", f"<p>{_text(IN_BLOCKS.capitalize())}</p>"))
    if result.ladder:
        rungs = [{column: getattr(rung, column) for column in LADDER} for rung in result.ladder]
        parts.append(("What was known when", html_table(rungs, LADDER)))
    parts.append(("Checked again, in NumPy alone", result.verify()._repr_html_()))
    parts.append(("Made by", _made_by([f"{result.formulation!r}",
                                       f"mmcopt.solve(problem, {result.solver!r}, "
                                       f"seed={result.seed!r})"])))
    _write(path, f"{result.solver} on {name}: {result.status}", parts)


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write a page about a comparison: its summary, all rows, curves, profiles and bounds."""
    notes = "".join(f"<p>{_text(note)}</p>" for note in comparison.notes())
    parts = [("Summary", _wide(html_table(comparison.summary(), comparison.shown())) + notes)]
    if versus := comparison.versus():
        parts.append(("Wins, ties and losses, with a sign test", _table(versus)))
    if reached := comparison.time_to_target():
        parts.append(("Seconds to the best known objective", _table(reached)))
    for title, kind in (("Objective against time", "time"), ("Data profile", "data"),
                        ("Performance profile", "profile"), ("Final objectives", "box")):
        if picture := _drawn(functools.partial(plot_comparison, comparison, kind)):
            parts.append((title, picture))
    parts.append(("All runs", _table(comparison.rows, COLUMNS)))
    for problem, rungs in comparison.ladders.items():
        rows = [{column: getattr(rung, column) for column in LADDER} for rung in rungs]
        parts.append((f"Bounds of {problem}: what was known when", html_table(rows, LADDER)))
    parts += [(f"The problem {name}", f"<pre>{_text(f)}</pre>")
              for name, f in comparison.problems.items()]
    solvers = list(dict.fromkeys(row["solver"] for row in comparison.rows))
    seeds = list(dict.fromkeys(row["seed"] for row in comparison.rows if row["seed"] is not None))
    parts.append(("Made by", _made_by([
        *(f"{name} = {f!r}" for name, f in comparison.problems.items()),
        f"mmcopt.compare([{', '.join(comparison.problems)}], {solvers}, seeds={seeds}"
        f"{_limits(comparison)})"])))
    _write(path, "Comparison of solvers", parts)


def _limits(comparison: Comparison) -> str:
    """The limits of a comparison as they were typed."""
    limits = {} if comparison.plan is None else comparison.plan.limits
    return "".join(f", {name}={value!r}" for name, value in limits.items() if value is not None)


def about() -> dict[str, str]:
    """Versions and machine."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from its folder
            continue
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
    return found


# ---------------------------------------------------------------- pieces


def _text(value: Any) -> str:
    return html.escape(str(value))


def _wide(table: str) -> str:
    return f'<div class="wide">{table}</div>'


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> str:
    """A table without the columns that say nothing."""
    names = [c for c in columns or rows[0] if any(row.get(c) is not None for row in rows)]
    return _wide(html_table(rows, names))


def _made_by(lines: Sequence[str]) -> str:
    code = "\n".join(lines)
    facts = ", ".join(f"{name} {version}" for name, version in about().items())
    return f"<pre>{_text(code)}</pre><p>{_text(facts)}</p>"


def _drawn(make: Callable[[], Any]) -> str:
    """A picture as SVG, or a sentence where drawing failed; nothing where there is nothing."""
    plt = pyplot()
    before = set(plt.get_fignums())
    try:
        make()
        new = [plt.figure(number) for number in plt.get_fignums() if number not in before]
        if not new:
            return ""
        file = io.StringIO()
        new[-1].savefig(file, format="svg", bbox_inches="tight", dpi=150)
        text = file.getvalue()
        return text[text.index("<svg"):]
    except MMCError:  # a comparison without a run, labels without a picture
        return ""
    except Exception as e:  # whatever matplotlib may meet: the rest of the page does not hang on it
        words = " ".join(str(e).split())[:200]
        kind = type(e).__name__
        return f"<p>This picture could not be drawn ({_text(kind)}: {_text(words)}).</p>"
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def check_page(path: Path) -> pathlib.Path:
    """Return a path that a page can be written to."""
    path = pathlib.Path(path)
    if path.suffix not in (".html", ".htm"):
        raise ParameterError(f"to_html: the file name must end in .html; got {str(path)!r}.")
    return path


def _write(path: Path, title: str, parts: Sequence[tuple[str, str]]) -> None:
    path = check_page(path)
    body = "\n".join(f"<h2>{_text(heading)}</h2>\n{content}" for heading, content in parts)
    path.write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{_text(title)}</h1>\n{body}\n<script>{SORTING}</script></body></html>\n",
        encoding="utf-8")
