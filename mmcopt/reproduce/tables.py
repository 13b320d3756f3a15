"""The tables of the papers beside ours: figures, tables, and what a whole reproduction prints."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmcopt.tables import ABSENT, as_json, markdown_table, plain, text_table

PAPERS: dict[str, str] = {
    "umc-rls": "Pahikkala et al.: unsupervised multi-class regularized least-squares (Tables 1, 2)",
    "evommc": "Gieseke et al. 2009: fast evolutionary maximum margin clustering (Tables 1, 2)",
    "sgd-lmsvc": "Pham et al. 2016: fast support vector clustering (Table 1)",
    "cpm3c": "Zhao et al. 2008: multi-class maximum margin clustering (Tables 2, 3, 4)",
    "mkc": "Zhao et al. 2009: multiple kernel clustering (Table 2)",
    "margins": "no paper: how well proved optima of CPM3C agree with the classes (Table 1)",
}

Say = Callable[[str], Any]

TIME, CTRL_C, LOST = "the time was up", "it was interrupted", "the workers were lost"
STAR = "*"
LEGEND = (f"{STAR} labels used: its parameters, or the best of its runs, were chosen with the true "
          "classes, as the paper does. Figures without a star saw no labels.")


@dataclass(frozen=True)
class Figure:
    """A number of the paper or of ours, with what is printed behind it."""

    value: float
    sd: float | None = None
    count: int | None = None
    labels: bool = False
    mark: str = ""  # what a note of the report explains
    word: str = ""  # stands for a number that there is not; a note explains it

    @classmethod
    def absent(cls, word: str) -> Figure:
        """A word in the place of a number."""
        return cls(math.nan, word=word)

    def show(self, digits: int) -> str:
        """``0.96±0.01*``; a count stands in brackets, a mark at the end."""
        if self.word:
            return self.word
        text = f"{self.value:.{digits}f}"
        if self.sd is not None:
            text += f"±{self.sd:.{digits}f}"
        if self.count is not None:
            text += f" ({self.count})"
        return text + STAR * self.labels + self.mark

    def to_dict(self) -> dict[str, Any]:
        """Return what stands in JSON; the mark and the word only where there is one."""
        out = {"value": self.value, "sd": self.sd, "count": self.count, "labels_used": self.labels}
        return out | {name: text for name, text in (("mark", self.mark), ("word", self.word))
                      if text}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Figure:
        """The figure that `to_dict` has written down."""
        given = dict(stored)
        value = given.pop("value")
        return cls(math.nan if value is None else value, labels=given.pop("labels_used"), **given)


@dataclass
class PaperTable:
    """One table of a paper: for each data set the printed figures and ours, column by column."""

    number: int
    title: str
    columns: Sequence[str]
    digits: int = 2
    paper: dict[str, dict[str, Figure]] = field(default_factory=dict)
    here: dict[str, dict[str, Figure]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def used(self) -> list[str]:
        """The columns that have a number of the paper or of ours."""
        rows = [*self.paper.values(), *self.here.values()]
        return [c for c in self.columns if any(c in row and not row[c].word for row in rows)]

    def lines(self) -> list[dict[str, str]]:
        """Two lines a data set, the paper's and ours; of one that was not run the paper's."""
        out = []
        for name, printed in self.paper.items():
            for who, figures in (("paper", printed), ("here", self.here.get(name))):
                if figures is None:
                    continue
                cells = {c: figures[c].show(self.digits) if c in figures else ABSENT
                         for c in self.used()}
                out.append({"data set": name if who == "paper" else "", "": who, **cells})
        return out

    def left_out(self) -> list[str]:
        """The rows that were not run, a sentence for each reason."""
        return [f"Not run, {why}: {', '.join(names)}." for why, names in
                by_reason([self]).items()]

    def to_dict(self) -> dict[str, Any]:
        """Return every figure as numbers."""
        sides = {who: {name: {c: f.to_dict() for c, f in row.items()} for name, row in side.items()}
                 for who, side in (("paper", self.paper), ("here", self.here))}
        return {"table": self.number, "title": self.title, "columns": list(self.columns),
                **sides, "missing": dict(self.missing)}


def figures_of(tables: Sequence[PaperTable]) -> list[Figure]:
    """All figures of ours that are shown."""
    return [row[c] for t in tables for row in t.here.values() for c in t.used() if c in row]


def by_reason(tables: Sequence[PaperTable]) -> dict[str, list[str]]:
    """The rows of some tables that were not run, by the reason why."""
    reasons: dict[str, list[str]] = {}
    for table in tables:
        for name, why in table.missing.items():
            names = reasons.setdefault(why.rstrip("."), [])
            if name not in names:
                names.append(name)
    return reasons


@dataclass(eq=False)
class Reproduction(Mapping[str, Any]):
    """What `run` found; as a mapping it is the JSON document of `to_dict`."""

    paper: str
    quick: bool
    tables: list[PaperTable]
    settings: list[dict[str, Any]]
    notes: list[str]
    seconds: float = 0.0
    ended: str = ""  # what came before the last row

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C came before the last row."""
        return self.ended == CTRL_C

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def _parts(self, table: Callable[..., str], heading: Callable[[int, str], str]) -> str:
        form = "quick form" if self.quick else "full form"
        out = [heading(1, f"{self.paper}: {PAPERS[self.paper]}"),
               f"{form}, {self.seconds:.0f} s; {LEGEND}"]
        if self.ended:
            out.append(f"These are the rows so far: {self.ended} before the last.")
        for t in self.tables:
            out += [heading(2, f"Table {t.number}: {t.title}"),
                    table(t.lines(), ["data set", "", *t.used()]), *t.left_out()]
        if self.settings:
            columns = list(dict.fromkeys(key for row in self.settings for key in row))
            out += [heading(2, "What was run"), table(self.settings, columns)]
        return "\n\n".join([*out, heading(2, "Notes"), "\n".join(f"- {n}" for n in self.notes)])

    def __str__(self) -> str:
        def heading(level: int, text: str) -> str:
            return f"{text}\n{'=-'[level - 1] * min(len(text), 100)}"

        return self._parts(text_table, heading)

    def to_markdown(self) -> str:
        """Return the whole report as Markdown."""
        def heading(level: int, text: str) -> str:
            return f"{'#' * level} {text}"

        return self._parts(markdown_table, heading).replace(STAR, "\\" + STAR) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as what JSON can hold."""
        out: dict[str, Any] = plain({
            "paper": self.paper, "title": PAPERS[self.paper], "quick": self.quick,
            "seconds": self.seconds, "ended": self.ended or None,
            "tables": [t.to_dict() for t in self.tables], "settings": self.settings,
            "notes": self.notes, "legend": LEGEND})
        return out

    def save(self, folder: Any) -> list[pathlib.Path]:
        """Write ``PAPER.md`` and ``PAPER.json`` into a folder, which is made when it is missing."""
        home = pathlib.Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        paths = [home / f"{self.paper}.md", home / f"{self.paper}.json"]
        paths[0].write_text(self.to_markdown(), encoding="utf-8")
        paths[1].write_text(as_json(self.to_dict(), indent=2) + "\n", encoding="utf-8")
        return paths
