"""The notebooks teach, hold no outputs, and run to their end: what they assert is true."""

import ast
import json
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = ["bounds", "domains", "label_regression", "margins", "several_kernels", "your_own"]


def cells(name, kind):
    """The sources of the cells of a kind."""
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == kind]


def test_these_are_the_notebooks():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_outputs_are_kept(name):
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in code)
    assert notebook["nbformat"] == 4 and len({c["id"] for c in notebook["cells"]}) \
        == len(notebook["cells"])


@pytest.mark.parametrize("name", NAMES)
def test_each_has_prose_a_picture_numbers_to_check_and_exercises(name):
    prose, code = cells(name, "markdown"), cells(name, "code")
    assert prose[0].startswith("# ") and prose[-1].startswith("## Try it")
    assert max(len(text.split()) for text in prose) < 130  # short
    tree = ast.parse("\n".join(code))
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(tree)) >= 3
    assert "matplotlib" in code[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_runs_to_its_end(name, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs
                if "image/png" in o.get("data", {})]
    assert pictures
