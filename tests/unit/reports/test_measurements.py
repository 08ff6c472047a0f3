"""Counters and timings put together: values to check in the head, and what is said of what is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfkit.analysis.measurements import gather, without_held
from perfkit.errors import NotComparableError, UsageError
from perfkit.model import Status

AT = "n=1000"


def test_values_of_both_kinds_of_runs(measurements: Any) -> None:
    assert measurements.kernels == ("k1", "k2", "cublas")
    assert measurements.reference == "cublas"
    assert measurements.main_problem == AT
    assert measurements.number("time", "k1", AT) == 2.5e-3
    assert measurements.number("issue_rate", "k2", AT) == 0.4
    assert measurements.get("top_stall", "k1", AT).value == "lg_throttle"


@pytest.mark.parametrize(
    ("name", "kernel", "value"),
    [
        ("flops", "k1", 2e9),
        ("counted_flops", "k1", 2e9),
        ("ncu_flop_rate", "k2", 2e12),
        ("two_factor_model", "k2", 0.2),
        ("measured_share", "k2", 0.4),  # 2e9 / 1.25e-3 / 4e12
        ("two_factor_error", "k2", -0.2),
        ("model_error", "k1", 0.0005),
        ("timed_model_error", "k1", 0.2 * 0.45 + 0.0005 - 0.2),
        ("dram_bytes", "k1", 8e6),
        ("flop_per_dram_byte", "k1", 250.0),
        ("flop_per_l2_byte", "k1", 50.0),
        ("share_of_reference", "k1", 0.4),
        ("share_of_reference", "cublas", 1.0),
        ("speedup", "k2", 2.0),
    ],
)
def test_derived_values(measurements: Any, name: str, kernel: str, value: float) -> None:
    traced = measurements.get(name, kernel, AT)
    assert traced.number == pytest.approx(value, rel=1e-12)
    assert traced.source.formula


def test_nothing_comes_before_the_first_and_the_reference(measurements: Any) -> None:
    assert measurements.get("speedup", "k1", AT) is None
    assert measurements.get("speedup", "cublas", AT) is None


def test_a_missing_input_is_said_in_what_is_derived_from_it(made: Any) -> None:
    one = made.evaluated(made.launch(0, "k1"), issue_rate=0.5)
    found = gather([one])
    traced = found.get("two_factor_model", "k1", AT)
    assert traced is not None
    assert (traced.value, traced.status) == (None, Status.NOT_COLLECTED)
    assert traced.reason == "needs fma_share"


def test_sources_name_file_hash_launch_and_counters(measurements: Any) -> None:
    source = measurements.get("issue_rate", "k2", AT).source
    assert (source.kind, source.file, source.sha256, source.launch) == (
        "counters",
        "run/p.ncu-rep",
        "a" * 64,
        "0.1",
    )
    assert source.counters == (("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 1e9, "inst"),)
    timing = measurements.get("time", "k2", AT).source
    assert (timing.kind, timing.file, timing.sha256) == ("bench", "bench/run.json", "b" * 64)
    assert measurements.get("speedup", "k2", AT).source.inputs == ("time(k2, n=1000)", "time(k1, n=1000)")


def test_of_several_launches_of_a_label_the_longest_stands_and_a_warning_says_so(made: Any) -> None:
    parts = [
        made.evaluated(made.launch(0, "cublas", kernel="gemm"), duration=3e-3),
        made.evaluated(made.launch(1, "cublas", kernel="reduce"), duration=1e-3),
    ]
    found = gather(parts)
    assert found.number("duration", "cublas", AT) == 3e-3
    assert found.warnings == (
        "cublas n=1000: 2 launches, which differ in function; "
        "the counters are those of the longest in run/p.ncu-rep",
    )


def test_of_several_reports_the_latest_counts(made: Any) -> None:
    parts = [
        made.evaluated(made.launch(0, "k1", report="a.ncu-rep"), duration=3e-3),
        made.evaluated(made.launch(0, "k1", report="b.ncu-rep"), duration=1e-3),
    ]
    found = gather(parts)
    assert found.number("duration", "k1", AT) == 1e-3
    assert found.warnings == (
        "k1 n=1000: 2 launches in 2 reports; the counters are those of the one in b.ncu-rep",
    )


def test_runs_that_hold_kernels_count_only_for_what_no_other_has(made: Any) -> None:
    parts = [
        made.evaluated(made.launch(0, "k1", report="plain/a.ncu-rep"), duration=1e-3),
        made.evaluated(made.launch(0, "k1", report="held/b.ncu-rep"), duration=2e-3),
        made.evaluated(made.launch(1, "k1@1", report="held/b.ncu-rep"), duration=3e-3),
    ]
    record = made.run("held", labels=("k1", "k1@1"))
    kernels = (record.kernels[0], replace(record.kernels[1], blocks_per_sm=1))
    record = replace(record, kernels=kernels, reports=("b.ncu-rep",), path="held")
    found = gather(parts, [record])
    assert found.number("duration", "k1", AT) == 1e-3
    assert found.number("duration", "k1@1", AT) == 3e-3
    plain = without_held(found)
    assert plain.kernels == ("k1",)
    assert plain.warnings[-1] == "left out, held to fewer blocks an SM: k1@1 (--held shows them)"
    assert without_held(plain) is plain


def test_names_that_repeat_stay_apart(made: Any) -> None:
    parts = [
        made.evaluated(made.launch(index, None, kernel="Kernel", problem=""), duration=index + 1.0)
        for index in range(3)
    ]
    found = gather(parts)
    assert found.kernels == ("Kernel #0", "Kernel #1", "Kernel #2")
    assert [found.number("duration", kernel, "") for kernel in found.kernels] == [1.0, 2.0, 3.0]


def test_a_launch_that_was_not_collected_is_named(made: Any) -> None:
    found = gather([made.evaluated(made.launch(0, "k1", collected=False), duration=None)])
    assert "k1 n=1000: the launch was not collected" in found.warnings[0]


def test_runs_of_two_gpus_are_refused_by_name(made: Any) -> None:
    other = made.evaluated(made.launch(0, "k1", gpu="Other GPU", report="o.ncu-rep"), duration=1.0)
    with pytest.raises(NotComparableError, match=r"Test GPU in .*; Other GPU in o.ncu-rep"):
        gather([*made.ladder(), other])


def test_nothing_at_all_is_an_error() -> None:
    with pytest.raises(UsageError, match="no launch and no timing"):
        gather([])


def test_an_unknown_reference_is_an_error_with_the_kernels(made: Any) -> None:
    with pytest.raises(UsageError) as caught:
        gather(made.ladder(), reference="k9")
    assert caught.value.remedy == "Kernels: k1, k2, cublas."


def test_a_timing_without_a_value_says_so(made: Any) -> None:
    record = made.run("bench", k1=1e-3)
    record.results[0]["time"] = None
    found = gather(made.ladder(), [record])
    traced = found.get("time", "k1", AT)
    assert traced is not None
    assert traced.status is Status.NOT_COLLECTED
    assert traced.reason == "the bench run bench has no time for it"
    assert found.get("time", "k2", AT) is None


def test_the_order_is_that_of_the_longest_list(made: Any) -> None:
    two, all_of_them = made.run("a", labels=("k2", "k1")), made.run("b")
    assert gather(made.ladder(), [two, all_of_them]).kernels == ("k1", "k2", "cublas")


def test_a_reference_among_the_steps_stays_a_step(made: Any) -> None:
    found = gather(made.ladder(), [made.bench()], reference="k2")
    assert found.number("speedup", "k2", AT) == pytest.approx(2.0)
    assert found.number("speedup", "cublas", AT) == pytest.approx(1.25)
    assert found.number("share_of_reference", "cublas", AT) == pytest.approx(1.25)
    assert gather(made.ladder(), [made.bench()]).get("speedup", "cublas", AT) is None


def build_of(record: Any, source: str, **facts: Any) -> Any:
    kernels = tuple(
        replace(one, build={"source_hash": source, "flags": [], **facts}) for one in record.kernels
    )
    return replace(record, kernels=kernels)


def test_a_timing_of_another_build_is_not_laid_beside_the_counters(made: Any) -> None:
    profile = replace(made.run("p", labels=("k1",)), reports=("p.ncu-rep",), path="run")
    item = made.evaluated(made.launch(0, "k1", report="run/p.ncu-rep"), duration=1e-3)
    bench = made.bench()
    mine = build_of(profile, "new", spill_store_bytes=0)
    other, same = (build_of(bench, source, spill_store_bytes=64) for source in ("old", "new"))
    for records in ([mine, other], [other, mine]):
        found = gather([item], records)
        assert found.get("time", "k1", AT) is None
        assert found.number("spill_bytes", "k1", AT) == 0, "of the build that was profiled"
        (said,) = (text for text in found.warnings if "timings are left out" in text)
        assert said.startswith("k1 n=1000: the timings are left out, since they are of another source")
    assert gather([item], [mine, same]).number("time", "k1", AT) == 2.5e-3


def test_timings_of_several_builds_without_counters_are_told(made: Any) -> None:
    old = build_of(made.bench(), "old")
    new = replace(build_of(made.bench(), "new"), id="later", path="later", started="2027-01-01T00:00:00Z")
    found = gather([], [old, new])
    assert any("timed in several builds; the newest timing counts" in text for text in found.warnings)
    assert not any("several builds" in text for text in gather([], [old]).warnings)


def test_other_code_under_one_label_is_named(made: Any) -> None:
    runs = [
        replace(build_of(made.run(name, labels=("k1",)), name), reports=("p.ncu-rep",), path=name)
        for name in ("a", "b")
    ]
    items = [
        made.evaluated(made.launch(0, "k1", report=f"{name}/p.ncu-rep"), duration=1e-3) for name in ("a", "b")
    ]
    (said,) = gather(items, runs).warnings
    assert "2 launches in 2 reports, which differ in source or flags; the counters are those of" in said


def test_bytes_below_the_least_work_are_a_warning(made: Any) -> None:
    profile = replace(made.run("p", labels=("k1",)), reports=("p.ncu-rep",), path="run")
    profile = replace(profile, kernels=(replace(profile.kernels[0], least_bytes=1e9),))
    item = made.evaluated(
        made.launch(0, "k1", report="run/p.ncu-rep"), l2_read_bytes=5e8, l2_write_bytes=1e8, duration=1e-3
    )
    item = replace(item, launch=replace(item.launch, compute_capability=(8, 9)))
    (said,) = gather([item], [replace(profile, gpu=None)]).warnings
    assert said.startswith("k1 n=1000: moved 600 MB between L2 and L1 where the work needs 1 GB")
