"""The rooms of the house, and the one direction in which they import: the map, and the judge of it.

Adding an edge means changing a table below, where a reviewer sees it.
"""

import ast
import functools
import re

import pytest
from tree import FILES, ROOT, SIDES, imports, tree

# From the roof down. A room imports what is below it; those on one line do not import each other.
ROOMS = (
    ("cli",),
    ("reproduce",),
    ("estimators",),
    ("plot", "selection", "streaming"),
    ("comparing", "saving", "assignment"),
    ("solvers",),
    ("solving",),
    ("formulations",),
    ("bounds",),
    ("modeling",),
    ("capabilities",),
    ("margins",),
    ("kernels",),
    ("compiled",),
    ("condensing",),
    ("constraints", "datasets", "linalg", "metrics", "registry"),
    ("checks",),
    ("tables",),
    ("errors", "tolerances", "types"),
)
# Methods of convenience: they look up where they are called, never when they are imported.
DOORS = {
    ("mmcopt.modeling.formulation", "mmcopt.bounds.relaxation"),  # problem.relax(...)
    ("mmcopt.modeling.result", "mmcopt.bounds.verification"),  # result.verify()
    ("mmcopt.modeling.result", "mmcopt.bounds.certificates"),  # result.merge(other)
    ("mmcopt.modeling.result", "mmcopt.solving.ladder"),  # result.certify()
    ("mmcopt.modeling.result", "mmcopt.saving"),  # result.save(path)
    ("mmcopt.modeling.result", "mmcopt.plot"),  # result.plot(), result.to_html(path)
    ("mmcopt.comparing.table", "mmcopt.comparing.run"),  # comparison.extend(...)
    ("mmcopt.comparing.table", "mmcopt.plot"),  # comparison.plot(), comparison.to_html(path)
    ("mmcopt.assignment.clusters", "mmcopt.plot"),  # clusters.plot()
    ("mmcopt.selection.cells", "mmcopt.plot"),  # grid.plot()
    ("mmcopt.solving.conformance", "mmcopt.saving"),  # mmcopt.check(cls)
    ("mmcopt.solving.solver", "mmcopt.solving.driver"),  # solver.solve(problem)
}
MOST_ENTRIES = 28  # side by side in mmcopt/, each explained by its name


LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


@functools.cache
def edges(*, lazy: bool) -> dict[str, set[str]]:
    """What each module imports: when it is imported, or later."""
    return {name: imports(name, lazy=lazy) for name in FILES}


def room(name: str) -> str:
    """The room of a module; the package's own face is in none."""
    return name.split(".")[1] if "." in name else ""


def wrong(imported: dict[str, set[str]]) -> list[str]:
    """Edges between rooms that the map does not have."""
    out = []
    for name, others in imported.items():
        for other in others:
            here, there = room(name), room(other)
            if "" in (here, there) or here == there:
                continue
            if there in SIDES or LEVEL[there] <= LEVEL[here]:
                out.append(f"{name} -> {other}")
    return sorted(out)


def without_doors(imported: dict[str, set[str]]) -> dict[str, set[str]]:
    return {a: {b for b in others if (a, b) not in DOORS and (a, _face(b)) not in DOORS}
            for a, others in imported.items()}


def _face(module: str) -> str:
    return ".".join(module.split(".")[:2])


# ---------------------------------------------------------------- the tests


def test_every_module_is_in_a_room():
    assert sorted({room(name) for name in FILES} - {""}) == sorted(LEVEL)


def test_contributing_shows_this_map():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    (\S.*)$", text.split("## The rooms")[1].split("\n## ")[0], re.M)
    shown = tuple(tuple(re.split(r" {2,}", line)[0].split(" | ")) for line in lines)
    assert shown == ROOMS


def test_the_entrance_hall_is_not_crowded():
    links = {"formulations", "solvers"}
    entries = [p.name for p in (ROOT / "mmcopt").iterdir()
               if p.name not in links | {"py.typed", "__pycache__"}]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_imports_go_down():
    assert wrong(edges(lazy=False)) == []


def test_imports_inside_functions_go_down_but_through_doors():
    assert wrong(without_doors(edges(lazy=True))) == []


def test_no_door_is_there_that_nobody_uses():
    used = {(a, b) for a, others in edges(lazy=True).items() for b in others}
    used |= {(a, _face(b)) for a, b in used}
    assert used >= DOORS


def test_no_cycles():
    now, later = edges(lazy=False), without_doors(edges(lazy=True))
    graph = {name: (now[name] | later[name]) - {"mmcopt"} for name in FILES}
    finished: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name):], name))
        if name not in finished:
            for other in sorted(graph[name]):
                walk(other, (*path, name))
            finished.add(name)

    for name in FILES:
        walk(name, ())


@pytest.mark.parametrize("name", [n for n in FILES if room(n) == "formulations"])
def test_no_formulation_knows_a_solver_by_name(name):
    asked = {alias.name for node in ast.walk(tree(name)) if isinstance(node, ast.ImportFrom)
             and node.module == "mmcopt.registry" for alias in node.names}
    asked |= {node.attr for node in ast.walk(tree(name)) if isinstance(node, ast.Attribute)
              and isinstance(node.value, ast.Name) and node.value.id == "registry"}
    assert not asked & {"solver", "solvers"}


@pytest.mark.parametrize("edge", [("mmcopt.kernels.fitted", "mmcopt.bounds.certificates"),
                                  ("mmcopt.solvers.tabu", "mmcopt.formulations.mkc"),
                                  ("mmcopt.solving.driver", "mmcopt.formulations.mkc"),
                                  ("mmcopt.plot.style", "mmcopt.selection.labels")])
def test_a_new_edge_is_seen(edge):
    assert wrong({edge[0]: {edge[1]}}) == [" -> ".join(edge)]


@pytest.mark.parametrize("name", sorted({f"mmcopt.{r}" for r in LEVEL} & {
    n for n, p in FILES.items() if p.name == "__init__.py"} - {"mmcopt.formulations",
                                                               "mmcopt.solvers"}))
def test_a_room_says_what_it_is_and_what_it_may_import(name):
    text = ast.get_docstring(tree(name))
    assert "import" in text and len(text.splitlines()) >= 3
