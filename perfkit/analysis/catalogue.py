"""docs/metrics.md, written from the metric definitions: `python -m perfkit.analysis.catalogue
docs/metrics.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from perfkit.analysis.definitions import Metric, load_definitions
from perfkit.analysis.expression import Expression
from perfkit.analysis.metrics import MetricSets, load_metric_sets
from perfkit.analysis.opcode_classes import FIGURES, OPCODES, OTHER, TITLES

_INTRO = """\
# Metrics

This page is written from the files in `perfkit/analysis/metric_sets/` by
`python -m perfkit.analysis.catalogue docs/metrics.md`; a test fails when it is out of date.

Values are in SI units, fractions are 0..1 (people see %). A value that is not there has a status instead,
with a reason:

| status | meaning |
|---|---|
| `ok` | the value can be used |
| `not_collected` | the report does not hold the counters; the reason names the ncu option for them |
| `not_on_chip` | the chip has no such counter |
| `invalid` | outside its possible range, or contradicted by another counter: the value is kept and flagged |
| `undefined` | the ratio has no value (0 requests), or no meaning (FP32 share of tensor-core work) |

The first formula whose counters are all in the report answers; `--format json` says for each value which
one it was. Every formula of a metric gives the same value where a report allows several, but for those
marked "can differ", which say why, here and beside each value. Percentages and times are converted to
fractions and seconds before a formula sees them. `{counter}` is a counter of Nsight Compute,
`{counter}[A|B*]` the sum of its instances with these names, `[class:x]` of all opcodes of a class,
`[...@figure]` of each times a figure of its opcode (see the end of the page), a bare name another metric,
`device.x` a figure from `devices.toml`.

A range is what physics and the hardware allow. A value outside it, and every value that rests on one, is
`invalid`: kept, shown and flagged. A little outside can come of replay (each pass runs the kernel again, and
passes differ by up to 8 % in field reports of short launches); the reason says whether it is more than that.
"""

_OWN = """\
## Your own sets

`perfkit show REPORT --set my.toml` (or a folder of such files) adds a set that is called like its file:

```toml
title = "Divergence"
doc = "How full warps are."

[metrics.threads_per_instruction]
title = "Threads per instruction"
unit = "thread"
doc = "Threads that took part in an instruction, of 32."
range = [0, 32]                      # outside: flagged as invalid; an end may be a formula, "2 * issue_rate"
formula = [                          # the first that the report can answer
    "{smsp__thread_inst_executed.sum} / {smsp__inst_executed.sum}",
    "{smsp__thread_inst_executed_per_inst_executed.ratio}",
]
```

Other keys: `section` (the ncu sections to recommend), `detail` (left out of tables that have no room),
`hidden` (serves other metrics only), `collect` (counters to hand to ncu in place of the first formula's),
`refuse` (launches for which the metric has no meaning), `digits`; `pick`/`among`, `sum` and `whole` as in
`stalls.toml`. A formula may be a table `{ formula = "...", note = "..." }`, with `differs` (why it may give
another value than the first), `where` and `above` (a metric, and a formula that it must exceed for this one
to hold).
"""


def metrics_page() -> str:
    """The whole page as Markdown."""
    sets = load_metric_sets()
    return "\n".join([_INTRO, *_sets(sets), *_chips(), *_opcodes(), _OWN])


def _sets(sets: MetricSets) -> Iterator[str]:
    for group in sets.sets.values():
        yield f"## {group.name}: {group.title}\n\n{group.doc}\n"
        for name in group.metrics:
            yield from _metric(sets.metrics[name])
    hidden = [one for one in sets.metrics.values() if one.hidden]
    yield "## Helpers\n\nMetrics that only serve the formulas above.\n"
    for metric in hidden:
        yield from _metric(metric)


def _metric(metric: Metric) -> Iterator[str]:
    unit = f" [{metric.unit}]" if metric.unit else ""
    yield f"### `{metric.name}`{unit}\n\n{metric.title}. {metric.doc}\n"
    facts = []
    if metric.range is not None:
        low, high = (f"`{one.text}`" if isinstance(one, Expression) else f"{one:g}" for one in metric.range)
        facts.append(f"Possible range {low} to {high}.")
    if metric.section:
        sections = " ".join(f"--section {name}" for name in metric.section.split())
        facts.append(f"Collected by `{sections}`.")
    if facts:
        yield " ".join(facts) + "\n"
    for number, one in enumerate(metric.alternatives, 1):
        note = f" ({one.note})" if one.note else ""
        zero = " (0 means no requests: undefined)" if one.zero_undefined else ""
        only = f" (only where `{one.where}` > `{one.above.text}`)" if one.above is not None else ""
        differs = f"; can differ: {one.differs}" if one.differs else ""
        yield f"{number}. `{one.expression.text}`{note}{zero}{only}{differs}"
    if metric.pick:
        yield f"The {metric.pick} of: {', '.join(f'`{name}`' for name in metric.among.values())}."
    if metric.total:
        yield f"The sum of: {', '.join(f'`{name}`' for name in metric.among.values())}."
    for refusal in metric.refusals:
        unless = f" and `{refusal.unless}` is unknown" if refusal.unless else ""
        yield f"- no value where `{refusal.when}` > `{refusal.above.text}`{unless}: {refusal.reason}"
    yield ""


def _chips() -> Iterator[str]:
    definitions = load_definitions()
    yield "## Differences between chips\n"
    for chip in definitions.chips:
        where = ", ".join(chip.compute_capability)
        for reason in dict.fromkeys(chip.absent.values()):
            patterns = ", ".join(f"`{one}`" for one, why in chip.absent.items() if why == reason)
            yield f"- {where}: no {patterns} ({reason})"
        for metric in chip.metrics.values():
            formulas = ", ".join(f"`{one.expression.text}`" for one in metric.alternatives)
            yield f"- {where}: `{metric.name}` from {formulas}"
    yield "\n| CC | chip | FP32 lanes per SM | SMSPs | warps per SM | blocks per SM | shared memory per SM |"
    yield "|---|---|---|---|---|---|---|"
    keys = (
        "name",
        "fp32_lanes_per_sm",
        "smsps_per_sm",
        "max_warps_per_sm",
        "max_blocks_per_sm",
        "shared_bytes_per_sm",
    )
    for capability, figures in definitions.devices.items():
        yield f"| {capability} | {' | '.join(str(figures[key]) for key in keys)} |"
    yield ""


def _opcodes() -> Iterator[str]:
    yield "## Classes and figures of opcodes\n"
    yield "`[class:NAME]` in a formula is one of these; an opcode is in one class only.\n"
    yield "| class | what | opcodes |\n|---|---|---|"
    for name, opcodes in OPCODES.items():
        yield f"| `{name}` | {TITLES[name]} | {' '.join(opcodes)} |"
    yield f"| `{OTHER}` | {TITLES[OTHER]} | those that no class names |"
    yield "\n`@FIGURE` multiplies each instance by a figure of its opcode:\n"
    for figure, function in FIGURES.items():
        yield f"- `{figure}`: {' '.join((function.__doc__ or '').split())}"
    yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(metrics_page(), encoding="utf-8")
