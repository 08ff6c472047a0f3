"""The peak model on launches made by hand, so that every factor is known."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.peak_model import check_launches, fp32_lanes_per_sm, other_builds, run_flops, run_timed
from perfkit.model import Counter, KernelRun, Launch, LaunchId, RunRecord
from perfkit.model.peak import Closure, PeakCheck, TimedShare

SETS = load_metric_sets()
SMS, SMSPS = 132, 528


def _launch(
    counters: dict[str, float], *, key: str = "k8", number: int = 0, collected: bool = True
) -> Launch:
    made: dict[str, Counter] = {name: Counter(name, value, "") for name, value in counters.items()}
    return Launch(
        LaunchId("r.ncu-rep", 0, number), "sgemm", "sgemm(float*)", "NVIDIA H200", (9, 0), "2025.3.1",
        (32, 32, 1), (256, 1, 1), collected, key, "n=4096", counters=made,
    )  # fmt: skip


def _counters(
    *, issue: float = 0.8, fma: float = 0.9, active: float = 0.95, elapsed: float = 1e7, on: float = 1.0
) -> dict[str, float]:
    """Counters of a launch with these factors; `on`: share of an FMA's lanes that are on."""
    total = elapsed * SMSPS
    executed = issue * active * total
    return {
        "smsp__issue_active.sum": executed,
        "smsp__cycles_active.sum": active * total,
        "smsp__cycles_elapsed.sum": total,
        "smsp__inst_executed.sum": executed,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": fma * executed * 32 * on,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 128.0 * SMS,
        "sm__inst_executed_pipe_tensor.sum": 0,
        "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum": 0,
        "device__attribute_multiprocessor_count": SMS,
        "device__attribute_num_schedulers_per_multiprocessor": 4,
        "gpu__time_duration.sum": elapsed / 1.98e9,
        "smsp__cycles_elapsed.avg.per_second": 1.98e9,
    }


def _one(counters: dict[str, float], **more: Any) -> PeakCheck:
    (check,) = check_launches([_launch(counters)], SETS, **more)
    return check


def _work(counters: dict[str, float]) -> float:
    return 2 * counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"]


@given(
    st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.05, 1.0), st.floats(0.1, 1.0), st.floats(1e4, 1e9)
)
def test_the_identity_holds_for_any_factors(
    issue: float, fma: float, active: float, on: float, elapsed: float
) -> None:
    counters = _counters(issue=issue, fma=fma, active=active, on=on, elapsed=elapsed)
    check = _one(counters, flops={("k8", "n=4096"): _work(counters)})
    assert check.closure is Closure.CLOSES
    assert check.full == pytest.approx(issue * fma * active * on, rel=1e-9)
    assert check.counted == pytest.approx(check.full, rel=1e-9)
    assert check.work == pytest.approx(check.full, rel=1e-9)


def test_the_articles_two_factors_stand_beside_it() -> None:
    check = _one(_counters(issue=0.795, fma=0.885, active=0.5))
    assert check.two_factor == pytest.approx(0.795 * 0.885)
    assert check.full == pytest.approx(0.795 * 0.885 * 0.5)
    assert check.two_factor_error == pytest.approx(0.795 * 0.885 * 0.5)


def test_replayed_instructions_leave_a_residual_that_is_named() -> None:
    counters = _counters(issue=0.5, fma=0.9, active=1.0)
    counters["smsp__issue_active.sum"] *= 1.03
    check = _one(counters)
    assert check.closure is Closure.OPEN
    assert check.residual == pytest.approx(0.5 * 0.9 * 0.03, rel=1e-6)
    assert "+3.00% instructions issued against executed" in check.reason


def test_a_residual_within_half_a_point_is_not_smoothed_over() -> None:
    counters = _counters(issue=0.5, fma=0.9, active=1.0)
    counters["smsp__issue_active.sum"] *= 1.006
    check = _one(counters)
    assert check.closure is Closure.NEARLY
    assert check.residual == pytest.approx(0.0027, rel=1e-6)


def test_work_that_the_counters_do_not_show_does_not_close() -> None:
    counters = _counters()
    check = _one(counters, flops={("k8", "n=4096"): 1.1 * _work(counters)})
    assert check.closure is Closure.OPEN
    assert "fewer FMAs were counted than the work model has" in check.reason


@pytest.mark.parametrize(
    ("share", "closure"),
    [(0.680, Closure.CLOSES), (0.6939, Closure.CLOSES), (0.6945, Closure.OPEN), (0.60, Closure.OPEN)],
)
def test_event_timing_decides(share: float, closure: Closure) -> None:
    timing = TimedShare(share, "cold", "cold", "run")
    check = _one(_counters(), timed={("k8", "n=4096"): timing})
    assert check.timed_residual == pytest.approx(0.8 * 0.9 * 0.95 - share)
    assert check.timing == timing
    assert check.closure is closure
    assert ("event timing" in check.reason) == (closure is Closure.OPEN)


def test_without_work_and_timing_it_closes_by_ncu_only() -> None:
    counters = _counters()
    assert _one(counters).closure is Closure.NCU_ONLY
    assert _one(counters, flops={("k8", "n=4096"): _work(counters)}).closure is Closure.CLOSES


def test_what_is_known_of_a_timing_that_is_off_is_said() -> None:
    timing = TimedShare(0.66, "hot", "cold", "run", 0.65, 0.69)
    check = _one(_counters(), timed={("k8", "n=4096"): timing})
    assert check.closure is Closure.OPEN, "scatter and caches are reasons, and no excuse"
    assert check.reason == (
        "2.40 points above event timing (66.00%, more than the 1 allowed); timed with hot caches, profiled "
        "with cold ones; within the 5th to 95th percentile of the timed launches (65.00% to 69.00%), and ncu "
        "measured one launch"
    )


def test_a_factor_that_cannot_be_does_not_close() -> None:
    counters = _counters(active=1.0)
    counters["smsp__cycles_active.sum"] *= 1.04
    counters["smsp__issue_active.sum"] *= 1.04  # the product still meets ncu's count
    check = _one(counters, flops={("k8", "n=4096"): _work(counters)})
    assert check.closure is Closure.OPEN
    assert check.reason.startswith("active fraction 104.0%: outside its possible range 0 to 1")


def test_time_and_cycles_that_contradict_one_another_do_not_close() -> None:
    counters = _counters()
    counters["smsp__cycles_elapsed.avg"] = counters["smsp__cycles_elapsed.sum"] / SMSPS
    counters["gpu__time_duration.sum"] *= 2
    check = _one(counters, flops={("k8", "n=4096"): _work(counters) * 2})
    assert check.closure is Closure.OPEN
    assert "elapsed cycles: 20,000,000 duration x SM clock, 10,000,000 counted" in check.reason


def test_several_launches_of_a_library_call_are_not_compared_with_its_whole_work() -> None:
    counters = _counters()
    launches = [_launch(counters, key="cublas", number=i) for i in range(2)]
    timed: dict[tuple[str, ...], TimedShare] = {("cublas", "n=4096"): TimedShare(0.5, "hot", "hot", "run")}
    checks = check_launches(launches, SETS, flops={("cublas", "n=4096"): 1.0}, timed=timed)
    for check in checks:
        assert (check.work, check.timed, check.timing) == (None, None, None)
        assert check.closure is Closure.NCU_ONLY
        assert "one of 2 launches" in check.reason


def test_the_same_kernel_in_two_reports_is_compared_in_both() -> None:
    counters = _counters()
    first = _launch(counters)
    second = dataclasses.replace(first, id=LaunchId("other.ncu-rep", 0, 0))
    checks = check_launches([first, second], SETS, flops={("k8", "n=4096"): _work(counters)})
    assert [check.work for check in checks] == pytest.approx([0.8 * 0.9 * 0.95] * 2)


def test_missing_counters_are_named() -> None:
    counters = _counters()
    del counters["smsp__issue_active.sum"]
    check = _one(counters)
    assert check.closure is Closure.UNKNOWN
    assert check.full is None
    assert "issue rate" in check.reason
    assert "smsp__issue_active.sum" in check.factors["issue_rate"].reason


def test_a_launch_that_was_not_collected_stays_in_the_list() -> None:
    (check,) = check_launches([_launch({}, collected=False)], SETS)
    assert (check.closure, check.reason) == (Closure.UNKNOWN, "the launch was not collected")


def test_no_fma_no_share() -> None:
    check = _one(_counters(fma=0.0))
    assert check.closure is Closure.NO_SHARE
    assert (check.full, check.counted) == (None, None)


def test_tensor_work_has_no_share_and_unknown_work_cannot_be_told() -> None:
    counters = _counters(fma=0.01)
    unknown = {name: value for name, value in counters.items() if "tensor" not in name}
    tensor = {**counters, "sm__inst_executed_pipe_tensor.sum": 1e6}
    assert _one(counters).closure is Closure.NCU_ONLY
    assert _one(tensor).closure is Closure.NO_SHARE
    assert _one(unknown).closure is Closure.UNKNOWN
    assert "sm__inst_executed_pipe_tensor.sum" in _one(unknown).reason


def test_two_lanes_a_thread_on_volta_to_ampere() -> None:
    counters = _counters(issue=0.5, fma=0.9, active=1.0)
    counters["sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"] = 64.0 * SMS
    check = _one(counters)
    assert check.factors["lane_factor"].value == 2
    assert check.full == pytest.approx(0.9)


@pytest.mark.parametrize("packed", [0.0, 0.5, 1.0])
def test_a_packed_fma_counts_two(packed: float) -> None:
    counters = _counters(issue=0.4, fma=0.9, active=0.9)
    fmas = 0.9 * counters["smsp__inst_executed.sum"]
    counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 32 * fmas * (1 + packed)
    launch = _launch(counters)
    opcodes = (("FFMA", (1 - packed) * fmas), ("FFMA2", packed * fmas), ("LDS", fmas / 9))
    total = Counter("sass__inst_executed_per_opcode", sum(n for _, n in opcodes), "inst", instances=opcodes)
    launch = dataclasses.replace(
        launch,
        compute_capability=(10, 0),
        counters={**launch.counters, "sass__inst_executed_per_opcode": total},
    )
    (check,) = check_launches([launch], SETS)
    assert check.closure is Closure.NCU_ONLY
    assert check.full == pytest.approx(0.4 * 0.9 * (1 + packed) * 0.9)
    assert check.two_factor == pytest.approx(0.4 * 0.9), "the share of instructions, as the article has it"


@pytest.mark.parametrize(
    ("capability", "lanes"),
    [((7, 0), 64), ((7, 5), 64), ((8, 0), 64), ((8, 6), 128), ((9, 0), 128), ((12, 0), 128), ((3, 5), None)],
)
def test_lanes_by_compute_capability(capability: tuple[int, int], lanes: int | None) -> None:
    assert fp32_lanes_per_sm(capability) == lanes


@pytest.mark.parametrize(
    ("control", "k8", "k7", "k6"),
    [
        ("all", (0.5, "cold", "cold"), (0.4, "cold", "cold"), (0.7, "hot", "cold")),
        ("none", (0.65, "hot", "hot"), (0.4, "cold", "hot"), (0.7, "hot", "hot")),
    ],
)
def test_launches_are_timed_with_the_caches_they_were_profiled_with(
    control: str, k8: tuple[float, str, str], k7: tuple[float, str, str], k6: tuple[float, str, str]
) -> None:
    def result(label: str, cache: str, share: float | None) -> dict[str, Any]:
        return {"kind": "bench", "label": label, "problem": "n=4096", "cache": cache, "share_of_peak": share}

    def record(started: str, *results: dict[str, Any], **more: Any) -> RunRecord:
        options = {"cache_control": control}
        return RunRecord(
            started, "", "complete", (), started, "", "", None, {}, options, results=results, **more
        )

    kernels = tuple(
        KernelRun(key, key, "t", "n=4096", {"n": 4096}, 1.0, 1.0) for key in ("k6", "k7", "k8", "k5")
    )
    profile = record("2026-01-01T00", reports=("a.ncu-rep",), kernels=kernels)
    runs = [
        record("2026-01-01", result("k8", "hot", 0.6), result("k7", "cold", 0.4), kernels=()),
        record("2026-01-02", result("k8", "cold", 0.5), result("k5", "cold", None), kernels=()),
        record("2026-01-03", result("k8", "hot", 0.65), result("k6", "hot", 0.7), kernels=()),
    ]
    found = run_timed([runs[2], profile, runs[0], runs[1]])
    told = {label: (one.share, one.cache, one.profiled) for (_, label, _), one in found.items()}
    assert told == {"k8": k8, "k7": k7, "k6": k6}, "a kernel without a share has no timing"


def test_the_scatter_of_launches_gives_a_range_of_shares() -> None:
    result = {"kind": "bench", "label": "k6b", "problem": "n=2048", "cache": "hot", "share_of_peak": 0.55}
    result |= {"time": 1.0e-3, "launch_low": 0.99e-3, "launch_high": 1.03e-3}
    record = RunRecord("r", "bench", "complete", (), "", "", "", None, {}, {}, (), results=(result,))
    (share,) = run_timed([record]).values()
    assert share.low == pytest.approx(0.55 / 1.03)
    assert share.high == pytest.approx(0.55 / 0.99)
    assert share.holds(0.54)
    assert not share.holds(0.53)
    old = dataclasses.replace(record, results=({**result, "launch_low": None},))
    assert not next(iter(run_timed([old]).values())).holds(0.54)


def test_a_timing_of_another_source_is_no_comparison() -> None:
    def kernel(source: str) -> KernelRun:
        build = {"source_hash": source, "flags": ["-O3"]}
        return KernelRun("k6", "k6", "t", "n=4096", {"n": 4096}, 1.0, 1.0, build=build)

    def record(what: str, source: str, **more: Any) -> RunRecord:
        return RunRecord(
            what, what, "complete", (), "2026-01-01", "", "0.1", None, {}, {}, (kernel(source),), **more
        )

    timing = {"kind": "bench", "label": "k6", "problem": "n=4096", "cache": "hot", "share_of_peak": 0.5}
    profile = record("profile", "new", reports=("a.ncu-rep",))
    same, other = record("bench", "new", results=(timing,)), record("bench", "old", results=(timing,))
    assert [one.share for one in run_timed([profile, same]).values()] == [0.5]
    assert other_builds([profile, same]) == []
    assert run_timed([profile, other]) == {}
    assert other_builds([profile, other]) == [("k6", "n=4096")]
    assert [one.share for one in run_timed([other]).values()] == [0.5]


def test_work_and_timings_are_those_of_the_report_own_run() -> None:
    """Two runs of one label whose sources and work differ: neither is laid over the other's launches."""

    def run(name: str, source: str, flops: float, **more: Any) -> RunRecord:
        build = {"source_hash": source, "flags": []}
        kernel = KernelRun("k", "k", "t", "n=64", {"n": 64}, flops, 1.0, build=build)
        return RunRecord(
            name, "", "complete", (), name, "", "", None, {}, {}, (kernel,), path=f"/runs/{name}", **more
        )

    def timing(share: float) -> dict[str, Any]:
        return {"kind": "bench", "label": "k", "problem": "n=64", "cache": "cold", "share_of_peak": share}

    old, new = run("1", "old", 1e6, reports=("a",)), run("2", "new", 2e6, reports=("b",))
    timed = [run("3", "old", 1e6, results=(timing(0.3),)), run("4", "new", 2e6, results=(timing(0.6),))]
    key = ("k", "n=64")
    for runs in ([old, new, *timed], [new, old, *timed]):
        assert run_flops(runs) == {("/runs/1/a", *key): 1e6, ("/runs/2/b", *key): 2e6}
        assert {which: one.share for which, one in run_timed(runs).items()} == {
            ("/runs/1/a", *key): 0.3,
            ("/runs/2/b", *key): 0.6,
        }
        assert other_builds(runs) == []
    assert run_flops([old, old])[key] == 1e6, "what all runs agree on holds for any report"
    assert other_builds([old, new, timed[0]]) == [key], "the second run's launches have no timing of theirs"
