"""The rules of the house: folders, links, what an import loads, functions, docstrings."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib

import pytest
from tree import FILES, FOLDERS, ROOT, cloned, tree

import mmcopt

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAZY = ("cvxpy", "numba", "matplotlib", "sklearn", "joblib", "pandas")

MAX_FUNCTION = 60  # lines, beside the docstring


# ---------------------------------------------------------------- what is installed


def test_listed_packages_are_the_folders():
    setuptools = PROJECT["tool"]["setuptools"]
    found = {}
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            inside = path.parent.relative_to(ROOT / folder).parts
            if package != "mmcopt" or inside[:1] not in (("formulations",), ("solvers",)):
                found[".".join((package, *inside))] = "/".join((folder, *inside))
    assert sorted(setuptools["packages"]) == sorted(found)
    given = setuptools["package-dir"]
    for package, folder in found.items():
        parent, _, last = package.rpartition(".")
        assert given.get(package, f"{given.get(parent)}/{last}") == folder
        assert (ROOT / folder / "__init__.py").is_file(), f"{folder} has no __init__.py"


@pytest.mark.parametrize("name", ["formulations", "solvers"])
def test_links_show_the_folders_in_the_package(name):
    link = ROOT / "mmcopt" / name
    assert link.is_symlink(), f"mmcopt/{name} is no link; see core.symlinks in CONTRIBUTING.md"
    assert not link.readlink().is_absolute()
    assert link.resolve(strict=True) == ROOT / name


def test_version():
    assert PROJECT["project"]["version"] == mmcopt.__version__
    assert f"version: {mmcopt.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {mmcopt.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_dependency_stands_in_the_table_of_licences():
    from mmcopt.cli.doctor import EXTRAS, PARTS

    def names(requirements):
        return {re.match(r"[\w-]+", r)[0].lower() for r in requirements}

    project = PROJECT["project"]
    assert {n for n, part in PARTS.items() if not part.extra} == names(project["dependencies"])
    for extra in EXTRAS:
        wanted = names(project["optional-dependencies"][extra])
        assert {n for n, part in PARTS.items() if part.extra == extra} >= wanted, extra


@cloned
def test_the_sdist_is_told_of_everything():
    told = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    git = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tops = {name.partition("/")[0] for name in git.stdout.split()} - {".ci"}
    packaged = {"mmcopt", "formulations", "solvers", "pyproject.toml", "README.md", "LICENSE"}
    assert not tops - packaged - set(told)


def test_package_is_typed():
    assert (ROOT / "mmcopt" / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["mmcopt"]


def test_import_is_light():
    code = f"import sys, mmcopt; print([m for m in {LAZY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


# ---------------------------------------------------------------- sizes and docstrings


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


@pytest.mark.parametrize("name", FILES)
def test_no_function_is_too_long(name):
    long = {f.name: _length(f) for f in _functions(tree(name)) if _length(f) > MAX_FUNCTION}
    assert not long, "these functions hold more than one idea"


@pytest.mark.parametrize("name", FILES)
def test_docstrings(name):
    assert ast.get_docstring(tree(name)), f"{name} has no docstring"
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    public = [n for n in tree(name).body if isinstance(n, kinds) and not n.name.startswith("_")]
    assert not [n.name for n in public if not ast.get_docstring(n)]


def test_methods_have_docstrings_of_their_own_or_inherited():
    missing = []
    for info in pkgutil.walk_packages(mmcopt.__path__, "mmcopt."):
        if info.name.endswith("__main__"):
            continue
        for _, cls in inspect.getmembers(importlib.import_module(info.name), inspect.isclass):
            if cls.__module__ != info.name or cls.__name__.startswith("_"):
                continue
            for name, value in vars(cls).items():
                method = isinstance(value, property) or inspect.isroutine(value)
                if method and not name.startswith("_") and not inspect.getdoc(getattr(cls, name)):
                    missing.append(f"{info.name}.{cls.__name__}.{name}")
    assert not missing
