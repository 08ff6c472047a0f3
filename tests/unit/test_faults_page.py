"""docs/faults.md: every fault is proved by tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_names_a_test_that_exists() -> None:
    rows = re.findall(
        r"^\| (\d*) \|.*\| `(\S+?)::(\S+)` \|$", (ROOT / "docs" / "faults.md").read_text(), re.M
    )
    assert [int(number) for number, _, _ in rows if number] == list(range(1, 28))
    for _, file, name in rows:
        scope: ast.AST = ast.parse((ROOT / "tests" / file).read_text())
        for part in name.split("::"):
            known = {
                one.name: one
                for one in ast.iter_child_nodes(scope)
                if isinstance(one, (ast.FunctionDef, ast.ClassDef))
            }
            assert part in known, f"{file}::{name}"
            scope = known[part]
