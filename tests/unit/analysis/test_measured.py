"""What a rule reads: a counter's unit is stated and converted, and what is no single value is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfkit.analysis.gate import check
from perfkit.analysis.measured import measure
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.analysis.rules import RuleSet, load_rules
from perfkit.errors import ConfigError
from perfkit.model import Counter, Evaluated, Finding, MetricValue, Rule, Status, WorkloadKind
from tests.unit.analysis.launches import launch

CASES = Path(__file__).parents[2] / "data" / "cases"
FILE = Path("rules.toml")
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"


def with_counter(name: str, value: float | str | None, unit: str = "", instances: int = 0) -> Evaluated:
    pairs = tuple((index, float(index)) for index in range(instances))
    one = launch()
    counters = {**one.launch.counters, name: Counter(name, value, unit, Status.OK, pairs)}
    return replace(one, launch=replace(one.launch, counters=counters))


def finding(rule: Rule, one: Evaluated) -> Finding:
    (found,) = check(RuleSet(FILE, (rule,)), [one], None)
    return found


def test_a_rule_on_a_percentage_states_its_unit() -> None:
    """Written as a fraction it passed at 52.1 %, and at 1 %."""
    one = with_counter(MEMORY, 52.1, "%")
    with pytest.raises(ConfigError) as caught:
        finding(Rule("near the roof", "*", MEMORY, ">=", 0.6), one)
    assert "rules.toml: rule 'near the roof' states no unit" in caught.value.message
    assert "k (made-up.ncu-rep:0) is in %: there it is 52.1" in caught.value.message
    assert 'unit = "%"' in caught.value.remedy
    for unit, value in (("%", 60.0), ("fraction", 0.6), ("1", 0.6)):
        found = finding(Rule("near the roof", "*", MEMORY, ">=", value, unit=unit), one)
        assert (found.failed, found.required) == (True, value)
        assert found.measured == (52.1 if unit == "%" else 0.521)
    assert finding(Rule("r", "*", MEMORY, ">=", 50.0, unit="%"), one).unit == "%"


@pytest.mark.parametrize(
    ("unit", "value", "passes"),
    [("ns", 20_000, False), ("us", 60, True), ("s", 6e-5, True), ("ms", 0.05, False)],
)
def test_times_are_converted(unit: str, value: float, passes: bool) -> None:
    one = with_counter("gpu__time_duration.sum", 57_728.0, "ns")
    found = finding(Rule("r", "*", "gpu__time_duration.sum", "<=", value, unit=unit), one)
    assert (found.failed, found.unit) == (not passes, unit)


@pytest.mark.parametrize("unit", ["ns", "byte", "inst"])
def test_units_of_another_kind_are_refused_with_both(unit: str) -> None:
    with pytest.raises(ConfigError) as caught:
        finding(Rule("r", "*", MEMORY, ">=", 50.0, unit=unit), with_counter(MEMORY, 52.1, "%"))
    assert f"its unit is {unit}" in caught.value.message
    assert "is in %" in caught.value.message


@pytest.mark.parametrize("unit", ["", "inst", "sector", "warp"])
def test_counts_need_no_unit(unit: str) -> None:
    one = with_counter("smsp__inst_executed.sum", 7.0, unit)
    assert not finding(Rule("r", "*", "smsp__inst_executed.sum", "==", 7.0), one).failed
    assert not finding(Rule("r", "*", "smsp__inst_executed.sum", "==", 7.0, unit="1"), one).failed


def test_a_margin_is_a_number_with_a_unit_and_a_tolerance_is_not() -> None:
    one = with_counter(MEMORY, 52.1, "%")
    assert measure(Rule("r", "*", MEMORY, "unchanged", tolerance=0.1), one, FILE).value == 52.1
    with pytest.raises(ConfigError, match="states no unit"):
        measure(Rule("r", "*", MEMORY, "unchanged", margin=0.1), one, FILE)


def test_a_metric_may_be_compared_in_another_unit_than_its_own() -> None:
    one = launch()
    one = replace(one, metrics={"duration": MetricValue("duration", 57_728 / 1e9, "s")})
    assert not finding(Rule("r", "*", "duration", "<=", 58.0, unit="us"), one).failed
    assert finding(Rule("r", "*", "duration", "<=", 57.0, unit="us"), one).failed
    with pytest.raises(ConfigError, match="its unit is %"):
        finding(Rule("r", "*", "duration", "<=", 57.0, unit="%"), one)


def test_text_counters_are_equal_or_not() -> None:
    one = with_counter("launch__func_cache_config", "CachePreferNone")
    assert not finding(Rule("r", "*", "launch__func_cache_config", "==", "CachePreferNone"), one).failed
    assert finding(Rule("r", "*", "launch__func_cache_config", "==", "CachePreferL1"), one).failed
    assert (
        finding(Rule("r", "*", "launch__func_cache_config", "<=", 1.0), one).reason == "a text and a number"
    )


def test_a_list_of_values_is_not_one() -> None:
    curve = with_counter("launch__occupancy_per_register_count", 6.0, "", instances=4)
    for one in (
        curve,
        with_counter("x__samples.avg", 1.0, "%", instances=4),
        with_counter("x__y", None, "", 4),
    ):
        name = list(one.launch.counters)[-1]
        found = finding(Rule("r", "*", name, "<=", 9.0), one)
        assert found.failed
        assert f"{name} is a list of 4 values, and a rule takes one" in found.reason
    total = with_counter("sass__inst_executed_per_opcode", 6.0, "inst", instances=4)
    assert finding(Rule("r", "*", "sass__inst_executed_per_opcode", "==", 6.0), total).measured == 6.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_no_value(value: float) -> None:
    one = replace(launch(), metrics={"duration": MetricValue("duration", value, "s")})
    assert finding(Rule("r", "*", "duration", "!=", 1.0), one).failed


@pytest.mark.parametrize("metric", ["launch__registers_per_thread", "registers_per_thread"])
def test_a_graph_has_no_registers_and_no_option_collects_them(metric: str) -> None:
    sets = load_metric_sets()
    one = sets.evaluate(replace(launch().launch, kind=WorkloadKind.GRAPH))
    found = finding(Rule("r", "*", metric, "<=", 128), one)
    assert found.failed
    assert "a graph has no" in found.reason
    assert "collect" not in found.reason


def test_rules_from_the_field() -> None:
    """Four rules as somebody wrote them: none says its unit, and two of the numbers mean nothing."""
    sets = load_metric_sets()
    (report,) = read_reports([CASES / "two_devices.ncu-rep"], None)
    launches = [sets.evaluate(one) for one in report.launches]
    rules = load_rules(CASES / "sol_raw.toml", sets.metrics)
    with pytest.raises(ConfigError) as caught:
        check(rules, launches, None)
    assert "sol_raw.toml" in caught.value.message
    assert "gpu__time_duration.sum" in caught.value.message
    assert "is in ns: there it is 44352" in caught.value.message
