"""The walls between rooms, read from the syntax trees: who imports whom, who prints, who exits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "perfkit"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Room -> rooms of perfkit that it may import. A room may always import itself.
MAY_IMPORT = {
    "errors": set(),
    "units": {"errors"},
    "user_file": set(),
    "model": {"errors", "units"},
    "kernels": {"errors", "units", "user_file", "model"},
    "analysis": {"errors", "units", "user_file", "model"},
    "reports": {"errors", "units", "user_file", "model"},
    "profiler": {"errors", "units", "user_file", "model", "kernels"},
    "data": set(),
}
# The version is a constant of the package itself.
ALWAYS = {"__version__"}
HEAVY = {
    "pandas",
    "numpy",
    "matplotlib",
    "cupy",
    "rich",
    "jinja2",
    "ncu_report",
    "pyarrow",
    "zstandard",
    "pynvml",
}
READER = {"analysis/reader.py"}
PRINTS = {"commands/_console.py", "cli.py"}


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Every imported module (and `from package import name` as package.name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run on import; what only a type checker sees is left out."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_stay_within_the_walls(module: Path) -> None:
    allowed = MAY_IMPORT.get(room_of(module))
    if allowed is None:  # commands, api, cli: may import everything
        return
    for name, node in imports(ast.parse(module.read_text())):
        parts = name.split(".")
        if parts[0] != "perfkit" or len(parts) < 2 or parts[1] in ALWAYS:
            continue
        ok = parts[1] == room_of(module) or parts[1] in allowed
        assert ok, f"{module.relative_to(PACKAGE)}:{node.lineno} imports {name}"


def test_only_the_reader_knows_ncu_report() -> None:
    for module in MODULES:
        found = [
            name for name, _ in imports(ast.parse(module.read_text())) if name.split(".")[0] == "ncu_report"
        ]
        name = str(module.relative_to(PACKAGE))
        assert not found or name in READER, f"{name} imports ncu_report"


def test_reports_never_see_pandas() -> None:
    for module in MODULES:
        if room_of(module) == "reports":
            names = {name.split(".")[0] for name, _ in imports(ast.parse(module.read_text()))}
            assert not names & {"pandas", "ncu_report"}, module


def test_nothing_heavy_is_imported_by_the_command_line() -> None:
    """At the top of cli.py, commands/, api.py and what every command needs; inside functions is fine."""
    for module in MODULES:
        if room_of(module) not in {
            "cli",
            "commands",
            "api",
            "errors",
            "units",
            "model",
            "__init__",
            "__main__",
        }:
            continue
        for statement in top_level(ast.parse(module.read_text())):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = {name.split(".")[0] for name, _ in imports(statement)}
                assert not names & HEAVY, (
                    f"{module.relative_to(PACKAGE)}:{statement.lineno} imports {names & HEAVY}"
                )


def test_only_the_console_prints_and_only_cli_exits() -> None:
    for module in MODULES:
        name = str(module.relative_to(PACKAGE))
        tree = ast.parse(module.read_text())
        own_process = any(
            isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in ast.walk(tree)
        )
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            where = f"{name}:{node.lineno}"
            if called == "print":
                assert own_process, f"{where} prints"
            if called in {"sys.exit", "exit", "quit"}:
                assert name == "cli.py" or own_process, f"{where} exits"
            if called in {"sys.stdout.write", "sys.stderr.write"}:
                assert name in PRINTS or own_process, f"{where} writes to the terminal"


def test_no_cycle_of_modules_within_a_room() -> None:
    """Within analysis/ imports at the top of a file form no circle."""
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        if room_of(module) != "analysis":
            continue
        name = "perfkit.analysis." + module.stem
        graph[name] = {
            one
            for statement in top_level(ast.parse(module.read_text()))
            for one, _ in imports(statement)
            if one.startswith("perfkit.analysis.")
        }
    for start in graph:
        seen, waiting = set(), list(graph[start])
        while waiting:
            one = waiting.pop()
            assert one != start, f"{start} imports itself through others"
            if one not in seen:
                seen.add(one)
                waiting += graph.get(one, ())
