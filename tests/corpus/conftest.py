"""The field reports named by PERFKIT_REPORTS; where they are absent every test here skips, and says so."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

_ABSENT = "PERFKIT_REPORTS does not name a folder of field reports"


@dataclass(frozen=True)
class Corpus:
    folder: Path
    index: dict[str, dict[str, str]]

    def files(self) -> list[Path]:
        return [self.folder / name for name in sorted(self.index)]

    def find(self, part: str) -> Path:
        (found,) = (path for path in self.files() if part in path.name)
        return found


def _folder() -> Path | None:
    given = os.environ.get("PERFKIT_REPORTS")
    return Path(given) if given and Path(given, "index.csv").is_file() else None


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    folder = _folder()
    if folder is None:
        pytest.skip(_ABSENT)
    with (folder / "index.csv").open(newline="") as stream:
        return Corpus(folder, {row["file"]: row for row in csv.DictReader(stream)})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.corpus)
            if _folder() is None:
                item.add_marker(pytest.mark.skip(reason=_ABSENT))
