"""The CI gate: rules, baselines, and every way a rules file can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfkit.analysis.baseline import load_baseline
from perfkit.analysis.gate import check, record_baseline
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.rules import load_rules
from perfkit.errors import CheckFailedError, ConfigError
from perfkit.model import Evaluated, MetricValue, Report, RuleOutcome, Status
from tests.unit.analysis.launches import launch

METRICS = ("registers_per_thread", "shared_load_conflicts", "top_stall", "issue_rate")


def kernel(label: str, problem: str = "n=64", gpu: str = "GPU A", **metrics: float | str) -> Evaluated:
    one = launch(label, problem=problem, gpu=gpu)
    return Evaluated(one.launch, {**one.metrics, **{k: MetricValue(k, v, "") for k, v in metrics.items()}})


def rules(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(text)
    return path


def rule(metric: str, op: str, value: str = "", more: str = "", kernel: str = "k7") -> str:
    shown = f"value = {value}\n" if value else ""
    return f'[[rule]]\nkernel = "{kernel}"\nmetric = "{metric}"\nop = "{op}"\n{shown}{more}\n'


@pytest.mark.parametrize(
    ("op", "value", "passes"),
    [
        ("<=", "120", True),
        ("<=", "119", False),
        ("<", "120", False),
        (">=", "120", True),
        (">", "119.5", True),
        ("==", "120", True),
        ("==", "121", False),
        ("!=", "121", True),
    ],
)
def test_a_value_is_compared(tmp_path: Path, op: str, value: str, passes: bool) -> None:
    known = load_rules(rules(tmp_path, rule("registers_per_thread", op, value)), METRICS)
    (finding,) = check(known, [kernel("k7", registers_per_thread=120.0)], None)
    assert finding.failed is not passes
    assert (finding.launch, finding.measured, finding.required) == ("k7 n=64", 120.0, float(value))
    assert finding.rule.name == f"registers_per_thread(k7) {op} {value}"


@pytest.mark.parametrize(
    ("more", "passes"), [("tolerance = 0.01", True), ("margin = 0.5", False), ("margin = 1", True)]
)
def test_tolerance_is_relative_and_margin_absolute(tmp_path: Path, more: str, passes: bool) -> None:
    known = load_rules(rules(tmp_path, rule("registers_per_thread", "<=", "119", more)), METRICS)
    (finding,) = check(known, [kernel("k7", registers_per_thread=120.0)], None)
    assert finding.failed is not passes


def test_texts_are_equal_or_not(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, rule("top_stall", "==", '"lg_throttle"')), METRICS)
    one, other = kernel("k7", top_stall="lg_throttle"), kernel("k7", top_stall="barrier")
    assert [f.failed for f in check(known, [one, other], None)] == [False, True]


def test_patterns_and_problems_choose_launches(tmp_path: Path) -> None:
    text = rule("registers_per_thread", "<=", "128", 'problem = "n=64"', kernel="k6*")
    known = load_rules(rules(tmp_path, text), METRICS)
    launches = [kernel("k6", registers_per_thread=130.0), kernel("k6b", registers_per_thread=128.0)]
    launches += [kernel("k7", registers_per_thread=200.0), kernel("k6", "n=128", registers_per_thread=200.0)]
    found = check(known, launches, None)
    assert [(f.launch, f.outcome) for f in found] == [
        ("k6 n=64", RuleOutcome.FAILED),
        ("k6b n=64", RuleOutcome.PASSED),
    ]


def test_a_missing_metric_fails_unless_allowed(tmp_path: Path) -> None:
    one = kernel("k7")
    absent = MetricValue(
        "issue_rate", None, "fraction", Status.NOT_COLLECTED, "--metrics smsp__issue_active.sum"
    )
    one = Evaluated(one.launch, {**one.metrics, "issue_rate": absent})
    known = load_rules(rules(tmp_path, rule("issue_rate", ">", "0.5")), METRICS)
    (finding,) = check(known, [one], None)
    assert finding.failed
    assert finding.outcome is RuleOutcome.MISSING
    assert finding.reason == "--metrics smsp__issue_active.sum"
    allowed = load_rules(rules(tmp_path, rule("issue_rate", ">", "0.5", "allow_missing = true")), METRICS)
    assert [f.outcome for f in check(allowed, [one], None)] == [RuleOutcome.ALLOWED]


def test_a_rule_that_names_no_launch_fails(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, rule("issue_rate", ">", "0.5", kernel="k9")), METRICS)
    (finding,) = check(known, [kernel("k7")], None)
    assert finding.failed
    assert finding.reason == "no launch is called k9"


def test_a_rule_for_another_gpu_does_not_apply(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, rule("issue_rate", ">", "0.9", 'gpu = "GPU B*"')), METRICS)
    (finding,) = check(known, [kernel("k7")], None)
    assert finding.outcome is RuleOutcome.NOT_APPLICABLE
    assert not finding.failed


def test_a_counter_can_be_a_rule(tmp_path: Path) -> None:
    text = rule("smsp__cycles_elapsed.avg", "<=", "1.6e6") + rule("smsp__nothing.sum", "<=", "1")
    known = load_rules(rules(tmp_path, text), METRICS)
    held, missing = check(known, [kernel("k7")], None)
    assert (held.measured, held.failed) == (1.5e6, False)
    assert missing.reason.startswith("the report does not hold smsp__nothing.sum")
    assert "`ncu --metrics smsp__nothing.sum`" in missing.reason


BASELINE = 'baseline = "base.json"\n' + rule(
    "registers_per_thread", "unchanged", more="tolerance = 0.02", kernel="k*"
)


def test_a_baseline_is_recorded_and_held(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, BASELINE), METRICS)
    assert known.baseline == tmp_path / "base.json"
    assert load_baseline(tmp_path / "base.json") is None
    before = [kernel("k7", registers_per_thread=100.0), kernel("k8", registers_per_thread=127.0)]
    first = check(known, before, None)
    assert all(f.failed and "--update-baseline" in f.reason for f in first)
    text, missing = record_baseline(known, before, {"source": "run 1"})
    assert missing == []
    (tmp_path / "base.json").write_text(text)
    document = json.loads(text)
    assert (document["gpu"], document["source"]) == ("GPU A", "run 1")
    assert [
        (one["kernel"], one["problem"], one["values"]["registers_per_thread"]["value"])
        for one in document["launches"]
    ] == [("k7", "n=64", 100.0), ("k8", "n=64", 127.0)]
    baseline = load_baseline(tmp_path / "base.json")
    after = [kernel("k7", registers_per_thread=102.0), kernel("k8", registers_per_thread=130.0)]
    found = check(known, after, baseline)
    assert [(f.measured, f.required, f.failed) for f in found] == [
        (102.0, 100.0, False),
        (130.0, 127.0, True),
    ]
    (stranger,) = check(known, [kernel("k7", gpu="GPU B", registers_per_thread=100.0)], baseline)
    assert stranger.failed
    assert stranger.reason == "the baseline is of GPU A, this is GPU B"
    new, *gone = check(known, [kernel("k9", registers_per_thread=100.0)], baseline)
    assert new.failed
    assert "the baseline holds no such launch" in new.reason
    assert [(f.launch.split(",")[0], f.required, f.measured, f.failed) for f in gone] == [
        ("k7 n=64", 100.0, None, True),
        ("k8 n=64", 127.0, None, True),
    ]


@pytest.mark.parametrize(("op", "worse", "better"), [("not_above", 130.0, 90.0), ("not_below", 90.0, 130.0)])
def test_one_sided_baselines(tmp_path: Path, op: str, worse: float, better: float) -> None:
    known = load_rules(rules(tmp_path, BASELINE.replace("unchanged", op)), METRICS)
    text, _ = record_baseline(known, [kernel("k7", registers_per_thread=100.0)], {})
    (tmp_path / "base.json").write_text(text)
    baseline = load_baseline(tmp_path / "base.json")
    for value, failed in ((worse, True), (better, False), (100.0, False)):
        (finding,) = check(known, [kernel("k7", registers_per_thread=value)], baseline)
        assert finding.failed is failed


def test_a_baseline_is_of_one_gpu(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, BASELINE), METRICS)
    both = [kernel("k7", registers_per_thread=1.0), kernel("k8", gpu="GPU B", registers_per_thread=1.0)]
    with pytest.raises(ConfigError, match="several GPUs"):
        record_baseline(known, both, {})


DAMAGED = [
    "{",
    "[]",
    '{"schema_version": 9, "values": {}}',
    '{"schema_version": 1}',
    '{"schema_version": 1, "values": []}',
    '{"schema_version": 1, "values": {"k7": {"duration": true}}}',
    '{"schema_version": 1, "values": {"k7": {"duration": NaN}}}',
    '{"schema_version": 2}',
    '{"schema_version": 2, "gpu": "GPU A", "launches": [3]}',
    '{"schema_version": 2, "gpu": "GPU A", "launches": [{"kernel": "k7"}]}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_baseline_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"base\.json") as caught:
        load_baseline(path)
    assert "--update-baseline" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]\n", "is not TOML"),
        ("", "holds no rule"),
        ("rules = 1\n", "unknown key 'rules'"),
        (rule("isue_rate", "<", "1"), "rules.toml:1: rule 1: unknown metric 'isue_rate'"),
        (rule("issue_rate", "=<", "1"), "unknown op '=<'"),
        (rule("issue_rate", "<"), "op < needs a value"),
        (rule("issue_rate", "unchanged", "1"), "takes no value"),
        (rule("issue_rate", "<", '"x"'), "cannot order the text 'x'"),
        (rule("issue_rate", "<", "true"), "value is True, of the wrong type"),
        (rule("issue_rate", "<", "1", "tolerance = -1"), "below 0"),
        (rule("issue_rate", "<", "nan"), "value is nan, which nothing can be compared with"),
        (rule("issue_rate", "<", "1", "tolerance = inf"), "tolerance is inf"),
        (rule("top_stall", "==", '"wait"', 'unit = "%"'), "the text 'wait' has no unit"),
        (rule("issue_rate", "<", "1", "limit = 1"), "unknown key 'limit'"),
        (
            rule("issue_rate", "<", "1") + '\n[[rule]]\nname = "x"\nop = "<"\n',
            "rules.toml:8: rule 2 (x): it has no metric",
        ),
        (rule("issue_rate", "unchanged"), "compares with a baseline, and the file names none"),
        ("baseline = 3\n" + rule("issue_rate", "<", "1"), "`baseline` is 3"),
    ],
)
def test_a_wrong_rules_file_names_file_rule_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rules(rules(tmp_path, text), METRICS)
    assert message in caught.value.message
    assert "rules.toml" in caught.value.message
    assert caught.value.remedy


def test_near_names_are_offered(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rules(rules(tmp_path, rule("isue_rate", "<", "1")), METRICS)
    assert caught.value.remedy == "Did you mean issue_rate?"


def test_no_rules_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml"):
        load_rules(tmp_path / "none.toml", METRICS)


@pytest.mark.parametrize("text", ["", "[[rule]\n", '[[rule]]\nmetric = "issue_rate"\nmax = 1\n'])
def test_who_does_not_know_how_a_rule_looks_is_shown_one_that_works(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rules(rules(tmp_path, text), METRICS)
    example = caught.value.remedy.partition("Such as:\n\n")[2]
    (rule_,) = load_rules(rules(tmp_path, example), load_metric_sets().metrics).rules
    assert (rule_.kernel, rule_.metric, rule_.op, rule_.value) == ("k7", "registers_per_thread", "<=", 128)


def test_a_share_is_written_as_a_fraction(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_rules(rules(tmp_path, rule("issue_rate", "<", '"90%"')), METRICS)
    assert "0.9 for 90 %" in caught.value.remedy


def invalid(value: float | str) -> MetricValue:
    return MetricValue("issue_rate", value, "fraction", Status.INVALID, "two readings contradict one another")


@pytest.mark.parametrize("op", ["<=", "!=", "unchanged"])
def test_an_invalid_value_fails_unless_allowed(tmp_path: Path, op: str) -> None:
    one = kernel("k7")
    one = Evaluated(one.launch, {**one.metrics, "issue_rate": invalid(0.4)})
    value = "" if op == "unchanged" else "0.5"
    text = 'baseline = "base.json"\n' + rule("issue_rate", op, value)
    known = load_rules(rules(tmp_path, text), METRICS)
    allowed = load_rules(rules(tmp_path, text + "allow_invalid = true\n"), METRICS)
    baseline = None
    if not value:
        with pytest.raises(CheckFailedError, match="two readings contradict") as caught:
            record_baseline(known, [one], {})
        assert "allow_invalid = true" in caught.value.remedy
        (tmp_path / "base.json").write_text(record_baseline(allowed, [one], {})[0])
        baseline = load_baseline(tmp_path / "base.json")
    (finding,) = check(known, [one], baseline)
    assert (finding.outcome, finding.failed, finding.measured) == (RuleOutcome.INVALID, True, 0.4)
    assert "two readings contradict one another" in finding.reason
    (finding,) = check(allowed, [one], baseline)
    assert (finding.outcome, finding.failed) == (RuleOutcome.PASSED, False)
    assert "two readings contradict one another" in finding.reason


def test_findings_name_report_and_launch(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, rule("registers_per_thread", "<=", "1")), METRICS)
    (finding,) = check(known, [kernel("k7", registers_per_thread=120.0)], None)
    assert finding.where == "made-up.ncu-rep:0"


def report(path: str, lost: int = 0, truncated: bool = False, error: str = "") -> Report:
    problems = ("is damaged: it declares 5 launches",) if lost else ()
    return Report(path, (), "", 5, lost, truncated, problems, error)


def test_a_report_that_lost_launches_fails_the_gate(tmp_path: Path) -> None:
    known = load_rules(rules(tmp_path, rule("registers_per_thread", "<=", "128")), METRICS)
    launches = [kernel("k7", registers_per_thread=120.0)]
    read = [
        report("good.ncu-rep"),
        report("bad.ncu-rep", lost=2),
        report("cut.ncu-rep", truncated=True),
        report("no.ncu-rep", error="no.ncu-rep: is empty (0 bytes)"),
    ]
    found = check(known, launches, None, read)
    assert [(f.launch, f.measured, f.outcome) for f in found[:3]] == [
        ("bad.ncu-rep", 2.0, RuleOutcome.FAILED),
        ("cut.ncu-rep", 0.0, RuleOutcome.FAILED),
        ("no.ncu-rep", None, RuleOutcome.FAILED),
    ]
    assert "it declares 5 launches" in found[0].reason
    assert found[1].reason.startswith("at least that many are lost")
    assert found[2].reason == "is empty (0 bytes)"
    assert not found[3].failed
    told = check(known, launches, None, read, allow_lost=True)
    assert [f.launch for f in told] == [f.launch for f in found]
    assert not any(f.failed for f in told)
