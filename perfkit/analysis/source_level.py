"""Which instructions and source lines the time went to: those whose stalls grew or fell most from A to B.

A launch's warp samples are spread over its time, so a place's share of them, times T/T_A, is in parts of
A's time. Instructions of the two kernels are aligned by their opcodes in order (longest matching blocks),
source lines by their text where both reports carry it and by file and number otherwise: a place without a
partner is new, or gone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from perfkit.analysis.facts import NO_STALL
from perfkit.analysis.source_reader import Instruction
from perfkit.model import SourceLine

_LEAST = 0.005  # parts of A's time: what grew by less is no news
_EXACT = 10_000_000  # pairs of instructions
_PREDICATE = re.compile(r"@!?U?P\w+\s+")


@dataclass(slots=True)
class _Place:
    """Stalled samples of both launches at one place, as shares of each launch's samples."""

    text: str
    before: float = 0.0
    after: float = 0.0
    reasons: dict[str, float] = field(default_factory=dict)


def compare_source(
    a: Sequence[Instruction], b: Sequence[Instruction], time_ratio: float, most: int = 6
) -> tuple[SourceLine, ...]:
    """Source lines (where both carry them), then instructions: at most `most` whose stalls grew and half as
    many whose stalls fell, from most grown to most fallen. `time_ratio` is T_B/T_A.

    () when either launch was not sampled or nothing moved.
    """
    if not a or not b:
        return ()
    lines: tuple[SourceLine, ...] = ()
    if any(one.line for one in a) and any(one.line for one in b):
        lines = _ranked(_by_line(a, b, time_ratio), most)
    return lines + _ranked(_by_instruction(a, b, time_ratio), most, is_instruction=True)


def _stalled(one: Instruction) -> dict[str, float]:
    return {reason: count for reason, count in one.samples.items() if reason not in NO_STALL and count > 0}


def _total(found: Sequence[Instruction]) -> float:
    return sum(sum(one.samples.values()) for one in found) or 1.0


def _add(
    places: dict[str, _Place], where: str, text: str, one: Instruction, scale: float, *, after: bool
) -> None:
    place = places.setdefault(where, _Place(text))
    for reason, count in _stalled(one).items():
        share = count * scale
        if after:
            place.after += share
        else:
            place.before += share
        place.reasons[reason] = place.reasons.get(reason, 0.0) + (share if after else -share)


Line = tuple[str, int, str]  # file, number, text


def _by_line(a: Sequence[Instruction], b: Sequence[Instruction], ratio: float) -> dict[str, _Place]:
    partner = _line_partners(_lines(a), _lines(b))
    places: dict[str, _Place] = {}
    for found, scale, after in ((b, ratio / _total(b), True), (a, 1 / _total(a), False)):
        for one in found:
            if one.line:
                line = _line(one)
                file, number, _ = line if after else partner.get(line, line)
                where = f"{file}:{number}" if after or line in partner else f"A: {file}:{number}"
                _add(places, where, one.source, one, scale, after=after)
    return places


def _line(one: Instruction) -> Line:
    return one.file, one.line, one.source


def _lines(found: Sequence[Instruction]) -> list[Line]:
    return sorted({_line(one) for one in found if one.line})


def _once(lines: list[Line]) -> dict[str, Line]:
    """The lines whose text no other line has, by text."""
    count = Counter(text for *_, text in lines)
    return {line[2]: line for line in lines if count[line[2]] == 1}


def _line_partners(a: list[Line], b: list[Line]) -> dict[Line, Line]:
    """Lines of A and the same lines of B: by text, for lines move when a file is edited or copied.

    A text that each has once is the same line wherever it stands; repeated ones are aligned in order.
    """
    if all(text for *_, text in (*a, *b)):
        once = _once(a).keys() & _once(b).keys()
        found = {_once(a)[text]: _once(b)[text] for text in once}
        a, b = [line for line in a if line[2] not in once], [line for line in b if line[2] not in once]
        matcher = SequenceMatcher(None, [text for *_, text in a], [text for *_, text in b], autojunk=False)
        blocks = matcher.get_matching_blocks()
        return found | {a[block.a + i]: b[block.b + i] for block in blocks for i in range(block.size)}
    numbered = {line[:2]: line for line in b}
    return {line: numbered[line[:2]] for line in a if line[:2] in numbered}


def _by_instruction(a: Sequence[Instruction], b: Sequence[Instruction], ratio: float) -> dict[str, _Place]:
    # Beyond that the exact search takes minutes; the coarse one aligns at the rarer opcodes only.
    coarse = len(a) * len(b) > _EXACT
    matcher = SequenceMatcher(None, [_opcode(one) for one in a], [_opcode(one) for one in b], autojunk=coarse)
    partner = {block.b + i: block.a + i for block in matcher.get_matching_blocks() for i in range(block.size)}

    def named(one: Instruction) -> str:
        return f"+{one.offset:#06x}"

    places: dict[str, _Place] = {}
    scale_a, scale_b = 1 / _total(a), ratio / _total(b)
    taken = set(partner.values())
    for index, one in enumerate(b):
        where = named(one)
        _add(places, where, one.sass, one, scale_b, after=True)
        if index in partner:
            _add(places, where, one.sass, a[partner[index]], scale_a, after=False)
    for index, one in enumerate(a):
        if index not in taken:
            _add(places, f"A: {named(one)}", one.sass, one, scale_a, after=False)
    return places


def _opcode(one: Instruction) -> str:
    return _PREDICATE.sub("", one.sass).split(" ")[0]


def _ranked(places: dict[str, _Place], most: int, *, is_instruction: bool = False) -> tuple[SourceLine, ...]:
    moved = [(place.after - place.before, where, place) for where, place in places.items()]
    moved.sort(key=lambda item: -item[0])
    grown = [item for item in moved if item[0] >= _LEAST][:most]
    fallen = [item for item in moved if item[0] <= -_LEAST][-max(1, most // 2) :]
    return tuple(
        SourceLine(where, place.text, place.before, place.after, _moving(place, change), is_instruction)
        for change, where, place in grown + fallen
    )


def _moving(place: _Place, change: float) -> str:
    """The stall reason that moved most in the direction of the whole."""
    return max(place.reasons, key=lambda reason: math.copysign(1.0, change) * place.reasons[reason])
