"""Measurements made by hand, with numbers that can be checked in the head: two kernels and a reference."""

from __future__ import annotations

from collections.abc import Mapping

from perfkit.model import (
    Counter,
    Evaluated,
    GpuInfo,
    KernelRun,
    Launch,
    LaunchId,
    MetricValue,
    RunRecord,
    Status,
)

GPU = "Test GPU"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"


def launch(
    index: int,
    key: str | None,
    *,
    kernel: str = "kernel",
    problem: str = "n=1000",
    report: str = "run/p.ncu-rep",
    gpu: str = GPU,
    collected: bool = True,
    counters: Mapping[str, float] | None = None,
) -> Launch:
    held = counters or {}
    return Launch(
        id=LaunchId(report, 0, index),
        kernel=kernel,
        name=f"{kernel}(float*)",
        gpu=gpu,
        compute_capability=(9, 0),
        ncu_version="2025.3.1",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        collected=collected,
        key=key,
        problem=problem,
        counters={
            name: Counter(name, value, "ns" if "time_duration" in name else "inst")
            for name, value in held.items()
        },
    )


def metric(name: str, value: float | str | None, unit: str = "", reason: str = "") -> MetricValue:
    status = Status.OK if value is not None else Status.NOT_COLLECTED
    return MetricValue(name, value, unit, status, reason, f"formula of {name}", (FFMA,))


def evaluated(one: Launch, **values: float | str | None) -> Evaluated:
    fractions = ("issue_rate", "fma_share", "active_fraction", "share_of_peak", "model_share_of_peak")
    units = {"duration": "s", "dram_read_bytes": "byte", "dram_write_bytes": "byte", "l2_read_bytes": "byte"}
    units |= dict.fromkeys(fractions, "fraction")
    return Evaluated(one, {name: metric(name, value, units.get(name, "")) for name, value in values.items()})


def ladder() -> list[Evaluated]:
    """k1 and k2 and cublas at n=1000: 2e9 FLOP in 2, 1 and 0.5 ms."""
    found = []
    for index, (key, duration, rate) in enumerate(
        (("k1", 2e-3, 0.2), ("k2", 1e-3, 0.4), ("cublas", 5e-4, 0.8))
    ):
        found.append(
            evaluated(
                launch(
                    index,
                    key,
                    counters={
                        FFMA: 1e9,
                        FFMA.replace("ffma", "fadd"): 0.0,
                        FFMA.replace("ffma", "fmul"): 0.0,
                        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 1000.0,
                        "sm__cycles_elapsed.avg.per_second": 2e9,
                        "launch__sm_count": 10.0,
                        "device__attribute_memory_clock_rate": 1e6,
                        "device__attribute_global_memory_bus_width": 800.0,
                        "l1tex__data_pipe_lsu_wavefronts.sum": 1e6,
                    },
                ),
                duration=duration,
                issue_rate=rate,
                fma_share=0.5,
                active_fraction=0.9,
                share_of_peak=rate * 0.45,
                model_share_of_peak=rate * 0.45 + 0.0005,
                dram_read_bytes=6e6,
                dram_write_bytes=2e6,
                l2_read_bytes=4e7,
                l2_write_bytes=0.0,
                instructions=1e8,
                sectors_per_load=16.5,
                top_stall="lg_throttle",
                shared_load_conflicts=None,
            )
        )
    return found


def run(
    what: str, labels: tuple[str, ...] = ("k1", "k2", "cublas"), path: str = "", **times: float
) -> RunRecord:
    """A run of these kernels; `times` in seconds make it a bench run."""
    results = tuple(
        {
            "kind": "bench",
            "label": label,
            "problem": "n=1000",
            "title": f"title of {label}",
            "protocol": "quick",
            "cache": "hot",
            "time": time,
            "flop_rate": 2e9 / time,
            "sm_clock": 2e9,
            "power": 300.0,
            "share_of_peak": 2e9 / time / 4e12,
        }
        for label, time in times.items()
    )
    kernels = tuple(
        KernelRun(label, label, f"title of {label}", "n=1000", {"n": 1000}, 2e9, 1.2e7) for label in labels
    )
    return RunRecord(
        id=what,
        what=what,
        status="complete",
        command=("perfkit", what),
        started="2026-01-01T00:00:00Z",
        ended="2026-01-01T00:01:00Z",
        perfkit_version="0.1.0",
        gpu=GpuInfo(GPU, "GPU-1", (9, 0), 10),
        versions={},
        options={},
        kernels=kernels,
        results=results,
        path=path or what,
    )


def bench() -> RunRecord:
    return run("bench", k1=2.5e-3, k2=1.25e-3, cublas=1e-3)
