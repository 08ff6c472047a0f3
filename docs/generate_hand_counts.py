"""Writes docs/hand-counts.md from runs: `python docs/generate_hand_counts.py [RUN...] [-o FILE]`.

RUN is a run folder or a folder of runs (default: tests/data/runs/field_kernels) of the kernels of
tests/data/field_kernels, whose `hand_counts.toml` says what each must show. Nothing is written, and the exit
status is 1, where a kernel was not counted or not run, a value is missing, a difference over 1 % has no
explanation, an explanation stands by a difference under 0.1 %, or one that is a number is itself more than
1 % off.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import perfkit
from perfkit.kernels.sizes import evaluate, parse_sizes, problem_label
from perfkit.model import Counter, Evaluated, Status
from perfkit.profiler.run_store import run_folders

ROOT = Path(__file__).resolve().parents[1]
FIELD = ROOT / "tests" / "data" / "field_kernels"
RUNS = ROOT / "tests" / "data" / "runs" / "field_kernels"
TOLERANCE = 0.01
OPCODES = "sass__inst_executed_per_opcode"
OPCODES_AND_MODIFIERS = "sass__inst_executed_per_opcode_with_modifier_all"

HEAD = """# Counted by hand, and by the counters

Who reads this: whoever wants to know how far a counter can be trusted. {kernels} kernels that are not the
ladder ([sources](../tests/data/field_kernels)) ran once each under `perfkit profile` on an {gpu}, and what
each must move and execute was counted by hand
([hand_counts.toml](../tests/data/field_kernels/hand_counts.toml)). This page is made by
`python docs/generate_hand_counts.py` from the runs in `tests/data/runs/field_kernels`; it cannot be made
while a difference over 1 % has no explanation.

Of {counts} counts {exact} are met exactly, {close} more within 1 %; {explained} differ by more, and each
of these has its note{doubted}. Words: a sector has 32 bytes;
a wavefront is one pass of up to 128 bytes through shared memory's data stage; instructions are those of
warps. DRAM bytes are the least that must move: caches are flushed before each pass of a profile.
"""

# Title of a table and the counts it shows; opcodes, which have names in capitals, come last.
TABLES: Mapping[str, tuple[str, ...]] = {
    "Bytes from L2 to the SMs": ("l2_read_bytes",),
    "Bytes from the SMs to L2": ("l2_write_bytes",),
    "Bytes read from DRAM": ("dram_read_bytes",),
    "Bytes written to DRAM": ("dram_write_bytes",),
    "Sectors per request of global memory": ("sectors_per_load", "sectors_per_store"),
    "Wavefronts of shared memory": (
        "wavefronts_per_shared_load",
        "wavefronts_per_shared_store",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    ),
    "Instructions and FMAs of threads": (
        "instructions",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    ),
}
BY_OPCODE = "Instructions by opcode"


class HandCountError(Exception):
    """What keeps the page from being written, a line each."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a counter differs. `formula` is what it should be then, "" where that cannot be counted."""

    text: str
    formula: str = ""


@dataclass(frozen=True, slots=True)
class KernelCounts:
    """What a kernel must show. `formulas` by name of metric, counter or opcode; `size` is empty for kernels
    of the registry, whose launches say it.
    """

    kernel: str
    why: str
    formulas: Mapping[str, str]
    explanations: Mapping[str, Explanation]
    size: Mapping[str, int]
    program: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One count by hand beside the counter's. `doubt` is why perfkit calls the counter's invalid, if it does;
    `explained` is the value of an explanation that is a number.
    """

    kernel: str
    name: str
    formula: str
    by_hand: float
    counted: float
    doubt: str = ""
    explanation: Explanation | None = None
    explained: float | None = None

    @property
    def difference(self) -> float:
        """Counter / by hand - 1; infinite where nothing was expected and something was counted."""
        return relative(self.counted, self.by_hand)


def relative(value: float, reference: float) -> float:
    """value / reference - 1, and 0 for two zeros."""
    if reference == 0:
        return 0.0 if value == 0 else math.inf
    return value / reference - 1


def read_counts(path: Path = FIELD / "hand_counts.toml") -> dict[str, KernelCounts]:
    """The counts by kernel. Raises HandCountError for an unknown key, or an explanation of no count."""
    stored = tomllib.loads(path.read_text(encoding="utf-8"))
    shared = stored.pop("differences", {})
    return {kernel: _kernel_counts(kernel, values, shared) for kernel, values in stored.items()}


def _kernel_counts(kernel: str, values: dict[str, Any], shared: Mapping[str, Any]) -> KernelCounts:
    formulas, differences = values["counts"], values.get("differences", {})
    unknown = set(values) - {"why", "counts", "differences", "size", "program"}
    if unknown or set(differences) - set(formulas):
        names = ", ".join(sorted(unknown | (set(differences) - set(formulas))))
        raise HandCountError(
            f"{kernel}: {names}: neither a known key nor an explanation of one of its counts"
        )
    explanations = {}
    for name, given in differences.items():
        found = shared.get(given, given) if isinstance(given, str) else given
        explanations[name] = (
            Explanation(found) if isinstance(found, str) else Explanation(found["text"], found["value"])
        )
    return KernelCounts(
        kernel,
        " ".join(values["why"].split()),
        formulas,
        explanations,
        values.get("size", {}),
        values.get("program", False),
    )


def registered(path: Path = FIELD / "perfkit.toml") -> list[str]:
    """The kernels of the registry file."""
    return list(tomllib.loads(path.read_text(encoding="utf-8"))["kernels"])


def launches(runs: Sequence[Path]) -> dict[str, Evaluated]:
    """The launches by label. Raises HandCountError where a report has problems, or a label repeats."""
    found: dict[str, Evaluated] = {}
    for run in runs:
        profile = perfkit.load(run, every_counter=True)
        if profile.problems:
            raise HandCountError("\n".join(profile.problems))
        for one in profile:
            if one.launch.label in found:
                raise HandCountError(f"{run}: {one.launch.label} was already launched")
            found[one.launch.label] = one
    return found


def rows(counts: Mapping[str, KernelCounts], found: Mapping[str, Evaluated]) -> list[Row]:
    """Every count beside its counter. Raises HandCountError with everything that is wrong."""
    made: list[Row] = []
    problems = [f"{kernel}: was run, but nobody counted it" for kernel in found if kernel not in counts]
    problems += [f"{kernel}: was counted, but not run" for kernel in counts if kernel not in found]
    for kernel, expected in counts.items():
        if kernel not in found:
            continue
        size = expected.size or size_of(found[kernel])
        for name, formula in expected.formulas.items():
            try:
                counted, doubt = value_of(found[kernel], name)
            except HandCountError as error:
                problems.append(f"{kernel}: {error}")
                continue
            explanation = expected.explanations.get(name)
            explained = evaluate(explanation.formula, size) if explanation and explanation.formula else None
            row = Row(kernel, name, formula, evaluate(formula, size), counted, doubt, explanation, explained)
            made.append(row)
            problems += [f"{kernel}: {name}: {text}" for text in objections(row)]
    if problems:
        raise HandCountError("\n".join(problems))
    return made


def objections(row: Row) -> Iterator[str]:
    """What is wrong with a row: an unexplained difference, or an explanation that does not explain."""
    apart = abs(row.difference) > TOLERANCE
    told = f"{number(row.by_hand)} by hand ({row.formula}), {number(row.counted)} by the counter"
    if apart and row.explanation is None:
        yield f"{told}: {row.difference:+.2%}, and no explanation"
    if abs(row.difference) <= TOLERANCE / 10 and row.explanation is not None:
        yield f"{told}: there is nothing to explain"
    if row.explained is not None and abs(relative(row.counted, row.explained)) > TOLERANCE:
        yield f"{told}: the explanation gives {number(row.explained)}"


def size_of(one: Evaluated) -> Mapping[str, int]:
    """The problem size of a launch of the registry."""
    return parse_sizes(named=[one.launch.problem])[0]


def value_of(one: Evaluated, name: str) -> tuple[float, str]:
    """A metric, a raw counter, or the count of an opcode; and why perfkit calls it invalid, "" where it does
    not. Raises HandCountError where there is none.
    """
    if name[0].isupper():
        metric = OPCODES_AND_MODIFIERS if "." in name else OPCODES
        counter = _counter(one, metric)
        count = sum(value for opcode, value in counter.instances if fnmatchcase(str(opcode), name))
        return count, _doubt(one) if counter.status is Status.INVALID else ""
    if "__" in name:
        raw = _counter(one, name)
        if not isinstance(raw.value, int | float):
            raise HandCountError(f"{name}: {raw.value!r} is not a number")
        return float(raw.value), _doubt(one) if raw.status is Status.INVALID else ""
    found = one.metrics.get(name)
    if found is None or found.status not in (Status.OK, Status.INVALID) or math.isnan(found.number):
        reason = f"{found.status}: {found.reason}" if found else "there is no such metric"
        raise HandCountError(f"{name}: {reason}")
    return found.number, found.reason if found.status is Status.INVALID else ""


def _counter(one: Evaluated, name: str) -> Counter:
    counter = one.launch.counters.get(name)
    if counter is None or counter.status not in (Status.OK, Status.INVALID):
        raise HandCountError(f"the report does not hold {name}")
    return counter


def _doubt(one: Evaluated) -> str:
    """The contradictions of a launch, which are why its counters are invalid."""
    return "; ".join(
        f"{broken.what}: " + ", ".join(f"{number(value)} {how}" for how, value in broken.readings)
        for broken in one.contradictions
    )


def page(counts: Mapping[str, KernelCounts], found: Mapping[str, Evaluated]) -> str:
    """The whole page as Markdown. Raises HandCountError where it must not be written."""
    made = rows(counts, found)
    differences = [abs(row.difference) for row in made]
    gpu, *others = {one.launch.gpu for one in found.values()}
    if others:
        raise HandCountError(f"the runs are of several GPUs: {', '.join([gpu, *others])}")
    exact, explained = differences.count(0.0), sum(difference > TOLERANCE for difference in differences)
    doubted = sum(bool(row.doubt) for row in made)
    head = HEAD.format(
        kernels=len(counts),
        gpu=gpu,
        counts=len(made),
        exact=exact,
        close=len(made) - exact - explained,
        explained=explained,
        doubted=f", as have the {doubted} that perfkit itself calls invalid" if doubted else "",
    )
    named = {name for names in TABLES.values() for name in names}
    tables = [table(title, names, made) for title, names in TABLES.items()]
    opcodes = tuple(dict.fromkeys(row.name for row in made if row.name[0].isupper()))
    tables.append(table(BY_OPCODE, opcodes, made))
    if missing := {row.name for row in made} - named - set(opcodes):
        raise HandCountError(f"no table shows {', '.join(sorted(missing))}")
    return "\n".join([head, how(counts, found), *tables])


def how(counts: Mapping[str, KernelCounts], found: Mapping[str, Evaluated]) -> str:
    """What each kernel does, and where its counts come from."""
    lines = [
        f"| {kernel} | {problem_label(expected.size or size_of(found[kernel]))} | {expected.why} |"
        for kernel, expected in counts.items()
    ]
    return "\n".join(
        ["## The kernels", "", "| kernel | size | how it is counted |", "|---|---|---|", *lines, ""]
    )


def table(title: str, names: Sequence[str], made: Sequence[Row]) -> str:
    """The rows of some counts, with the explanations below; the count's name only where there are several."""
    chosen = [row for row in made if row.name in names]
    several = len(names) > 1 or title == BY_OPCODE
    columns = ["kernel", *(["count"] if several else []), "by hand", "=", "counter", "difference (%)"]
    notes: dict[str, int] = {}
    lines = []
    for row in chosen:
        texts = [_note(row)] if row.explanation is not None else []
        texts += [f"perfkit calls it invalid. {row.kernel}: {row.doubt}."] if row.doubt else []
        mark = "".join(f" [{notes.setdefault(text, len(notes) + 1)}]" for text in texts)
        cells = [row.kernel, *([f"`{row.name}`"] if several else []), f"`{row.formula}`"]
        cells += [number(row.by_hand), number(row.counted), percent(row.difference) + mark]
        lines.append("| " + " | ".join(cells) + " |")
    align = ["---"] * (len(columns) - 3) + ["---:"] * 3
    text = [f"## {title}", "", "| " + " | ".join(columns) + " |", "|" + "|".join(align) + "|", *lines, ""]
    text += [f"- [{index}] {note}" for note, index in notes.items()]
    return "\n".join([*text, ""] if notes else text)


def _note(row: Row) -> str:
    assert row.explanation is not None
    text = " ".join(row.explanation.text.split())
    if row.explained is None:
        return text
    gap = percent(relative(row.counted, row.explained))
    told = f"{row.kernel}: `{row.explanation.formula}` = {number(row.explained)}"
    return f"{text} {told}, {gap} % from the counter."


def number(value: float) -> str:
    """Whole numbers with all their digits, others to four."""
    return (
        f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"
    )


def percent(difference: float) -> str:
    """In percent, to two decimals; 0 only where there is no difference at all."""
    if difference == 0:
        return "0"
    return "not expected" if math.isinf(difference) else f"{100 * difference:+.2f}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("hand-counts.md"))
    options = parser.parse_args()
    try:
        folders = [folder for run in options.runs or [RUNS] for folder in run_folders(run)]
        text = page(read_counts(), launches(folders))
    except HandCountError as error:
        sys.exit(str(error))
    options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
