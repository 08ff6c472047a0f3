"""Independent readings of one fact, compared on every launch: where they contradict one another, no metric
that rests on the doubtful counters counts.

`RELATIONS` is the whole list; adding one is one entry. A relation holds by necessity (what is counted twice,
or what cannot exceed something else), never by expectation: lanes predicated off, generic accesses and bulk
copies are left room for. The readings come from different replay passes, so each relation has a tolerance,
chosen from its scatter over reports from the field (docs/contradictions.md has the table).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property

from perfkit.analysis.expression import Expression, Missing, Scope, Undefined, parse
from perfkit.analysis.opcode_classes import polling
from perfkit.model import Contradiction, Counter, Evaluated, Launch, MetricValue, Status

# What a counter of another replay pass may be off. Counts differ only where a kernel does not do the same
# each time (at most 0.44 % in the field); what is counted in cycles differs with clock and caches (5.8 %).
COUNT = 0.02
CYCLES = 0.10
# A launch of few cycles scatters more: its start and end are not alike in every pass (18 % at 5,100 cycles).
SHORT = 1000.0


@dataclass(frozen=True)
class Reading:
    """One way to read a fact: what it is called, and its formulas, of which the first that has its counters
    answers.
    """

    called: str
    formulas: tuple[str, ...]

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The formulas, parsed."""
        return tuple(map(parse, self.formulas))

    def value(self, scope: Scope) -> float:
        """NaN where the launch does not hold what the formulas need."""
        for expression in self.expressions:
            try:
                return expression.compute(scope)
            except (Missing, Undefined):
                continue
        return math.nan


@dataclass(frozen=True)
class Relation:
    """Two readings that must be equal, or (`at_most`) of which the first cannot exceed the second.

    `doubtful` are the counters (wildcards) that no longer count where it is broken; `short` is added to the
    tolerance over the launch's elapsed cycles. It is asked of compute capabilities from `since` on, below
    `below`. `polled`, where given, are the counters in doubt instead where the kernel polls: then two passes
    executed different numbers of instructions, each of which is right.
    """

    what: str
    one: Reading
    other: Reading
    unit: str
    doubtful: tuple[str, ...]
    at_most: bool = False
    tolerance: float = COUNT
    short: float = 0.0
    since: tuple[int, int] = (0, 0)
    below: tuple[int, int] = (99, 0)
    polled: tuple[str, ...] = ()

    def broken(self, scope: Scope, cycles: float) -> Contradiction | None:
        """The contradiction, where there is one; None where the readings agree or one of them is missing."""
        one = self.one.value(scope)
        other = self.other.value(scope) if not math.isnan(one) else math.nan
        tolerance = self.allowed(cycles)
        if math.isnan(one) or math.isnan(other) or not exceeds(one, other, tolerance, self.at_most):
            return None
        readings = ((self.one.called, one), (self.other.called, other))
        return Contradiction(self.what, readings, self.unit, tolerance)

    def allowed(self, cycles: float) -> float:
        """The relative difference that a launch of so many elapsed cycles may show."""
        return self.tolerance + (self.short / cycles if self.short and cycles > 0 else 0.0)


def exceeds(one: float, other: float, tolerance: float, at_most: bool) -> bool:
    """Whether two readings differ by more than the tolerance allows."""
    return one > other * (1 + tolerance) or (not at_most and other > one * (1 + tolerance))


_OPCODES = "sass__inst_executed_per_opcode"
_MODIFIED = "sass__inst_executed_per_opcode_with_modifier_all"
_NAMED = 2  # opcodes in a sentence
_LISTING = ("sass__*per_opcode*",)
_EXECUTED = ("smsp__inst_executed.*", "sm__inst_executed.*")
_ISSUED = ("smsp__inst_issued*", "smsp__issue_active*")
_TOTAL = re.compile(r"\{sass__inst_executed_per_opcode\}(?!\[)")  # all opcodes, not some of them
_THREADS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_ELAPSED = tuple(
    f"{{{unit}__cycles_elapsed.{kind}}}" for kind in ("avg", "max") for unit in ("smsp", "sm", "gpc")
)
_BY_OPCODE = "by opcode"
_MOST_WARPS = "{device__attribute_max_warps_per_multiprocessor}"
_SCHEDULERS = "{device__attribute_num_schedulers_per_multiprocessor}"


def _threads(name: str, opcodes: str, *, doubled: str = "") -> Iterator[Relation]:
    """Threads that executed an operation cannot exceed 32 x its warp instructions (a packed one is two)."""
    count = f"{{{_OPCODES}}}[{opcodes}]" + (f" + 2 * {{{_OPCODES}}}[{doubled}]" if doubled else "")
    counter = _THREADS.format(name)
    per_cycle = tuple(f"{{{counter}.per_cycle_elapsed}} * {cycles} / 32" for cycles in _ELAPSED)
    for formulas, limits in (((f"{{{counter}}} / 32",), (COUNT, 0.0)), (per_cycle, (CYCLES, SHORT))):
        yield Relation(
            f"{name.upper()} instructions",
            Reading("threads / 32", formulas),
            Reading(_BY_OPCODE, (count,)),
            "inst",
            _LISTING,
            at_most=True,
            tolerance=limits[0],
            short=limits[1],
        )


def _accesses(
    what: str, counters: tuple[str, ...], opcodes: str, below: tuple[int, int] = (99, 0)
) -> Relation:
    """Accesses that the hardware saw cannot exceed the instructions that can make them; an instruction whose
    lanes are all off makes none.
    """
    return Relation(
        what,
        Reading("by the hardware", tuple(f"{{{name}}}" for name in counters)),
        Reading(_BY_OPCODE, (f"{{{_OPCODES}}}[{opcodes}]",)),
        "inst",
        _LISTING,
        at_most=True,
        below=below,
    )


def _all_accesses(what: str, counter: str, opcodes: str) -> Relation:
    """`smsp__inst_executed_op_*` also counts instructions whose lanes are all off, so it cannot be less."""
    return Relation(
        what,
        Reading(_BY_OPCODE, (f"{{{_OPCODES}}}[{opcodes}]",)),
        Reading("by the hardware", (f"{{{counter}}}",)),
        "inst",
        _LISTING,
        at_most=True,
        since=(9, 0),  # where it was seen to hold: docs/contradictions.md
    )


def _hits(what: str, hits: str, all_of_them: str, tolerance: float = COUNT) -> Relation:
    return Relation(
        what,
        Reading("found", (f"{{{hits}}}",)),
        Reading("looked up", (f"{{{all_of_them}}}",)),
        "sector",
        (hits, all_of_them),
        at_most=True,
        tolerance=tolerance,
    )


def _per_request(what: str, sectors: str, requests: str) -> Relation:
    return Relation(
        what,
        Reading("sectors", (f"{{{sectors}}}",)),
        Reading("32 lanes x requests", (f"32 * {{{requests}}}",)),
        "sector",
        (sectors, requests),
        at_most=True,
    )


_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"

RELATIONS: tuple[Relation, ...] = (
    *_threads("ffma", "FFMA|FFMA32I|FHFMA", doubled="FFMA2|FHFMA2"),
    *_threads("fadd", "FADD|FADD32I|FHADD", doubled="FADD2|FHADD2"),
    *_threads("fmul", "FMUL|FMUL32I", doubled="FMUL2|FHMUL2"),
    *_threads("dfma", "DFMA"),
    Relation(
        "instructions executed",
        Reading("opcodes added up", (f"{{{_OPCODES}}}[*]",)),
        Reading("by the hardware", ("{smsp__inst_executed.sum}",)),
        "inst",
        _LISTING,
        polled=_EXECUTED,
    ),
    Relation(
        "exits of warps",
        Reading("warps launched", ("{launch__grid_size} * ceil({launch__block_size} / 32)",)),
        Reading(_BY_OPCODE, (f"{{{_OPCODES}}}[EXIT]",)),
        "inst",
        _LISTING,
        at_most=True,
        since=(7, 0),
    ),
    # A 32-byte access of a thread (10.0 and later) may be two requests.
    _accesses(
        "global load instructions",
        ("smsp__sass_inst_executed_op_global_ld.sum", _GLOBAL.format("requests", "ld")),
        "LDG|LD|LDGSTS|LDGMC|CCTL*",
        below=(10, 0),
    ),
    _accesses(
        "global store instructions",
        ("smsp__sass_inst_executed_op_global_st.sum", _GLOBAL.format("requests", "st")),
        "STG|ST",
        below=(10, 0),
    ),
    _accesses("local load instructions", ("smsp__sass_inst_executed_op_local_ld.sum",), "LDL|LD"),
    _accesses("local store instructions", ("smsp__sass_inst_executed_op_local_st.sum",), "STL|ST"),
    _accesses(
        "shared load instructions",
        ("smsp__sass_inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_ld.sum"),
        "LDS|LDSM|LD",
    ),
    _accesses(
        "shared store instructions",
        ("smsp__sass_inst_executed_op_shared_st.sum", "smsp__inst_executed_op_shared_st.sum"),
        "STS|STSM|ST|STAS",
    ),
    # Not the matrix accesses: on an H200 LDSM has a counter of its own, ..._op_ldsm, and is not in this one.
    _all_accesses("shared load instructions", "smsp__inst_executed_op_shared_ld.sum", "LDS"),
    _all_accesses("shared store instructions", "smsp__inst_executed_op_shared_st.sum", "STS"),
    _all_accesses("asynchronous copies (LDGSTS)", "smsp__inst_executed_op_ldgsts.sum", "LDGSTS"),
    Relation(
        "instructions",
        Reading("executed", ("{smsp__inst_executed.sum}",)),
        Reading("issued", ("{smsp__inst_issued.sum}", "{smsp__issue_active.sum}")),
        "inst",
        (*_EXECUTED, *_ISSUED),
        polled=(*_EXECUTED, *_ISSUED),
        at_most=True,
        since=(7, 0),  # before, a scheduler could issue two in a cycle
    ),
    Relation(
        "instructions issued",
        Reading("cycles in which one was issued", ("{smsp__issue_active.sum}",)),
        Reading("issued", ("{smsp__inst_issued.sum}",)),
        "inst",
        _ISSUED,
        polled=_ISSUED,
        since=(7, 0),
    ),
    Relation(
        "instructions issued",
        Reading(
            "issue rate x active cycles",
            ("{smsp__issue_active.avg.per_cycle_active} * {smsp__cycles_active.sum}",),
        ),
        Reading("issued", ("{smsp__inst_issued.sum}", "{smsp__issue_active.sum}")),
        "inst",
        _ISSUED,
        polled=_ISSUED,
        tolerance=CYCLES,
        short=SHORT,
        since=(7, 0),
    ),
    Relation(
        "issue slots",
        Reading(
            "instructions",
            ("{smsp__issue_active.sum}", "{smsp__inst_issued.sum}", "{smsp__inst_executed.sum}"),
        ),
        Reading("active cycles", ("{smsp__cycles_active.sum}",)),
        "cycle",
        (*_ISSUED, *_EXECUTED, "smsp__cycles_active*"),
        at_most=True,
        tolerance=CYCLES,
        short=SHORT,
        since=(7, 0),
    ),
    Relation(
        "cycles of the SM sub-partitions",
        Reading("active", ("{smsp__cycles_active.avg}", "{smsp__cycles_active.sum}")),
        Reading("elapsed", ("{smsp__cycles_elapsed.avg}", "{smsp__cycles_elapsed.sum}")),
        "cycle",
        ("smsp__cycles_active*", "smsp__cycles_elapsed.avg", "smsp__cycles_elapsed.sum"),
        at_most=True,
        tolerance=CYCLES,
        short=SHORT,
    ),
    Relation(
        "cycles of the SMs",
        Reading("active", ("{sm__cycles_active.avg}",)),
        Reading("elapsed", ("{sm__cycles_elapsed.max}", "{smsp__cycles_elapsed.max}", *_ELAPSED)),
        "cycle",
        ("sm__cycles_active*",),
        at_most=True,
        tolerance=CYCLES,
        short=SHORT,
    ),
    Relation(
        "elapsed cycles",
        Reading(
            "duration x SM clock",
            tuple(
                f"{{gpu__time_duration.{kind}}} * {{{unit}__cycles_elapsed.avg.per_second}}"
                for kind in ("sum", "avg")
                for unit in ("smsp", "sm", "gpc")
            ),
        ),
        Reading("counted", _ELAPSED),
        "cycle",
        (
            "gpu__time_duration*",
            "*__cycles_elapsed.avg.per_second",
            *(formula.strip("{}") for formula in _ELAPSED),
        ),
        tolerance=CYCLES,
        short=SHORT,
    ),
    Relation(
        "warps active on an SM",
        Reading(
            "achieved",
            (
                "{sm__warps_active.avg.per_cycle_active}",
                f"{{sm__warps_active.avg.pct_of_peak_sustained_active}} * {_MOST_WARPS}",
            ),
        ),
        Reading("that fit on it", ("{sm__maximum_warps_avg_per_active_cycle}",)),
        "warp",
        ("sm__warps_active*",),
        at_most=True,
        tolerance=CYCLES,
        short=SHORT,
    ),
    # An SM is active while any of its sub-partitions is, so warps per active cycle are fewer there.
    Relation(
        "warps active",
        Reading(
            "per SM",
            (
                "{sm__warps_active.avg.per_cycle_active}",
                f"{{sm__warps_active.avg.pct_of_peak_sustained_active}} * {_MOST_WARPS}",
            ),
        ),
        Reading(
            "per sub-partition x 4",
            (
                f"{{smsp__warps_active.avg.per_cycle_active}} * {_SCHEDULERS}",
                "{smsp__warps_active.avg.per_cycle_active} * device.smsps_per_sm",
            ),
        ),
        "warp",
        ("sm__warps_active*", "smsp__warps_active*"),
        at_most=True,
        tolerance=CYCLES,
        short=SHORT,
    ),
    Relation(
        "cycles between two issues of a warp",
        Reading("warp states added up", ("warp_states_sum",)),
        Reading("active warps / issue rate", ("{smsp__warps_active.avg.per_cycle_active} / issue_rate",)),
        "cycle",
        ("smsp__average_warps_issue_stalled_*", "smsp__warps_issue_stalled_*", "smsp__warps_active*"),
        tolerance=CYCLES,
        short=SHORT,
    ),
    Relation(
        "ready warps per issue",
        Reading("1 + not selected", ("1 + stall_not_selected",)),
        Reading("eligible warps / issue rate", ("{smsp__warps_eligible.avg.per_cycle_active} / issue_rate",)),
        "warp",
        (
            "smsp__average_warps_issue_stalled_not_selected_*",
            "smsp__warps_issue_stalled_not_selected.*",
            "smsp__warps_eligible*",
        ),
        tolerance=CYCLES,
        short=SHORT,
    ),
    Relation(
        "warps per scheduler",
        Reading("eligible", ("{smsp__warps_eligible.avg.per_cycle_active}",)),
        Reading("active", ("{smsp__warps_active.avg.per_cycle_active}",)),
        "warp",
        ("smsp__warps_eligible*", "smsp__warps_active*"),
        at_most=True,
        tolerance=CYCLES,
        short=SHORT,
    ),
    _hits("L1 sectors", "l1tex__t_sectors_lookup_hit.sum", "l1tex__t_sectors.sum"),
    # How many reads are merged before L2 depends on when they come: 2.6 % in a matrix product on an H200.
    _hits("L2 sectors", "lts__t_sectors_lookup_hit.sum", "lts__t_sectors.sum", CYCLES),
    _hits(
        "L1 sectors of global loads",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
        _GLOBAL.format("sectors", "ld"),
    ),
    _hits(
        "L1 sectors of global stores",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_hit.sum",
        _GLOBAL.format("sectors", "st"),
    ),
    Relation(
        "L1 sectors",
        Reading(
            "global loads and stores",
            (f"{{{_GLOBAL.format('sectors', 'ld')}}} + {{{_GLOBAL.format('sectors', 'st')}}}",),
        ),
        Reading("all", ("{l1tex__t_sectors.sum}",)),
        "sector",
        (_GLOBAL.format("sectors", "ld"), _GLOBAL.format("sectors", "st"), "l1tex__t_sectors.sum"),
        at_most=True,
    ),
    Relation(
        "L2 sectors",
        Reading(
            "read and written by L1",
            ("{lts__t_sectors_srcunit_tex_op_read.sum} + {lts__t_sectors_srcunit_tex_op_write.sum}",),
        ),
        Reading("all", ("{lts__t_sectors.sum}",)),
        "sector",
        ("lts__t_sectors_srcunit_tex_op_*", "lts__t_sectors.sum"),
        at_most=True,
    ),
    _per_request(
        "sectors of global loads", _GLOBAL.format("sectors", "ld"), _GLOBAL.format("requests", "ld")
    ),
    _per_request(
        "sectors of global stores", _GLOBAL.format("sectors", "st"), _GLOBAL.format("requests", "st")
    ),
)


@cache
def counters() -> tuple[str, ...]:
    """What to read from a report so that the readings can be compared; none of it costs a replay pass."""
    names: dict[str, None] = {_MODIFIED: None}
    for relation in RELATIONS:
        for reading in (relation.one, relation.other):
            for expression in reading.expressions:
                names.update(dict.fromkeys(expression.counters))
    return tuple(names)


def broken(launch: Launch, scope: Scope) -> list[tuple[Relation, Contradiction]]:
    """The relations that do not hold on this launch, each with both readings."""
    cycles = Reading("", _ELAPSED).value(scope)
    found = []
    for relation in RELATIONS:
        if relation.since <= launch.compute_capability < relation.below:
            contradiction = relation.broken(scope, cycles)
            if contradiction is not None:
                found.append(_explained(launch, relation, contradiction))
    return found


def _explained(
    launch: Launch, relation: Relation, contradiction: Contradiction
) -> tuple[Relation, Contradiction]:
    """With what is likely, and doubting no more than that: a kernel that polls executes another number of
    instructions in each pass, and the opcodes of one pass still are those of that pass.
    """
    by = polling(_opcodes(launch)) if relation.polled else ()
    if not by:
        return replace(relation, polled=()), contradiction
    likely = f"likely the kernel polls ({', '.join(by[:_NAMED])}), so that no two passes execute the same"
    return replace(relation, doubtful=relation.polled), replace(contradiction, likely=likely)


def _opcodes(launch: Launch) -> dict[str, float]:
    """Warp instructions by opcode, with modifiers where the launch holds them."""
    for name in (_MODIFIED, _OPCODES):
        held = launch.counters.get(name)
        if held is not None and held.instances:
            return {str(opcode): float(count) for opcode, count in held.instances}
    return {}


def trusted(launch: Launch, found: list[tuple[Relation, Contradiction]]) -> Launch:
    """The launch without the counters in doubt: what is evaluated on it rests on the others alone."""
    return replace(launch, counters=_Doubted(launch.counters, _patterns(found), drop=True))


def settled(
    launch: Launch,
    found: list[tuple[Relation, Contradiction]],
    read: Mapping[str, MetricValue],
    without: Mapping[str, MetricValue],
) -> Evaluated:
    """The metrics of a launch whose counters contradict one another.

    `read` are its metrics by all its counters, `without` by those that are not in doubt. Where the latter
    has a value it counts; where it has none the value that was read is kept with status invalid and both
    readings as the reason. The doubtful counters of `Evaluated.launch` have status invalid too.

    Where the kernel polls, its number of instructions is invalid by either way of counting; a share of one
    pass's instructions holds for that pass, and says so.
    """
    metrics: dict[str, MetricValue] = {}
    rests: dict[int, list[str]] = {index: [] for index in range(len(found))}
    for name, value in read.items():
        other = without[name]
        polled = [i for i, (relation, _) in enumerate(found) if _counts_all(value, relation)]
        if not polled and other == value:
            metrics[name] = _of_one_pass(value, found)
            continue
        guilty = [i for i, (relation, _) in enumerate(found) if _rests_on(value, relation, launch)]
        guilty = polled or guilty or list(rests)  # through a refusal, or another metric
        said = "; ".join(dict.fromkeys(describe(found[i][1]) for i in guilty))
        if not polled and (other.value is not None or value.value is None):
            metrics[name] = replace(other, reason="; ".join(filter(None, (other.reason, f"not by {said}"))))
            continue
        metrics[name] = replace(value, status=Status.INVALID, reason=f"contradicted: {said}")
        for index in guilty:
            rests[index].append(name)
    doubted = replace(launch, counters=_Doubted(launch.counters, _patterns(found)))
    told = tuple(replace(one, metrics=tuple(rests[i])) for i, (_, one) in enumerate(found))
    return Evaluated(doubted, metrics, told)


def describe(one: Contradiction) -> str:
    """Both readings in words: "FFMA instructions: 1.2e+06 threads / 32, 3.4e+03 by opcode"."""
    (first, left), (second, right) = one.readings
    said = f"{one.what}: {_number(left)} {first}, {_number(right)} {second}"
    return f"{said} ({one.likely})" if one.likely else said


def _counts_all(value: MetricValue, relation: Relation) -> bool:
    """Whether a metric is what the passes disagree about: the number of all instructions."""
    if not relation.polled or value.value is None:
        return False
    formulas = (*relation.one.formulas, *relation.other.formulas)
    return value.formula in formulas or _TOTAL.fullmatch(value.formula) is not None


def _of_one_pass(value: MetricValue, found: list[tuple[Relation, Contradiction]]) -> MetricValue:
    """A share of all opcodes, noted as what it is: of the pass that counted them."""
    for relation, one in found:
        if relation.polled and _EXECUTED[0] in relation.doubtful and _TOTAL.search(value.formula):
            if value.value is None:
                continue
            said = f"of the pass that counted by opcode alone: {describe(one)}"
            return replace(value, reason="; ".join(filter(None, (value.reason, said))))
    return value


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4g}"


def _rests_on(value: MetricValue, relation: Relation, launch: Launch) -> bool:
    return any(name in launch.counters and _fits(name, relation.doubtful) for name in value.counters)


def _patterns(found: list[tuple[Relation, Contradiction]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pattern for relation, _ in found for pattern in relation.doubtful))


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class _Doubted(Mapping[str, Counter]):
    """Counters of which those that fit are flagged invalid, or left out."""

    __slots__ = ("_doubtful", "_held")

    def __init__(self, held: Mapping[str, Counter], patterns: tuple[str, ...], *, drop: bool = False) -> None:
        self._doubtful = frozenset(name for name in held if _fits(name, patterns))
        self._held: Mapping[str, Counter] = held
        if drop:
            self._held = {name: held[name] for name in held if name not in self._doubtful}
            self._doubtful = frozenset()

    def __getitem__(self, name: str) -> Counter:
        found = self._held[name]
        if name in self._doubtful and found.status is Status.OK:
            return replace(found, status=Status.INVALID)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)
