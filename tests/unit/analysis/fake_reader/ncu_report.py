"""A stand-in for NVIDIA's reader that does what a damaged file makes it do; the file's name says what."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


class IMetric:
    ValueKind_DOUBLE, ValueKind_FLOAT, ValueKind_STRING, ValueKind_UINT32, ValueKind_UINT64 = range(1, 6)

    def __init__(self, value: float) -> None:
        self._value = value

    def kind(self) -> int:
        return self.ValueKind_DOUBLE

    def as_double(self) -> float:
        return self._value

    def value(self) -> float:
        return self._value

    def unit(self) -> str:
        return "ns"


class _Domain:
    def push_pop_ranges(self) -> tuple[str, ...]:
        return ("outer", "perfkit:k6b@1:n=4096")

    def start_end_ranges(self) -> tuple[str, ...]:
        return ()


class _Nvtx:
    def domains(self) -> tuple[int, ...]:
        return (0,)

    def domain_by_id(self, _domain: int) -> _Domain:
        return _Domain()


class IAction:
    NameBase_DEMANGLED = 1
    NameBase_MANGLED = 2

    def __init__(self, path: str) -> None:
        self._path = path

    def name(self, _base: int = 0) -> str | None:
        if "nameless" in self._path:
            return None
        return "k\udcff" if "surrogate" in self._path else "kernel"

    def metric_by_name(self, name: str) -> IMetric | None:
        if name == "size.sum":
            return IMetric(float(Path(self._path).stat().st_size))
        return IMetric(float(os.getpid())) if name == "gpu__time_duration.sum" else None

    def metric_names(self) -> tuple[str, ...]:
        return ("gpu__time_duration.sum",)

    def nvtx_state(self) -> _Nvtx:
        return _Nvtx()


class _Range:
    def __init__(self, path: str) -> None:
        self._path = path

    def num_actions(self) -> int:
        return 1

    def action_by_idx(self, _index: int) -> IAction:
        return IAction(self._path)


class _Context:
    def __init__(self, path: str) -> None:
        self._path = path

    def num_ranges(self) -> int:
        return 1

    def range_by_idx(self, _index: int) -> _Range:
        return _Range(self._path)


def load_report(path: str) -> _Context:
    name = Path(path).name
    sys.stdout.write("noise on stdout\n")
    if "abort" in name:
        os.abort()
    if told := os.environ.get("FAKE_READER_HANGS"):
        Path(told).write_text(str(os.getpid()))
    if "hang" in name or told:
        time.sleep(60)
    if "raise" in name:
        raise RuntimeError("cannot parse the message")
    if "exit" in name:
        os._exit(3)
    return _Context(path)
