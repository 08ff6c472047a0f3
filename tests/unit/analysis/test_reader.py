"""Finding the reader library where pip did not install it."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis import reader
from perfkit.errors import CannotError


def install(root: Path) -> Path:
    """A folder like Nsight Compute's, with an `ncu` and the module in extras/python."""
    module = root / "extras" / "python" / "ncu_report.py"
    module.parent.mkdir(parents=True)
    module.write_text(f"WHERE = {str(root)!r}\n")
    ncu = root / "target" / "linux-desktop-glibc_2_11_3-x64" / "ncu"
    ncu.parent.mkdir(parents=True)
    ncu.write_text("#!/bin/sh\n")
    ncu.chmod(0o755)
    return ncu


@pytest.fixture
def without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """`import ncu_report` only finds what is in a folder that the search put on the path."""
    reader.library.cache_clear()
    monkeypatch.delitem(sys.modules, "ncu_report", raising=False)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not Path(one, "ncu_report").exists()])
    monkeypatch.setattr("shutil.which", lambda _name: None)
    real = builtins.__import__

    def hide(name: str, *args: Any, **options: Any) -> Any:
        if name == "ncu_report" and not any(Path(one, "ncu_report.py").exists() for one in sys.path):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", hide)


@pytest.mark.usefixtures("without_the_package")
def test_the_one_that_ncu_on_the_path_belongs_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "2099.1.0"
    link = tmp_path / "bin" / "ncu"
    link.parent.mkdir()
    link.symlink_to(install(root))
    monkeypatch.setattr("shutil.which", lambda _name: str(link))
    try:
        where = reader.library().WHERE
    finally:
        reader.library.cache_clear()
        sys.modules.pop("ncu_report", None)
    assert where == str(root)


def test_the_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for release in ("2024.1.0", "2025.3.1", "2025.1.0"):
        install(tmp_path / release)
    ncu = tmp_path / "2024.1.0" / "target" / "linux-desktop-glibc_2_11_3-x64" / "ncu"
    monkeypatch.setattr("shutil.which", lambda _name: str(ncu))
    real = Path.glob

    def glob(self: Path, pattern: str) -> Any:
        return real(tmp_path, "*") if str(self) == "/opt/nvidia/nsight-compute" else real(self, pattern)

    monkeypatch.setattr(Path, "glob", glob)
    found = [one for one in reader._installed() if tmp_path in one.parents]
    assert [one.parents[1].name for one in found] == ["2025.3.1", "2025.1.0", "2024.1.0"]


@pytest.mark.usefixtures("without_the_package")
def test_none_at_all_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_installed", list)
    try:
        with pytest.raises(CannotError, match="ncu_report is not there") as caught:
            reader.library()
        assert "pip install ncu-report" in caught.value.remedy
    finally:
        reader.library.cache_clear()
