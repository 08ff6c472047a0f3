"""A baseline passes on the run it was made from, always, and knows every launch of it again."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfkit.analysis.baseline import Baseline, dump, load_baseline, match, parse
from perfkit.analysis.gate import check, record_baseline
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.analysis.rules import RuleSet, load_rules
from perfkit.errors import CheckFailedError, ConfigError
from perfkit.model import (
    Counter,
    Device,
    Evaluated,
    Finding,
    Launch,
    LaunchId,
    MetricValue,
    Process,
    Rule,
    RuleOutcome,
    Status,
    WorkloadKind,
)
from tests.unit.analysis.launches import launch

CASES = Path(__file__).parents[2] / "data" / "cases"
DURATION = Rule("no slower", "*", "duration", "not_above", tolerance=0.05)
GRID = Rule("same grid", "*", "grid_size", "unchanged")


def made(
    number: int = 0, label: str = "k", seconds: float = 1e-3, report: str = "r.ncu-rep", **fields: Any
) -> Evaluated:
    one = launch(label, problem="", number=number, duration=seconds).launch
    one = replace(one, key=None, id=LaunchId(report, 0, number), **fields)
    size = float(math.prod(one.grid or ()))
    metrics = {
        "duration": MetricValue("duration", seconds, "s"),
        "grid_size": MetricValue("grid_size", size, "block"),
    }
    return Evaluated(one, metrics)


def known(*rules: Rule) -> RuleSet:
    return RuleSet(Path("rules.toml"), rules, Path("base.json"))


def recorded(rules: RuleSet, launches: Sequence[Evaluated]) -> Baseline:
    text, _ = record_baseline(rules, launches, {})
    return parse(Path("base.json"), json.loads(text))


def failed(rules: RuleSet, launches: Sequence[Evaluated], baseline: Baseline) -> list[Finding]:
    return [finding for finding in check(rules, launches, baseline) if finding.failed]


# Few values, so that names, shapes and devices repeat.
SHAPES = st.one_of(st.none(), st.tuples(st.sampled_from([1, 4, 8]), st.just(1), st.just(1)))
VALUES = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, math.nan, math.inf, 5e-324, 1.7976931348623157e308]),
    st.sampled_from(["wait", "", "registers, warps"]),
    st.none(),
)


@st.composite
def any_launch(draw: st.DrawFn) -> Evaluated:
    one = Launch(
        LaunchId(draw(st.sampled_from(["r.ncu-rep", "s.ncu-rep"])), 0, 0),
        draw(st.sampled_from(["k", "Kernel", "k7 n=4096"])),
        draw(st.sampled_from(["k()", "k<1>()", "Kernel<2>(int)"])),
        "GPU A", (9, 0), "", draw(SHAPES), draw(SHAPES), draw(st.sampled_from([True, True, True, False])),
        draw(st.sampled_from([None, None, "k7"])), draw(st.sampled_from(["", "n=1"])), (),
        draw(st.sampled_from(list(WorkloadKind))),
        draw(st.sampled_from([Device(), Device(0), Device(1, "0:6")])),
        draw(st.sampled_from([None, Process(7), Process(8, "node")])),
        {"a__counter.sum": Counter("a__counter.sum", draw(st.one_of(st.floats(), st.none())), "ns")},
    )  # fmt: skip
    status = draw(st.sampled_from(list(Status)))
    return Evaluated(one, {"duration": MetricValue("duration", draw(VALUES), "s", status)})


ANY_RULES = st.lists(
    st.builds(
        Rule,
        st.just("a rule"),
        st.sampled_from(["*", "k*", "Kernel"]),
        st.sampled_from(["duration", "a__counter.sum", "b__counter.sum"]),
        st.sampled_from(["unchanged", "not_above", "not_below"]),
        tolerance=st.sampled_from([0.0, 0.02]),
        allow_missing=st.booleans(),
        allow_invalid=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@given(st.lists(any_launch(), max_size=9), ANY_RULES)
def test_what_is_recorded_passes_on_its_own_run(launches: list[Evaluated], rules: list[Rule]) -> None:
    rules_ = known(*rules)
    try:
        baseline = recorded(rules_, launches)
    except CheckFailedError:
        # The one other outcome, and none where the rules allow what is missing: see the next test.
        assume(False)
        return
    assert failed(rules_, launches, baseline) == []
    assert len(match(baseline, [one.launch for one in launches]).recorded) == len(baseline.launches)


@given(st.lists(any_launch(), min_size=1, max_size=9))
def test_nothing_keeps_a_baseline_from_being_recorded_where_all_is_allowed(launches: list[Evaluated]) -> None:
    rules = known(replace(DURATION, op="unchanged", allow_missing=True, allow_invalid=True))
    assert failed(rules, launches, recorded(rules, launches)) == []


@given(st.lists(any_launch(), min_size=1, max_size=9), st.data())
def test_a_doubled_duration_of_any_launch_fails(launches: list[Evaluated], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.floats(1e-9, 1e3), min_size=len(launches), max_size=len(launches)))
    launches = [
        Evaluated(replace(one.launch, collected=True), {"duration": MetricValue("duration", seconds, "s")})
        for one, seconds in zip(launches, times, strict=True)
    ]
    baseline = recorded(known(DURATION), launches)
    index = data.draw(st.integers(0, len(launches) - 1))
    slower = list(launches)
    slower[index] = Evaluated(
        launches[index].launch, {"duration": MetricValue("duration", 2 * times[index], "s")}
    )
    (finding,) = failed(known(DURATION), slower, baseline)
    assert (finding.measured, finding.required) == (2 * times[index], times[index])


@given(st.permutations(range(6)))
def test_the_file_does_not_depend_on_the_order_of_unlike_launches(order: list[int]) -> None:
    launches = [made(grid=(index + 1, 1, 1)) for index in range(6)]
    text, _ = record_baseline(known(GRID), [launches[index] for index in order], {})
    assert text == record_baseline(known(GRID), launches, {})[0]


@given(st.lists(any_launch(), max_size=9))
def test_the_file_is_read_back_whole(launches: list[Evaluated]) -> None:
    rules = known(replace(DURATION, op="unchanged", allow_missing=True, allow_invalid=True))
    assume(launches)
    text, _ = record_baseline(rules, launches, {})
    baseline = parse(Path("base.json"), json.loads(text))
    again = dump(baseline.launches, baseline.gpu, {})
    assert json.loads(again)["launches"] == json.loads(text)["launches"]


def test_two_shapes_of_one_kernel_from_the_field() -> None:
    sets = load_metric_sets()
    (report,) = read_reports([CASES / "same_name_two_shapes.ncu-rep"], sets.reading())
    launches = [sets.evaluate(one) for one in report.launches]
    rules = load_rules(CASES / "rules_repeat.toml", sets.metrics)
    assert failed(rules, launches, recorded(rules, launches)) == []
    for index, one in enumerate(launches):
        held = one.metrics["duration"]
        slow = replace(one, metrics={**one.metrics, "duration": replace(held, value=2 * held.number)})
        slower = [*launches[:index], slow, *launches[index + 1 :]]
        (finding,) = failed(rules, slower, recorded(rules, launches))
        assert (finding.rule.name, finding.measured) == ("no slower", 2 * held.number)


def test_a_changed_shape_fails_with_both_values() -> None:
    baseline = recorded(known(DURATION, GRID), [made(grid=(4, 1, 1))])
    found = check(known(DURATION, GRID), [made(grid=(8, 1, 1))], baseline)
    assert [(f.outcome, f.required, f.measured) for f in found] == [
        (RuleOutcome.PASSED, 1e-3, 1e-3),
        (RuleOutcome.FAILED, 4.0, 8.0),
    ]
    assert found[1].reason == "the grid was 4x1x1 and is 8x1x1"


def test_repeats_at_a_new_shape_are_paired_in_order() -> None:
    then = [made(number, seconds=number + 1.0, grid=(4, 1, 1)) for number in range(3)]
    now = [made(number, seconds=number + 1.0, grid=(8, 1, 1)) for number in range(3)]
    assert failed(known(DURATION), now, recorded(known(DURATION), then)) == []


def test_what_is_ambiguous_is_not_guessed() -> None:
    then = [made(0, grid=(4, 1, 1)), made(1, grid=(8, 1, 1))]
    now = [made(0, grid=(16, 1, 1)), made(1, grid=(32, 1, 1))]
    found = check(known(GRID), now, recorded(known(GRID), then))
    assert [f.outcome for f in found] == [RuleOutcome.MISSING] * 4
    assert "does not tell which launch this was; left in it are k, grid 4x1x1" in found[0].reason
    assert found[2].launch == "k, grid 4x1x1, block 256x1x1"


def test_a_launch_that_occurs_no_more_is_a_finding() -> None:
    baseline = recorded(known(DURATION), [made(0), made(1)])
    (finding,) = failed(known(DURATION), [made(0)], baseline)
    assert (finding.launch, finding.where) == ("k, grid 64x1x1, block 256x1x1, occurrence 1", "")
    assert (finding.required, finding.measured) == (1e-3, None)
    allowed = replace(DURATION, allow_missing=True)
    assert failed(known(allowed), [made(0)], baseline) == []
    assert failed(known(replace(DURATION, kernel="other")), [made(label="other")], baseline)[0].measured


def test_a_launch_more_than_the_baseline_holds_fails() -> None:
    baseline = recorded(known(DURATION), [made(0)])
    (finding,) = failed(known(DURATION), [made(0), made(1)], baseline)
    assert finding.launch == "k #1"
    assert "the baseline holds no such launch" in finding.reason


def test_two_devices_have_two_baselines() -> None:
    then = [made(0, seconds=1.0, device=Device(0)), made(1, seconds=9.0, device=Device(1))]
    baseline = recorded(known(DURATION), then)
    swapped = [replace(then[0], launch=then[1].launch), replace(then[1], launch=then[0].launch)]
    (finding,) = failed(known(DURATION), swapped, baseline)
    assert (finding.launch, finding.required, finding.measured) == ("k device 0", 1.0, 9.0)


def test_one_device_more_or_less_is_not_taken_for_another() -> None:
    then = [made(0, seconds=1.0, device=Device(0)), made(1, seconds=9.0, device=Device(1))]
    baseline = recorded(known(DURATION), then)
    found = check(known(DURATION), [made(0, seconds=9.0, device=Device(1))], baseline)
    assert [(f.outcome, f.required) for f in found] == [
        (RuleOutcome.PASSED, 9.0),
        (RuleOutcome.MISSING, 1.0),
    ]


def test_another_card_of_the_model_is_said() -> None:
    baseline = recorded(known(DURATION), [made(device=Device(0))])
    (finding,) = check(known(DURATION), [made(device=Device(3))], baseline)
    assert (finding.outcome, finding.reason) == (RuleOutcome.PASSED, "it ran on device 0 and now on 3")


def test_a_baseline_of_reports_that_did_not_tell_the_device() -> None:
    baseline = recorded(known(DURATION), [made(device=Device())])
    (finding,) = check(known(DURATION), [made(device=Device(0))], baseline)
    assert (finding.outcome, finding.reason) == (RuleOutcome.PASSED, "")


@pytest.mark.parametrize(("others", "outcome"), [(0, RuleOutcome.PASSED), (1, RuleOutcome.MISSING)])
def test_a_function_may_change_where_its_short_name_is_its_own(others: int, outcome: RuleOutcome) -> None:
    """`k<1>` is now `k<2>`: the same kernel, unless the name stood for several kernels."""
    more = [made(1, name="k<9>()") for _ in range(others)]
    baseline = recorded(known(DURATION), [made(0, name="k<1>()"), *more])
    first, *_ = check(known(DURATION), [made(0, name="k<2>()"), *more], baseline)
    assert first.outcome is outcome


def test_kernels_of_one_library_call_are_known_by_their_functions() -> None:
    def call(gemm: float, reduction: float) -> list[Evaluated]:
        return [
            made(0, "gemm", gemm, name="gemm()", grid=(8, 1, 1)),
            made(1, "splitk", reduction, name="splitk()", grid=(8, 1, 1)),
        ]

    keyed = [replace(one, launch=replace(one.launch, key="cublas")) for one in call(5.0, 1.0)]
    slower = [replace(one, launch=replace(one.launch, key="cublas")) for one in call(5.0, 2.0)]
    (finding,) = failed(known(DURATION), slower, recorded(known(DURATION), keyed))
    assert (finding.launch, finding.required, finding.measured) == ("cublas splitk()", 1.0, 2.0)


def test_reports_that_name_their_launches_alike_stay_apart() -> None:
    launches = [made(0, seconds=1.0), made(0, seconds=9.0, report="s.ncu-rep")]
    baseline = recorded(known(DURATION), launches)
    assert failed(known(DURATION), launches, baseline) == []
    slower = [made(0, seconds=2.0), launches[1]]
    assert [f.where for f in failed(known(DURATION), slower, baseline)] == ["r.ncu-rep:0"]


def test_a_value_that_is_missing_is_refused_and_where_it_is_allowed_recorded_as_such() -> None:
    lost = Evaluated(replace(made(1).launch, collected=False), {})
    with pytest.raises(CheckFailedError, match="no slower: k #1: the launch was not collected") as caught:
        record_baseline(known(DURATION), [made(0), lost], {})
    assert "allow_missing = true" in caught.value.remedy
    allowed = known(replace(DURATION, allow_missing=True))
    text, told = record_baseline(allowed, [made(0), lost], {})
    assert told == ["no slower: k #1: the launch was not collected"]
    assert '"duration": {"value": null, "unit": "", "status": "not_collected"}' in text
    baseline = parse(Path("base.json"), json.loads(text))
    assert [f.outcome for f in check(allowed, [made(0), lost], baseline)] == [
        RuleOutcome.PASSED,
        RuleOutcome.ALLOWED,
    ]
    (finding,) = failed(known(DURATION), [made(0), made(1)], baseline)
    assert "the baseline recorded no value (not collected)" in finding.reason


def test_a_rule_that_names_no_launch_records_nothing() -> None:
    with pytest.raises(CheckFailedError, match="no launch is called gone"):
        record_baseline(known(DURATION, replace(GRID, kernel="gone")), [made()], {})


def test_a_recorded_counter_keeps_its_unit() -> None:
    """ncu wrote nsecond once and ns now; a time of another scale is no other time."""
    name = "gpu__time_duration.sum"
    rules = known(Rule("no slower", "*", name, "not_above"))

    def timed(value: float, unit: str) -> Evaluated:
        one = made()
        return replace(one, launch=replace(one.launch, counters={name: Counter(name, value, unit)}))

    baseline = recorded(rules, [timed(2000.0, "nsecond")])
    (same,) = check(rules, [timed(2.0, "us")], baseline)
    assert (same.outcome, same.required, same.unit) == (RuleOutcome.PASSED, 2.0, "us")
    (finding,) = failed(rules, [timed(2.1, "us")], baseline)
    assert (finding.required, finding.measured) == (2.0, 2.1)
    (finding,) = failed(rules, [timed(2000.0, "cycle")], baseline)
    assert "recorded it in nsecond, now it is in cycle" in finding.reason


def test_the_file_is_for_review() -> None:
    text, _ = record_baseline(known(GRID), [made(0), made(1, grid=(2, 1, 1))], {"source": "a run"})
    lines = text.splitlines()
    assert '      "grid": [2, 1, 1],' in lines
    assert '        "grid_size": {"value": 2.0, "unit": "block"}' in lines
    assert sum('"kernel": "k"' in line for line in lines) == 2
    document = json.loads(text)
    assert (document["schema_version"], document["gpu"], document["source"]) == (2, "GPU A", "a run")
    assert document["ncu_versions"] == ["2025.3.1.0"]


VERSION_1 = {
    "schema_version": 1,
    "gpu": "GPU A",
    "values": {"k": {"duration": 1e-3}, "gone n=64": {"duration": 1}},
}


def test_version_1_is_read_where_its_names_are_plain(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(json.dumps(VERSION_1))
    baseline = load_baseline(path)
    assert baseline is not None
    found = check(known(DURATION), [made(seconds=2e-3), made(label="new")], baseline)
    assert [(f.launch, f.outcome, f.required) for f in found] == [
        ("k", RuleOutcome.FAILED, 1e-3),
        ("new", RuleOutcome.MISSING, None),
        ("gone n=64", RuleOutcome.MISSING, 1.0),
    ]
    with pytest.raises(
        ConfigError, match=r"base\.json is of schema version 1.*2 launches are called k"
    ) as caught:
        check(known(DURATION), [made(0), made(1)], baseline)
    assert "--update-baseline" in caught.value.remedy


def test_a_block_that_stands_twice_is_damage(tmp_path: Path) -> None:
    document = json.loads(record_baseline(known(GRID), [made()], {})[0])
    document["launches"] *= 2
    (tmp_path / "base.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"base\.json is damaged: 1 of its launches stand there twice"):
        load_baseline(tmp_path / "base.json")
