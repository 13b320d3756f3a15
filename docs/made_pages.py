"""Pages that are made anew for each build: the API, tables, what examples and notebooks show.

They are written to docs/made/, which git ignores.
"""

import ast
import importlib
import inspect
import pathlib
import re
import subprocess
import sys

import mmcopt as mm
from mmcopt import registry

HERE = pathlib.Path(__file__).parent
MADE = HERE / "made"
EXAMPLES = sorted((HERE.parent / "examples").glob("*.py"))
MODULES = {
    "mmcopt": "What everybody needs",
    "mmcopt.formulations": "Problems",
    "mmcopt.formulations.relaxations": "Relaxations",
    "mmcopt.solvers": "Solvers",
    "mmcopt.kernels": "Kernels",
    "mmcopt.comparing": "Solvers side by side",
    "mmcopt.estimators": "Estimators for scikit-learn",
    "mmcopt.selection": "Choosing without labels",
    "mmcopt.assignment": "From a domain to its clusters",
    "mmcopt.condensing": "Many samples as few weighted cells",
    "mmcopt.streaming": "Streams",
    "mmcopt.datasets": "Data sets",
    "mmcopt.constraints": "Rules for labels",
    "mmcopt.margins": "Losses",
    "mmcopt.metrics": "Agreement of partitions",
    "mmcopt.capabilities": "What problems offer to solvers",
    "mmcopt.bounds": "Bounds and their proofs",
    "mmcopt.plot": "Pictures",
    "mmcopt.plot.widgets": "Widgets for notebooks",
    "mmcopt.errors": "Errors and warnings",
}


def names(module):
    """The public names of a module that are no modules."""
    listed = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__]
    return [name for name in listed if not inspect.ismodule(getattr(module, name))]


def statement(cls):
    """The mathematics of a formulation, as the class writes it for its first example."""
    rows = cls.examples()[0].statement().rows
    return "".join(f"\n   *{label}*\n\n   .. math::\n\n      {tex}\n"
                   for label, _, tex in rows if tex)


def api_page(name, title, known):
    """The page of one module, in reStructuredText; ``known`` are those that have an entry."""
    module = importlib.import_module(name)
    lines = [title, "=" * len(title), "", f".. py:module:: {name}", "",
             (inspect.getdoc(module) or "").partition("\n")[0], ""]
    formulations = registry.formulations().values()
    for each in names(module):
        value = getattr(module, each)
        if inspect.isclass(value):
            lines += [f".. autoclass:: {name}.{each}", "   :members:",
                      *(["   :no-index:"] if value in known else []), ""]
            known.append(value)
            if value in formulations:
                lines += [statement(value)]
        elif callable(value):
            lines += [f".. autofunction:: {name}.{each}", ""]
        else:
            lines += [f".. py:data:: {name}.{each}", "", f"   ``{value!r}``", ""]
    return "\n".join(lines)


def example_page(path, folder):
    """The page of one example, in Markdown: what it teaches, prints and draws, and its source."""
    source = path.read_text(encoding="utf-8")
    title, _, lesson = ast.get_docstring(ast.parse(source)).partition("\n\n")
    printed = (folder / "out.txt").read_text(encoding="utf-8")
    pictures = sorted(folder.rglob("*.png"))
    parts = [f"# {path.stem}", title, lesson,
             *(f"![{p.stem}]({p.relative_to(MADE)})" for p in pictures),
             f"## What it prints\n\n`MMCOPT_QUICK=1 python examples/{path.name}`:\n\n"
             f"```text\n{printed}```", f"## Source\n\n```python\n{source}```"]
    return "\n\n".join(parts) + "\n"


def write(path, text):
    """Write a page if it is new, so that Sphinx reads again only what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def make(app):
    """Write all pages."""
    known = []
    for name, title in MODULES.items():
        write(MADE / f"api-{name.replace('.', '-')}.rst", api_page(name, title, known))
    subprocess.run([sys.executable, HERE / "scaling_figures.py", MADE], check=True,
                   stdout=subprocess.DEVNULL)
    write(MADE / "pairing.md", f"# Which solver fits which problem\n\n{mm.pairing_table()}\n")
    subprocess.run([sys.executable, HERE / "run_examples.py", MADE / "ran"], check=True)
    subprocess.run([sys.executable, HERE / "run_notebooks.py", MADE], check=True)
    for path in EXAMPLES:
        write(MADE / f"example-{path.stem}.md", example_page(path, MADE / "ran" / path.stem))


def literal_bars(app, what, name, value, options, lines):
    """Let |x| in a docstring be a norm, and no substitution of reStructuredText."""
    parts = re.split(r"(``.*?``|^ *>>>.*?$)", "\n".join(lines), flags=re.S | re.M)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def own_signature(app, what, name, value, options, signature, returned):
    """The parameters of a class, which autodoc would look for in its metaclass."""
    if what != "class" or "(*args" not in (signature or ""):
        return None
    given = list(inspect.signature(value).parameters.values())
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in given])), None


def is_borrowed(app, what, name, value, skip, options):
    """Leave out what a class has from scikit-learn."""
    return True if str(getattr(value, "__module__", "")).startswith("sklearn") else None


def setup(app):
    """Tell Sphinx."""
    app.connect("builder-inited", make)
    app.connect("autodoc-process-docstring", literal_bars, priority=900)  # after numpydoc
    app.connect("autodoc-process-signature", own_signature)
    app.connect("autodoc-skip-member", is_borrowed)
    return {"parallel_read_safe": True}
