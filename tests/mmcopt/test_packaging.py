"""The rules of the house: folders, links, imports, sizes, docstrings."""

import ast
import importlib
import inspect
import pathlib
import pkgutil
import subprocess
import sys
import tomllib

import pytest

import mmcopt

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = {"mmcopt": "mmcopt", "mmcopt.formulations": "formulations", "mmcopt.solvers": "solvers"}
LAZY = ("cvxpy", "numba", "matplotlib", "sklearn", "joblib", "pandas")

MAX_MODULE, MAX_FUNCTION = 500, 60
# Compiled loops that call each other share one file: numba's cache does not see changes elsewhere.
LONGER = {"mmcopt.compiled.label_moves": 750}
# The core finds formulations and solvers through the registry, inside functions.
FINDS_BY_NAME = {"mmcopt.registry"}
RE_EXPORTS = {"mmcopt"}


def _module_files() -> dict[str, pathlib.Path]:
    """Every module of the package by its dotted name, each file once."""
    files = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if package == "mmcopt" and len(parts) > 1 and parts[0] in ("formulations", "solvers"):
                continue  # Pythons before 3.13 follow the links
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


FILES = _module_files()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


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


def test_package_is_typed():
    assert (ROOT / "mmcopt" / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["mmcopt"]


def test_import_is_light():
    code = f"import sys, mmcopt; print([m for m in {LAZY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


# ---------------------------------------------------------------- who imports whom


def _imports(name: str, *, inside_functions: bool) -> set[str]:
    """Modules that a module imports, at its top level or (also) inside its functions."""
    found = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue  # never runs
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
                    base = importlib.util.resolve_name("." * child.level + base, package)
                submodules = {f"{base}.{a.name}" for a in child.names} & FILES.keys()
                found.update(submodules)
                if len(submodules) < len(child.names):
                    found.add(base)
            if inside_functions or not function:
                visit(child)

    visit(TREES[name])
    return found


def _reaches(imported: set[str], *packages: str) -> list[str]:
    return sorted(m for m in imported for p in packages if m == p or m.startswith(p + "."))


@pytest.mark.parametrize("name", FILES)
def test_imports_point_one_way(name):
    everywhere = _imports(name, inside_functions=True)
    at_the_top = _imports(name, inside_functions=False)
    sides = ("mmcopt.formulations", "mmcopt.solvers")
    if name.startswith(sides[0]):
        assert not _reaches(everywhere, sides[1])
    elif name.startswith(sides[1]):
        assert not _reaches(everywhere, sides[0])
    elif name not in RE_EXPORTS:
        forbidden = at_the_top if name in FINDS_BY_NAME else everywhere
        assert not _reaches(forbidden, *sides), "the core finds both through mmcopt.registry"


def test_no_import_cycles():
    graph = {n: _imports(n, inside_functions=False) & FILES.keys() - {"mmcopt"} for n in FILES}
    finished: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name):], name))
        if name not in finished:
            for other in sorted(graph[name]):
                walk(other, (*path, name))
            finished.add(name)

    for name in FILES:
        walk(name, ())


# ---------------------------------------------------------------- sizes and docstrings


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= function.body[0].end_lineno - function.body[0].lineno + 1
    return lines


@pytest.mark.parametrize("name", FILES)
def test_sizes(name):
    lines = len(FILES[name].read_text(encoding="utf-8").splitlines())
    assert lines <= LONGER.get(name, MAX_MODULE), f"{lines} lines: two ideas in one file?"
    long = {f.name: _length(f) for f in _functions(TREES[name]) if _length(f) > MAX_FUNCTION}
    assert not long, "these functions hold more than one idea"


@pytest.mark.parametrize("name", FILES)
def test_docstrings(name):
    assert ast.get_docstring(TREES[name]), f"{name} has no docstring"
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    public = [n for n in TREES[name].body if isinstance(n, kinds) and not n.name.startswith("_")]
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
