"""The package as files: every module by its name, its syntax tree, and what it imports."""

import ast
import functools
import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = {"mmcopt": "mmcopt", "mmcopt.formulations": "formulations", "mmcopt.solvers": "solvers"}
# Unpacked from an archive the tree has no list of its files; where the checks run it is a clone.
cloned = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone")
SIDES = {"formulations", "solvers"}  # both are found by name only, through the registry


def module_files() -> dict[str, pathlib.Path]:
    """Every module of the package by its dotted name, each file once."""
    files = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if package == "mmcopt" and len(parts) > 1 and parts[0] in SIDES:
                continue  # Pythons before 3.13 follow the links
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


FILES = module_files()


@functools.cache
def tree(name: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


def imports(name: str, *, lazy: bool) -> set[str]:
    """Modules of the package that a module imports: when it is imported, or inside functions."""
    found: set[str] = set()

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue  # never runs
            if inside == lazy:
                found.update(_named(child, name))
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            visit(child, inside or function)

    visit(tree(name), False)
    return found


def _named(node: ast.AST, name: str) -> set[str]:
    """The modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & FILES.keys()
    if not isinstance(node, ast.ImportFrom):
        return set()
    base = node.module or ""
    if node.level:
        package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
        base = importlib.util.resolve_name("." * node.level + base, package)
    parts = {f"{base}.{alias.name}" for alias in node.names} & FILES.keys()
    return parts | ({base} & FILES.keys() if len(parts) < len(node.names) else set())
