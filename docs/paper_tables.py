"""Write the papers' tables beside ours into docs/papers: `paper_tables.py FOLDER`.

FOLDER holds what `mmcopt reproduce PAPER --quick --out FOLDER` has written. In each page what
stands between the two marks is replaced; everything else stays.
"""

import json
import pathlib
import sys
import textwrap

from mmcopt.reproduce.tables import LEGEND, Figure
from mmcopt.tables import ABSENT, markdown_table

PAGES = pathlib.Path(__file__).parent / "papers"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
# The tables that a page shows, by their place in the reproduction, with the digits they are
# printed with.
SHOWN = {"cpm3c": {0: 2}, "mkc": {0: 2}, "umc-rls": {0: 2}, "evommc": {0: 2, 1: 3},
         "sgd-lmsvc": {1: 2, 2: 2}}


def cell(row, column, digits):
    """A figure as it is printed, or a dash."""
    return Figure.from_dict(row[column]).show(digits) if column in row else ABSENT


def numbered(found, column):
    """Whether a column has a number, of the paper or of ours."""
    rows = [*found["paper"].values(), *found["here"].values()]
    return any(column in row and row[column]["value"] is not None for row in rows)


def table(found, digits):
    """One table: the figures of the paper and ours, with a slash between them."""
    used = [c for c in found["columns"] if numbered(found, c)]
    rows = [{"data set": name, **{c: f"{cell(found['paper'][name], c, digits)} / "
                                     f"{cell(here, c, digits)}" for c in used}}
            for name in found["paper"] if (here := found["here"].get(name))]
    return f"**Table {found['table']}, {found['title']}**\n\n" \
        f"{markdown_table(rows, ['data set', *used])}"


def wrapped(text):
    """A paragraph in lines as long as those around it."""
    return textwrap.fill(text, 130, break_long_words=False, break_on_hyphens=False)


def missing(tables):
    """The rows that were not run, a sentence for each reason."""
    reasons = {}
    for found in tables:
        for name, why in found["missing"].items():
            reasons.setdefault(why, []).append(name)
    return [wrapped(f"Not run, {why.rstrip('.')}: {', '.join(dict.fromkeys(names))}.")
            for why, names in reasons.items()]


def words(document, tables):
    """What the words mean that stand for figures."""
    used = {f.get("word") for t in tables for row in t["here"].values() for f in row.values()}
    return [wrapped(note) for note in document["notes"]
            if note.startswith("'") and note.split("'")[1] in used]


def section(paper, document):
    """What stands between the marks."""
    tables = [document["tables"][i] for i in SHOWN[paper]]
    star = LEGEND.replace("* ", "`*` ")
    about = (f"Printed figure / ours, as `mmcopt reproduce {paper} --quick` gave them. {star} `!` "
             "and `~` mark printed figures that cannot be, or say nothing; the command explains "
             "each of them and adds what was run.")
    shown = [table(t, digits) for t, digits in zip(tables, SHOWN[paper].values(), strict=True)]
    return "\n\n".join([wrapped(about), *shown, *words(document, tables), *missing(tables)])


def main(folder):
    """Rewrite the pages."""
    for paper in SHOWN:
        document = json.loads((pathlib.Path(folder) / f"{paper}.json").read_text(encoding="utf-8"))
        path = PAGES / f"{paper.replace('-', '_')}.md"
        head, rest = path.read_text(encoding="utf-8").split(BEGIN)
        tail = rest.split(END)[1]
        path.write_text(f"{head}{BEGIN}\n{section(paper, document)}\n{END}{tail}",
                        encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
