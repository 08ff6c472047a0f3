"""Choosing launches: by kernel, index, NVTX range and GPU, with an account of what was left out."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfkit.analysis.identity import device_text
from perfkit.errors import UsageError
from perfkit.model import Launch


@dataclass(frozen=True, slots=True)
class Selection:
    """What launches to keep: every filter that is given must match. The texts are regular expressions.

    `launches` are indices within a report, or ranges of them ("0", "2-5"). `gpu` is looked for in the GPU's
    name, and matched with "device 1" as a whole and with bus address and UUID from their start.
    """

    kernel: str = ""
    launches: tuple[str, ...] = ()
    nvtx: str = ""
    gpu: str = ""

    def apply(self, launches: Sequence[Launch]) -> list[Launch]:
        """The launches that match, in order. Raises UsageError for a bad filter, and when none matches."""
        kernel, nvtx, gpu = (self._pattern(one) for one in ("kernel", "nvtx", "gpu"))
        indices = self._indices()
        kept = [
            one
            for one in launches
            if (kernel is None or any(kernel.search(name) for name in (one.kernel, one.name, one.label)))
            and (nvtx is None or any(nvtx.search(name) for name in one.nvtx))
            and (gpu is None or _on(gpu, one))
            and (indices is None or one.id.launch in indices)
        ]
        if launches and not kept:
            raise UsageError(f"no launch matches {self.describe()}", self._what_there_is(launches))
        return kept

    def _what_there_is(self, launches: Sequence[Launch]) -> str:
        """What each filter could have matched."""
        indices = [one.id.launch for one in launches]
        return "\n".join(
            [
                *([_tally("Kernels", (one.label for one in launches))] if self.kernel else []),
                *([f"Launches: {min(indices)} to {max(indices)}"] if self.launches else []),
                *(
                    [_tally("NVTX ranges", (name for one in launches for name in one.nvtx))]
                    if self.nvtx
                    else []
                ),
                *([_tally("GPUs", map(_gpu_text, launches))] if self.gpu else []),
            ]
        )

    def describe(self) -> str:
        """The filters as the user gave them; "" when there are none."""
        parts = [
            *([f"--kernel {self.kernel!r}"] if self.kernel else []),
            *(f"--launch {one}" for one in self.launches),
            *([f"--nvtx {self.nvtx!r}"] if self.nvtx else []),
            *([f"--gpu {self.gpu!r}"] if self.gpu else []),
        ]
        return " ".join(parts)

    def _pattern(self, option: str) -> re.Pattern[str] | None:
        text: str = getattr(self, option)
        if not text:
            return None
        try:
            return re.compile(text)
        except re.error as error:
            raise UsageError(
                f"--{option} {text!r} is no regular expression: {error}",
                "Put \\ before . ( ) * + to mean them.",
            ) from None

    def _indices(self) -> set[int] | None:
        if not self.launches:
            return None
        chosen: set[int] = set()
        for text in (part.strip() for one in self.launches for part in one.split(",")):
            found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
            if not found:
                raise UsageError(
                    f"--launch {text!r} is no index", "Give an index such as 0, or a range such as 2-5."
                )
            chosen.update(range(int(found[1]), int(found[2] or found[1]) + 1))
        return chosen


def _on(pattern: re.Pattern[str], launch: Launch) -> bool:
    """Whether the launch ran on a GPU of that name, number, bus address or UUID."""
    device = launch.device
    return bool(
        pattern.search(launch.gpu)
        or (device.index is not None and pattern.fullmatch(f"device {device.index}"))
        or any(pattern.match(one) for one in (device.pci, device.uuid) if one and pattern.pattern)
    )


def _gpu_text(launch: Launch) -> str:
    device = device_text(launch.device)
    return f"{launch.gpu}, device {device}" if device else launch.gpu


def _tally(what: str, names: Iterable[str]) -> str:
    found = Tally(names).most_common(9)
    told = ", ".join(f"{name[:80]} ({count})" for name, count in found[:8])
    return f"{what}: {told or 'none'}{' and more' if len(found) > 8 else ''}"
