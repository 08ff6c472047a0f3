"""Evaluation: alternatives, statuses, reasons; every shipped formula on made-up counters of every chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.definitions import load_devices
from perfkit.analysis.metrics import load_metric_sets
from perfkit.model import Counter, Launch, LaunchId, MetricValue, Status

SETS = load_metric_sets()
CHIPS = [tuple(int(part) for part in name.split(".")) for name in load_devices()]
EVERY_KIND = {"FFMA": 8.0, "LDS": 2.0, "LDG.E": 1.0, "STG.E": 1.0, "STS": 1.0}
OPCODES = "sass__inst_executed_per_opcode"


def launch(counters: Mapping[str, Any], chip: tuple[int, int] = (9, 0), collected: bool = True) -> Launch:
    """A launch with these counters: a number, (number, unit), or a dict of instances."""
    made = {}
    for name, value in counters.items():
        if isinstance(value, dict):
            made[name] = Counter(name, float(sum(value.values())), "", instances=tuple(value.items()))
        elif isinstance(value, tuple):
            made[name] = Counter(name, value[0], value[1])
        else:
            made[name] = Counter(name, value, "")
    return Launch(
        LaunchId("r.ncu-rep", 0, 0), "k", "k()", "GPU", chip, "2025.3.1.0", (1, 1, 1), (32, 1, 1), collected,
        counters=made,
    )  # fmt: skip


def value(name: str, counters: Mapping[str, Any], **options: Any) -> MetricValue:
    return SETS.evaluate(launch(counters, **options), [name]).metrics[name]


LOADS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 160.0,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 10.0,
}


def test_a_value_can_be_traced() -> None:
    found = value("sectors_per_load", LOADS)
    assert (found.value, found.status, found.unit) == (16.0, Status.OK, "sector/request")
    assert found.counters == tuple(LOADS)
    assert found.formula.startswith("{l1tex__t_sectors_pipe_lsu")


def test_no_requests_is_undefined_not_zero() -> None:
    found = value("sectors_per_load", dict.fromkeys(LOADS, 0.0))
    assert (found.value, found.status) == (None, Status.UNDEFINED)
    assert "requests_pipe_lsu_mem_global_op_ld.sum is 0" in found.reason
    ratio = value(
        "sectors_per_load", {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 0.0}
    )
    assert (ratio.value, ratio.status) == (None, Status.UNDEFINED)


def test_the_next_alternative_answers() -> None:
    found = value(
        "sectors_per_load", {"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 4.0}
    )
    assert (found.value, found.status) == (4.0, Status.OK)


def test_missing_names_the_counters_and_the_option() -> None:
    found = value("sectors_per_load", {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 160.0})
    assert (found.value, found.status) == (None, Status.NOT_COLLECTED)
    assert "ncu --metrics l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum`" in found.reason
    assert "--section MemoryWorkloadAnalysis_Tables" in found.reason
    nan = value("l2_read_bytes", {"lts__t_sectors_srcunit_tex_op_read.sum": None})
    assert nan.status is Status.NOT_COLLECTED


def test_the_ideal_for_the_access_width() -> None:
    modifiers = "sass__inst_executed_per_opcode_with_modifier_all"
    wide = {**LOADS, modifiers: {"LDG.E.128.CONSTANT": 10.0, "FFMA": 99.0}}
    assert value("sectors_per_load", wide).reason == "ideal for the access widths: 16"
    mixed = {
        "LDG.E": 2.0,
        "LDG.E.64": 1.0,
        "LDG.E.U8.CONSTANT": 1.0,
        "LDG.E.LTC128B.128": 4.0,
        "LDGSTS.E.128": 7.0,
    }
    # The hardware counts a cp.async among the requests of global loads: LDGSTS.128 alone, 16 sectors a
    # request on an H200.
    expected = (2 * 4 + 8 + 1 + (4 + 7) * 16) / 15
    assert value("ideal_sectors_per_load", {modifiers: mixed}).value == pytest.approx(expected)
    stores = {"STG.E.128": 3.0, "STG.E.U16": 1.0}
    assert value("ideal_sectors_per_store", {modifiers: stores}).value == (3 * 16 + 2) / 4
    assert "ideal unknown" in value("sectors_per_load", LOADS).reason


def test_impossible_values_are_kept_and_flagged() -> None:
    found = value("achieved_occupancy", {"sm__warps_active.avg.pct_of_peak_sustained_active": (104.7, "%")})
    assert found.status is Status.INVALID
    assert found.value == pytest.approx(1.047)
    assert "outside its possible range 0 to 1" in found.reason


def test_a_launch_that_was_not_collected() -> None:
    found = value("duration", {"gpu__time_duration.sum": (None, "ns")}, collected=False)
    assert (found.value, found.status, found.reason) == (
        None,
        Status.NOT_COLLECTED,
        "the launch was not collected",
    )


def test_what_is_not_on_the_chip() -> None:
    name = "smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio"
    assert value("stall_imc_miss", {name: 0.5}).value == 0.5
    assert value("stall_imc_miss", {}, chip=(12, 0)).status is Status.NOT_ON_CHIP
    assert value("stall_imc_miss", {}, chip=(8, 9)).status is Status.NOT_COLLECTED
    assert value("stall_gmma", {}, chip=(8, 9)).status is Status.NOT_ON_CHIP
    assert value("stall_gmma", {}, chip=(9, 0)).status is Status.NOT_COLLECTED
    # A report that holds it all the same is believed.
    assert value("stall_imc_miss", {name: 0.5}, chip=(12, 0)).value == 0.5


def test_dram_counters_of_12() -> None:
    assert "dram__bytes_op_read.sum" in SETS.counters(["memory"], (12, 0))
    assert "dram__bytes_read.sum" not in SETS.counters(["memory"], (12, 0))
    assert "dram__bytes_read.sum" in SETS.counters(["memory"], (9, 0))
    assert value("dram_read_bytes", {"dram__bytes_op_read.sum": 64.0}, chip=(12, 0)).value == 64.0
    assert {"dram__bytes_op_read.sum", "dram__bytes_read.sum"} <= set(SETS.reading(["memory"]))


STALLS = {"lg_throttle": 3.0, "wait": 2.0, "selected": 1.0, "not_selected": 9.0}
EVERY_STALL = {
    name.removeprefix("stall_"): 0.0 for name in SETS.sets["stalls"].metrics if name.startswith("stall_")
}


def stalls(values: Mapping[str, float]) -> dict[str, float]:
    return {
        f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": one
        for name, one in values.items()
    }


def test_top_stall_is_never_a_state_of_the_scheduler() -> None:
    found = value("top_stall", stalls(STALLS))
    assert (found.value, found.status) == ("lg_throttle", Status.OK)
    assert value("top_stall", stalls({"wait": 2.0, "barrier": 2.0})).value == "barrier, wait"
    assert value("top_stall", {}).status is Status.NOT_COLLECTED


def test_shares_of_stalls_and_the_check_of_their_sum() -> None:
    counters = {**stalls(STALLS), "smsp__average_warp_latency_per_inst_issued.ratio": 15.0}
    assert value("warp_states_sum", counters).value == 15.0
    assert value("stalled_share_lg_throttle", counters).value == 3.0 / 15.0
    assert value("warp_states_check", counters).status is Status.OK
    # A sum that does not meet the warp latency is flagged where it is complete, and no sum where it is not.
    latency = {"smsp__average_warp_latency_per_inst_issued.ratio": 16.0}
    whole = {**stalls({**EVERY_STALL, **STALLS}), **latency}
    assert value("warp_states_check", whole).status is Status.INVALID
    for name in ("warp_states_sum", "warp_states_check", "stalled_share_lg_throttle"):
        part = value(name, {**counters, **latency})
        assert (part.value, part.status) == (None, Status.NOT_COLLECTED)
        assert part.reason.endswith("collect with `ncu --section WarpStateStats`")
    assert "without stall_barrier" in value("warp_states_sum", counters).reason


def test_the_option_for_a_metric_of_several_sections() -> None:
    assert "`--section InstructionStats`" in value("mix_tensor", {}).reason
    # No section of ncu 2025.3 holds what the active fraction needs: no list of sections gives the model.
    assert "--section" not in value("model_share_of_peak", {}).reason
    assert "smsp__cycles_active.sum,smsp__cycles_elapsed.sum" in value("active_fraction", {}).reason
    # One missing counter does not ask for a section of what is there.
    names = SETS.counters(["model_share_of_peak"])
    but_one = {name: 1.0 for name in names if name != "smsp__cycles_elapsed.sum"}
    assert "`ncu --metrics smsp__cycles_elapsed.sum`" in value("model_share_of_peak", but_one).reason
    # What is not collected by default names its counters all the same.
    assert "mem_shared.sum," in value("shared_conflicts_elsewhere", {}).reason


def test_what_6x_answers_by_its_older_counters() -> None:
    def old(name: str, counters: Mapping[str, Any]) -> MetricValue:
        return value(name, counters, chip=(6, 1))

    assert old("duration", {"gpu__time_duration": 5952.0}).value == 5952.0 / 1e9
    assert old("sm_clock", {"gpc__frequency": 1.8e9}).value == 1.8e9
    warps = {
        "sm__active_warps_avg_per_active_cycle": 18.0,
        "device__attribute_num_schedulers_per_multiprocessor": 4,
        "device__attribute_max_warps_per_multiprocessor": 64,
    }
    assert old("active_warps_per_scheduler", warps).value == 4.5
    assert old("achieved_occupancy", warps).value == 18 / 64
    assert "gpc__frequency`" in old("sm_clock", {}).reason
    for name in ("dram_read_bytes", "sectors_per_load", "issue_rate", "warp_latency", "l2_hit_rate"):
        assert old(name, {}).status is Status.NOT_ON_CHIP
    for name in SETS.names():
        found = old(name, {})
        if found.status is Status.NOT_COLLECTED:  # an option that names what 6.x does not have is no help
            assert "smsp__" not in found.reason
            assert "l1tex__" not in found.reason


def test_the_occupancy_limiter_and_its_ties() -> None:
    limits = {"registers": 2.0, "shared_mem": 5.0, "warps": 8.0, "blocks": 32.0, "barriers": 20.0}
    counters = {f"launch__occupancy_limit_{name}": one for name, one in limits.items()}
    assert value("occupancy_limiter", counters).value == "registers"
    assert value("blocks_per_sm", counters).value == 2.0
    counters["launch__occupancy_limit_shared_mem"] = 2.0
    assert value("occupancy_limiter", counters).value == "registers, shared_memory"
    del counters["launch__occupancy_limit_barriers"]
    assert value("blocks_per_sm", counters).value == 2.0
    assert value("occupancy_limiter", counters).reason == "not known: barriers"


PEAK: dict[str, Any] = {
    "smsp__issue_active.sum": 80.0,
    "smsp__cycles_active.sum": 100.0,
    "smsp__cycles_elapsed.sum": 125.0,
    "smsp__inst_executed.sum": 80.0,
    OPCODES: {"FFMA": 60.0, "LDS": 20.0},
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 60.0 * 32,
}


@pytest.mark.parametrize(
    ("chip", "lanes"), [((9, 0), 32), ((8, 9), 32), ((8, 0), 16), ((7, 5), 16), ((7, 0), 16)]
)
def test_the_peak_model(chip: tuple[int, int], lanes: int) -> None:
    """Issue rate x FMA share x active x 32 / lanes x predicated-on lanes = FMA lanes / lane cycles."""
    counters = (
        PEAK if lanes == 32 else {**PEAK, "smsp__cycles_elapsed.sum": 250.0, "smsp__cycles_active.sum": 200.0}
    )
    found = SETS.evaluate(launch(counters, chip)).metrics
    expected = 60.0 * 32 / ((125.0 if lanes == 32 else 250.0) * lanes)
    assert found["share_of_peak"].value == pytest.approx(expected, rel=1e-12)
    assert found["model_share_of_peak"].value == pytest.approx(expected, rel=1e-12)
    assert found["fma_share"].value == 0.75
    assert found["fma_lane_fraction"].value == 1.0


def test_lanes_come_from_the_report_where_it_says() -> None:
    counters = {
        **PEAK,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 64.0 * 10,
        "device__attribute_multiprocessor_count": 10,
        "device__attribute_num_schedulers_per_multiprocessor": 4,
    }
    assert value("share_of_peak", counters, chip=(9, 0)).value == 60.0 * 32 / (125.0 * 16)


def test_a_constant_moved_by_a_half_instruction_is_no_half_precision_work() -> None:
    # A histogram on an H200: one HFMA2.MMA among 15 instructions, and no arithmetic.
    counters = {
        **PEAK,
        OPCODES: {
            "NOP": 0.93 * PEAK["smsp__inst_executed.sum"],
            "HFMA2": 0.07 * PEAK["smsp__inst_executed.sum"],
        },
    }
    counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 0.0
    assert "half-precision" not in value("share_of_peak", counters).reason


@pytest.mark.parametrize(
    ("opcodes", "words"),
    [
        ({"HGMMA": 5.0, "FFMA": 60.0}, "tensor-core"),
        ({"HMMA": 1.0, "FFMA": 60.0}, "tensor-core"),
        ({"UTCHMMA": 1.0}, "tensor-core"),
        ({"DFMA": 41.0, "FFMA": 39.0}, "FP64"),
        ({"HFMA2": 25.0, "HMUL2": 20.0, "FFMA": 30.0}, "half-precision"),
    ],
)
def test_other_work_gets_no_fp32_share(opcodes: dict[str, float], words: str) -> None:
    for name in ("share_of_peak", "model_share_of_peak"):
        counters = {
            **PEAK,
            OPCODES: {"NOP": PEAK["smsp__inst_executed.sum"] - sum(opcodes.values()), **opcodes},
        }
        counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 32 * opcodes.get("FFMA", 0.0)
        found = value(name, counters)
        assert (found.value, found.status) == (None, Status.UNDEFINED)
        assert words in found.reason


def test_a_few_half_moves_are_no_half_work() -> None:
    opcodes = {"FFMA": 60.0, "HFMA2": 3.0, "LDS": 17.0}
    assert value("share_of_peak", {**PEAK, OPCODES: opcodes}).status is Status.OK


def test_next_to_no_fmas_and_no_word_of_the_tensor_cores() -> None:
    """Without opcode counts a tensor-core kernel must not pass for a slow FP32 one."""
    counters = {name: one for name, one in PEAK.items() if name != OPCODES}
    assert value("share_of_peak", counters).status is Status.OK
    counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 32.0
    found = value("share_of_peak", counters)
    assert (found.value, found.status) == (None, Status.UNDEFINED)
    assert "sm__inst_executed_pipe_tensor.sum" in found.reason
    idle = {
        "sm__inst_executed_pipe_tensor.sum": 7.0,
        "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum": 7.0,
    }
    assert value("share_of_peak", {**counters, **idle}).status is Status.OK
    assert value("tensor_instructions", {**counters, **idle}).value == 0.0
    assert "tensor-core" in value("share_of_peak", {**counters, **idle}, chip=(8, 9)).reason


def test_packed_fmas_count_as_one_instruction_and_two_fmas() -> None:
    counters = {**PEAK, OPCODES: {"FFMA2": 40.0, "LDS": 40.0}}
    counters["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 80.0 * 32
    found = SETS.evaluate(launch(counters, (10, 0))).metrics
    assert found["fma_share"].value == 0.5
    assert found["fma_lane_fraction"].value == 1.0
    assert found["model_share_of_peak"].value == pytest.approx(80.0 * 32 / (125.0 * 32))


def test_the_mix_is_complete() -> None:
    counters = {OPCODES: {"FFMA": 10.0, "LDS": 5.0, "MOV": 3.0, "BAR": 1.0, "BRA": 1.0}}
    found = SETS.evaluate(launch(counters)).metrics
    mix = {name: one.value for name, one in found.items() if name.startswith("mix_")}
    assert mix["mix_other"] == pytest.approx(0.15)
    assert sum(float(one) for one in mix.values() if one is not None) == pytest.approx(1.0)


SOME_OPCODES = [
    *(
        "FFMA",
        "FMUL",
        "DFMA",
        "HFMA2",
        "HMMA",
        "IMAD",
        "IADD3",
        "UIADD3",
        "LDS",
        "STS",
        "LDG",
        "STG",
        "LDGSTS",
    ),
    *("BAR", "BRA", "MOV", "S2R", "SHFL", "LDC", "R2UR", "F2F", "ATOMS", "RED", "EXIT", "NEWOPCODE"),
]


@given(st.dictionaries(st.sampled_from(SOME_OPCODES), st.integers(0, 10**9).map(float), min_size=1))
def test_no_opcode_is_counted_twice(opcodes: dict[str, float]) -> None:
    found = SETS.evaluate(launch({OPCODES: opcodes})).metrics
    mix = [one for name, one in found.items() if name.startswith("mix_")]
    if sum(opcodes.values()) == 0:
        assert {one.status for one in mix} == {Status.UNDEFINED}
    else:
        assert all(-1e-12 <= one.number <= 1 + 1e-12 for one in mix)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda one: f"{one[0]}.{one[1]}")
def test_every_formula_of_every_chip_evaluates(chip: tuple[int, int]) -> None:
    """Each alternative alone, on made-up counters: it gives a number, and reads only what it declares."""
    for metric in SETS.metrics.values():
        for alternative in metric.alternatives:
            read: list[str] = []

            class Made:
                def counter(self, name: str, read: list[str] = read) -> Counter:
                    read.append(name)
                    return Counter(name, 6.0, "", instances=tuple(EVERY_KIND.items()))

                def metric(self, name: str) -> float:
                    assert name in SETS.metrics
                    return 3.0

                def device(self, name: str) -> float:
                    # What ncu measures of a chip is known of some only: 1 stands for it here.
                    return float(load_devices()[f"{chip[0]}.{chip[1]}"].get(name, 1.0))

            number = alternative.expression.compute(Made())
            assert isinstance(number, float)
            assert set(read) <= set(alternative.expression.counters)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda one: f"{one[0]}.{one[1]}")
def test_what_is_collected_answers_every_metric(chip: tuple[int, int]) -> None:
    """With every counter that `counters()` names (and the device attributes) nothing is uncollected."""
    counters: dict[str, Any] = {
        "device__attribute_multiprocessor_count": 10,
        "device__attribute_num_schedulers_per_multiprocessor": 4,
        "device__attribute_max_warps_per_multiprocessor": 64,
        "device__attribute_max_warps_per_scheduler": 16,
    }
    for name in SETS.counters(None, chip):
        counters[name] = (
            {"FFMA": 8.0, "LDS": 2.0, "LDG.E": 1.0, "STG.E": 1.0, "STS": 1.0}
            if name.startswith("sass__")
            else 4.0
        )
    found = SETS.evaluate(launch(counters, chip))
    lacking = [name for name, one in found.metrics.items() if one.status is Status.NOT_COLLECTED]
    # What is not worth a counter of its own says so.
    assert [name for name in lacking if SETS.metrics[name].collect != ()] == []
    left_out = {"shared_conflicts_elsewhere", "l2_atomic_bytes", "l1_global_hit_rate"}
    assert set(lacking) == (left_out if chip >= (7, 0) else set())


def test_the_counters_for_ncu_are_few_and_plain() -> None:
    """Twelve replay passes hold about so many; each name is one that `ncu --metrics` takes."""
    names = SETS.counters(None, (9, 0))
    assert len(names) == len(set(names)) < 90
    assert not [name for name in names if name.startswith(("device__", "profiler__", "memory_"))]
    needed = {"smsp__issue_active.sum", "smsp__cycles_active.sum", "smsp__cycles_elapsed.sum", OPCODES}
    assert needed <= set(SETS.counters(["issue"], (9, 0)))
