"""The documents tell the truth: every module is named, every file exists, every command is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfkit.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "perfkit"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def test_every_module_is_named_in_the_architecture() -> None:
    names = {path.name for path in PACKAGE.rglob("*.py")} - {"__init__.py"}
    assert sorted(name for name in names if name not in ARCHITECTURE) == []


def test_every_file_the_architecture_names_exists() -> None:
    named = set(re.findall(r"[\w./]*\w+\.(?:py|toml|cu)\b", ARCHITECTURE)) - {"perfkit.toml"}
    known = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*") if ".venv" not in path.parts}
    assert sorted(name for name in named if not any(f"/{one}".endswith(f"/{name}") for one in known)) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"perfkit {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    assert [target for target in targets if not (document.parent / target).exists()] == []
