"""Run every notebook and write it as a page with its outputs: `run_notebooks.py FOLDER`.

A page that is newer than its notebook stays as it is.
"""

import base64
import os
import pathlib
import sys

import nbformat
from nbclient import NotebookClient

QUIET = ["--log-level=ERROR"]
NOTEBOOKS = pathlib.Path(__file__).resolve().parent / "notebooks"


def shown(output, name, folder):
    """One output of a cell, in Markdown; pictures go to a file."""
    data = output.get("data", {})
    if "image/png" in data:
        (folder / name).write_bytes(base64.b64decode(data["image/png"]))
        return f"![{pathlib.Path(name).stem}]({name})"
    if "text/latex" in data:
        return f"$$\n{data['text/latex'].strip().strip('$')}\n$$"
    text = output.get("text") or data.get("text/plain", "")
    quiet = output.output_type == "stream" and output.name == "stderr"
    return "" if quiet or not text.strip() else f"```text\n{text.rstrip()}\n```"


def page(path, folder):
    """A notebook that ran, in Markdown."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", extra_arguments=QUIET,
                   resources={"metadata": {"path": str(folder)}}).execute()
    parts = []
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [shown(output, f"{path.stem}-{i}-{j}.png", folder)
                  for j, output in enumerate(cell.outputs)]
    source = f"This page is the notebook `docs/notebooks/{path.name}`, run as it stands."
    return "\n\n".join(part for part in [*parts, source] if part) + "\n"


def main(folder):
    """Run those that are due."""
    os.environ.pop("MPLBACKEND", None)  # pictures stand in the cells
    os.environ["PYTHONWARNINGS"] = "ignore"
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        out = folder / f"notebook-{path.stem}.md"
        if not out.exists() or out.stat().st_mtime <= path.stat().st_mtime:
            out.write_text(page(path, folder), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
