"""What a kernel was compiled to: opcode counts and the main loop, from nvdisasm's listing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import ToolError
from perfkit.model import LoopMix
from perfkit.profiler.toolchain import require_disassembler, run_tool

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^\s,]+),")
_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(
    r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<rest>[^;]*);"
)
_TARGET = re.compile(r"\.L_\w+")
_BRANCHES = ("BRA", "BRX", "JMP")
_WIDTH = re.compile(r"\.[US]?(8|16|64|128)\b")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One SASS instruction. `opcode` with its modifiers (`LDS.128`), `text` as nvdisasm prints it."""

    opcode: str
    text: str
    target: int | None = None  # index of the instruction it branches to

    @property
    def base(self) -> str:
        """`LDS` of `LDS.128`."""
        return self.opcode.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Listing:
    """A kernel's instructions in address order, and its main loop as indices into them."""

    symbol: str
    instructions: tuple[Instruction, ...]
    loop: tuple[int, ...]

    @property
    def opcodes(self) -> Mapping[str, int]:
        """Static count of every base opcode in the whole kernel, padding NOPs left out."""
        return _counts([instruction for instruction in self.instructions if instruction.base != "NOP"])

    @property
    def mix(self) -> LoopMix | None:
        """The main loop by class of instruction, or None for a kernel without a loop."""
        if not self.loop:
            return None
        body = [self.instructions[index] for index in self.loop]
        lds, sts, ldg = (_by_width(body, base) for base in ("LDS", "STS", "LDG"))
        ffma = sum(instruction.base == "FFMA" for instruction in body)
        barriers = sum(instruction.base == "BAR" for instruction in body)
        known = ffma + barriers + sum(lds.values()) + sum(sts.values()) + sum(ldg.values())
        return LoopMix(len(body), ffma, lds, sts, ldg, barriers, len(body) - known, _counts(body))


def disassemble(cubin: Path) -> dict[str, Listing]:
    """The kernels of a cubin by symbol. Raises ToolError when nvdisasm fails, CannotError without it."""
    return parse_listing(run_tool([require_disassembler(), "-c", str(cubin)]))


def listing_of(cubin: Path, symbol: str) -> Listing:
    """One kernel of a cubin. Raises ToolError when nvdisasm does not list it."""
    listings = disassemble(cubin)
    if symbol not in listings:
        raise ToolError(
            f"nvdisasm lists no kernel {symbol} in {cubin}", f"It lists: {', '.join(listings) or 'nothing'}."
        )
    return listings[symbol]


def parse_listing(text: str) -> dict[str, Listing]:
    """Kernels of an `nvdisasm -c` listing by symbol."""
    bodies: dict[str, list[tuple[str, str]]] = {}
    labels: dict[str, dict[str, int]] = {}
    symbol = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            symbol = match[1]
            bodies[symbol], labels[symbol] = [], {}
        elif symbol and (match := _LABEL.match(line)):
            labels[symbol][match[1]] = len(bodies[symbol])
        elif symbol and (match := _INSTRUCTION.match(line)):
            bodies[symbol].append((match["opcode"], line.strip()))
    return {name: _listing(name, body, labels[name]) for name, body in bodies.items()}


def _listing(symbol: str, body: Sequence[tuple[str, str]], labels: Mapping[str, int]) -> Listing:
    instructions = []
    for opcode, text in body:
        label = _TARGET.search(text) if opcode.partition(".")[0] in _BRANCHES else None
        instructions.append(Instruction(opcode, text, labels.get(label[0]) if label else None))
    return Listing(symbol, tuple(instructions), _main_loop(instructions))


def _main_loop(instructions: Sequence[Instruction]) -> tuple[int, ...]:
    """Indices of the loop with the most FFMAs of its own, that is, outside of the loops nested in it.

    A loop is the range a backward branch spans. Without any FFMA it is the loop with the most instructions. A
    branch to itself is no loop: it is how every kernel's code ends.
    """
    spans: dict[int, int] = {}  # loop head -> its last backward branch
    for index, instruction in enumerate(instructions):
        if instruction.target is not None and instruction.target < index:
            spans[instruction.target] = index
    best: tuple[int, ...] = ()
    best_rank = (0, 0)
    for head, tail in spans.items():
        nested = {
            index
            for other_head, other_tail in spans.items()
            if (other_head, other_tail) != (head, tail) and head <= other_head and other_tail <= tail
            for index in range(other_head, other_tail + 1)
        }
        own = tuple(index for index in range(head, tail + 1) if index not in nested)
        rank = (sum(instructions[index].base == "FFMA" for index in own), len(own))
        if rank > best_rank:
            best, best_rank = own, rank
    return best


def _by_width(body: Sequence[Instruction], base: str) -> Mapping[int, int]:
    """Count by access width in bits; 32 where the opcode names none."""
    widths = Counter(
        int(match[1]) if (match := _WIDTH.search(instruction.opcode)) else 32
        for instruction in body
        if instruction.base == base
    )
    return dict(sorted(widths.items()))


def _counts(instructions: Sequence[Instruction]) -> Mapping[str, int]:
    counted = Counter(instruction.base for instruction in instructions)
    return dict(counted.most_common())
