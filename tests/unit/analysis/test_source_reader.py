"""What a reading process makes of single instructions, on a stand-in for the library's action."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from perfkit.analysis import source_reader
from perfkit.analysis.source_level import compare_source
from perfkit.analysis.source_reader import Instruction, read_raw_instructions, short_paths

BASE = 0x7F0000000000
SAMPLES = "smsp__pcsamp_warps_issue_stalled_barrier"


class Metric:
    """Counts by address."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = counts

    def num_instances(self) -> int:
        return len(self.counts)

    def has_correlation_ids(self) -> bool:
        return True

    def correlation_ids(self) -> Any:
        return SimpleNamespace(as_uint64=lambda at: BASE + 16 * at)

    def as_double(self, at: int) -> float:
        return float(self.counts[at])


class Action:
    """A kernel whose instructions come from these (path, line), with so many samples each."""

    def __init__(self, places: Sequence[tuple[str, int]], samples: Sequence[int]) -> None:
        self.places = places
        self.metrics = {SAMPLES: Metric(samples), "inst_executed": Metric([1] * len(places))}

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.metrics)

    def metric_by_name(self, name: str) -> Metric | None:
        return self.metrics.get(name)

    def source_files(self) -> dict[str, str]:
        return {}

    def source_info(self, pc: int) -> Any:
        path, line = self.places[(pc - BASE) // 16]
        return SimpleNamespace(file_name=lambda: path, line=lambda: line)

    def sass_by_pc(self, pc: int) -> str:
        return f"FFMA R1, R1, R2, R{(pc - BASE) // 16}"


def instructions(
    monkeypatch: pytest.MonkeyPatch, places: Sequence[tuple[str, int]], samples: Sequence[int]
) -> tuple[Instruction, ...]:
    action = Action(places, samples)
    found = SimpleNamespace(action_by_idx=lambda _: action)
    report = SimpleNamespace(range_by_idx=lambda _: found)
    monkeypatch.setattr(source_reader, "library", lambda: SimpleNamespace(load_report=lambda _: report))
    return tuple(Instruction(*one) for one in read_raw_instructions("r.ncu-rep", 0, 0))


def test_two_files_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Line 10 of gemm/tile.cuh and line 10 of conv/tile.cuh are two places, before and after."""
    places = [("/src/gemm/tile.cuh", 10), ("/src/conv/tile.cuh", 10), ("/src/main.cu", 3)]
    before = instructions(monkeypatch, places, [50, 50, 100])
    assert [one.file for one in before] == ["gemm/tile.cuh", "conv/tile.cuh", "main.cu"]

    after = instructions(monkeypatch, places, [50, 150, 100])
    lines = {one.where: one for one in compare_source(before, after, 1.5) if not one.is_instruction}
    # B takes 1.5 times as long: conv's line went from 50/200 to 150/300 of it, gemm's stayed where it was.
    assert lines["conv/tile.cuh:10"].before == pytest.approx(0.25)
    assert lines["conv/tile.cuh:10"].after == pytest.approx(0.75)
    assert "gemm/tile.cuh:10" not in lines


@pytest.mark.parametrize(
    ("paths", "short"),
    [
        (("/a/k.cu",), ("k.cu",)),
        (("/a/k.cu", "/b/k.cu"), ("a/k.cu", "b/k.cu")),
        (("/x/a/k.cu", "/y/a/k.cu", "/x/a/m.cu"), ("x/a/k.cu", "y/a/k.cu", "m.cu")),
        (("k.cu", "/b/k.cu"), ("k.cu", "b/k.cu")),
        ((r"C:\one\k.cu", r"C:\two\k.cu"), ("one/k.cu", "two/k.cu")),
    ],
)
def test_as_many_folders_as_it_takes(paths: tuple[str, ...], short: tuple[str, ...]) -> None:
    assert short_paths(paths) == dict(zip(paths, short, strict=True))
