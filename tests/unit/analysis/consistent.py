"""Made-up launches whose counters are consistent with one another: one set of facts, told in every way that a
metric's formula reads.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from perfkit.analysis.definitions import load_devices
from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.opcode_classes import fmas, opcode_class
from perfkit.model import Counter, Launch, LaunchId

STALLS = [
    name.removeprefix("stall_")
    for name in load_metric_sets().sets["stalls"].metrics
    if name.startswith("stall_")
]
PLAIN = [
    "FFMA",
    "FADD",
    "IMAD",
    "LDG.E.128",
    "LDG.E",
    "STG.E.64",
    "LDS.128",
    "STS",
    "BAR.SYNC",
    "BRA",
    "HMMA",
]
BLOCKS, WARPS = 64, 8  # of the grid; of a block
RICH = [*PLAIN, "FFMA2", "FHFMA2", "LDGSTS.E.BYPASS.128", "UBLKCP.S.G", "LDSM.16.M88.4", "STG.E.U8", "DFMA"]


def launch(chip: str, seed: int, *, rich: bool) -> Launch:
    """A launch of a chip of devices.toml, with every counter that a formula of that chip reads.

    Rich: packed FMAs, lanes and whole instructions predicated off, waits that poll, SMSPs that idle while
    their SM works, matrix loads, atomics, traffic within clusters, GPCs that tick longer than their SMs, an
    L2 in two halves. Plain: none of these, so that even the
    alternatives that can differ do not.
    """
    made = _Facts(chip, random.Random(seed), rich)
    counters = made.counters()
    major, minor = (int(part) for part in chip.split("."))
    return Launch(
        LaunchId("made.ncu-rep", 0, 0), "k", "k()", "GPU", (major, minor), "2025.3.1.0", (BLOCKS, 1, 1),
        (32 * WARPS, 1, 1), True, counters={name: _counter(name, value) for name, value in counters.items()},
    )  # fmt: skip


def _counter(name: str, value: Any) -> Counter:
    if isinstance(value, Mapping):
        return Counter(name, float(sum(value.values())), "inst", instances=tuple(value.items()))
    if isinstance(value, tuple):
        return Counter(name, *value)
    return Counter(name, value, "")


class _Facts:
    """What a made-up launch did."""

    def __init__(self, chip: str, chance: random.Random, rich: bool) -> None:
        figures = load_devices()[chip]
        self._clusters = int(chip.split(".")[0]) >= 9
        self._figures = {name: float(value) for name, value in figures.items() if name != "name"}
        self._rich = rich
        self._chance = chance
        self.sms = chance.randint(2, 200)
        self.smsps = self.sms * self._figures["smsps_per_sm"]
        self.elapsed = float(chance.randint(10_000, 1_000_000))
        self.sm_active = self.elapsed * chance.uniform(0.5, 1.0)
        self.smsp_active = self.sm_active * (0.9 if rich else 1.0)
        self.seconds = self.elapsed / 1.5e9
        self.resident = min(
            self._figures["max_blocks_per_sm"], self._figures["max_warps_per_sm"] // WARPS, 3.0
        )
        self.warps = chance.uniform(1.0, self.resident * WARPS / self._figures["smsps_per_sm"])
        budget = self.smsp_active * self.smsps * chance.uniform(0.1, 0.9)
        names = RICH if rich else PLAIN
        weights = [chance.random() + 0.1 for _ in names]
        self.modified = {
            name: float(round(budget * weight / sum(weights)) + 1)
            for name, weight in zip(names, weights, strict=True)
        }
        self.modified["EXIT"] = float(BLOCKS * WARPS)  # every warp ends
        self.opcodes: dict[str, float] = {}
        for name, count in self.modified.items():
            base = name.split(".")[0]
            self.opcodes[base] = self.opcodes.get(base, 0.0) + count
        polls = 1000.0 if rich else 0.0  # how often a wait looks again differs from pass to pass
        self.instructions = sum(self.opcodes.values()) + polls
        self.lanes_on = 0.75 if rich else 1.0
        # Every warp is in one state in every cycle; it issues in as many as there are instructions.
        total = self.warps * self.smsp_active * self.smsps
        shares = {reason: chance.random() for reason in STALLS if reason != "selected"}
        rest = (total - self.instructions) / sum(shares.values())
        self.warp_cycles = {reason: rest * share for reason, share in shares.items()}
        if "selected" in STALLS:
            self.warp_cycles["selected"] = self.instructions
        self.eligible = self.instructions + self.warp_cycles["not_selected"]
        self.true = {name: 32 * self.lanes_on * count for name, count in self.opcodes.items()}

    def counters(self) -> dict[str, Any]:
        found = {**self._device(), **self._issue(), **self._memory(), **self._shared(), **self._stalls()}
        for name in load_metric_sets().reading(None):
            # What only one formula reads cannot contradict another.
            found.setdefault(name, 1.0)
        return found

    def _device(self) -> dict[str, Any]:
        of = self._figures
        warps, blocks = float(WARPS), self.resident
        peak = of["fp32_lanes_per_sm"]
        limits = ("blocks", "registers", "shared_mem", "warps", "barriers")
        return {
            "device__attribute_multiprocessor_count": self.sms,
            "device__attribute_num_schedulers_per_multiprocessor": of["smsps_per_sm"],
            "device__attribute_max_warps_per_multiprocessor": of["max_warps_per_sm"],
            "device__attribute_max_warps_per_scheduler": of["max_warps_per_sm"] / of["smsps_per_sm"],
            "launch__block_size": 32 * warps,
            "launch__registers_per_thread": 64,
            "launch__grid_size": BLOCKS,
            **{f"launch__occupancy_limit_{name}": blocks for name in limits},
            "sm__maximum_warps_avg_per_active_cycle": blocks * warps,
            "sm__maximum_warps_per_active_cycle_pct": (100 * blocks * warps / of["max_warps_per_sm"], "%"),
            "sm__sass_thread_inst_executed_op_ffma_pred_on.avg.peak_sustained": peak,
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": peak * self.sms,
        }

    def _issue(self) -> dict[str, Any]:
        of = self._figures
        per_scheduler = self.warps
        per_sm = per_scheduler * of["smsps_per_sm"] * self.smsp_active / self.sm_active
        lanes = sum(fmas(opcode) * threads for opcode, threads in self.true.items())
        slots = 100 * self.instructions / (self.smsps * self.elapsed)
        gpc = self.elapsed * (1.02 if self._rich else 1.0)
        clock = self.elapsed / self.seconds
        rate = self.instructions / (self.smsps * self.smsp_active)
        tensor = sum(count for opcode, count in self.opcodes.items() if opcode_class(opcode) == "tensor")
        return {
            "gpu__time_duration.sum": (1e9 * self.seconds, "ns"),
            "gpu__time_duration.avg": (1e9 * self.seconds, "ns"),
            "gpu__time_duration": 1e9 * self.seconds,
            "smsp__cycles_elapsed.avg.per_second": clock,
            "sm__cycles_elapsed.avg.per_second": clock,
            "gpc__cycles_elapsed.avg.per_second": clock,
            "gpc__frequency": clock,
            "sm__cycles_elapsed.avg": self.elapsed,
            "sm__cycles_elapsed.max": gpc,
            "gpc__cycles_elapsed.max": gpc,
            "smsp__cycles_elapsed.avg": self.elapsed,
            "smsp__cycles_elapsed.sum": self.elapsed * self.smsps,
            "sm__cycles_active.avg": self.sm_active,
            "smsp__cycles_active.avg": self.smsp_active,
            "smsp__cycles_active.sum": self.smsp_active * self.smsps,
            "smsp__inst_executed.sum": self.instructions,
            "smsp__inst_issued.sum": self.instructions,
            "smsp__issue_active.sum": self.instructions,
            "smsp__issue_active.avg.per_cycle_active": rate,
            "smsp__issue_active.avg.pct_of_peak_sustained_active": (100 * rate, "%"),
            "sm__inst_executed.avg.pct_of_peak_sustained_elapsed": (slots, "%"),
            "sm__inst_executed.avg.pct_of_peak_sustained_active": (
                slots * self.elapsed / self.sm_active,
                "%",
            ),
            "sm__issue_active.avg.pct_of_peak_sustained_elapsed": (slots, "%"),
            "sass__inst_executed_per_opcode": self.opcodes,
            "sass__inst_executed_per_opcode_with_modifier_all": self.modified,
            "sass__thread_inst_executed_true_per_opcode": self.true,
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": lanes,
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": lanes / self.elapsed,
            **{
                f"smsp__sass_thread_inst_executed_op_{name.lower()}_pred_on.sum{kind}": threads / cycles
                for name in ("FADD", "FMUL", "DFMA")
                for threads in [self.true.get(name, 0.0)]
                for kind, cycles in (("", 1.0), (".per_cycle_elapsed", self.elapsed))
            },
            "sm__inst_executed_pipe_tensor.sum": tensor,
            "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum": 0.0,
            "smsp__warps_active.avg.per_cycle_active": per_scheduler,
            "smsp__warps_active.sum": per_scheduler * self.smsp_active * self.smsps,
            "sm__warps_active.avg.per_cycle_active": per_sm,
            "sm__active_warps_avg_per_active_cycle": per_sm,
            "sm__warps_active.avg.pct_of_peak_sustained_active": (100 * per_sm / of["max_warps_per_sm"], "%"),
            "smsp__warps_eligible.avg.per_cycle_active": self.eligible / (self.smsp_active * self.smsps),
            "smsp__warps_eligible.sum": self.eligible,
        }

    def _memory(self) -> dict[str, Any]:
        read, stored = (float(self._chance.randint(1000, 10**6)) for _ in range(2))
        returned, reduced = (500.0, 250.0) if self._rich else (0.0, 0.0)
        into = read + returned  # sectors that reached L1, what atomics return among them
        out = stored + returned + reduced
        asked = into * (0.9 if self._rich else 1.0)
        cluster = 700.0 if self._rich and self._clusters else 0.0  # between the SMs of a cluster
        ticks = self.sms * self.elapsed
        port = self._figures.get("xbar_read_sectors_per_cycle", 1.0) * ticks
        found: dict[str, Any] = {
            "l1tex__m_xbar2l1tex_read_bytes.sum": 32 * (into + cluster),
            "l1tex__m_xbar2l1tex_read_bytes_mem_dshared.sum": 32 * cluster,
            "l1tex__m_xbar2l1tex_read_sectors.sum": into + cluster,
            "l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed": (
                100 * (into + cluster) / port,
                "%",
            ),
            "l1tex__m_xbar2l1tex_read_sectors_mem_dshared.avg.pct_of_peak_sustained_elapsed": (
                100 * cluster / (self._figures.get("dshared_read_sectors_per_cycle", 1.0) * ticks),
                "%",
            ),
            "l1tex__m_xbar2l1tex_read_bytes_pipe_lsu.sum": 32 * into,
            "lts__t_sectors_srcunit_tex_op_read.sum": asked,
            "lts__t_bytes_srcunit_tex_op_read.sum": 32 * asked,
            "lts__t_bytes_srcunit_tex_op_read": 32 * asked,
            "l1tex__m_l1tex2xbar_write_bytes.sum": 32 * (out + cluster),
            "l1tex__m_l1tex2xbar_write_bytes_mem_dshared.sum": 32 * cluster,
            "l1tex__m_l1tex2xbar_write_sectors.sum": out + cluster,
            "l1tex__m_l1tex2xbar_write_bytes_pipe_lsu.sum": 32 * out,
            "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_atom.sum": returned,
            "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_red.sum": reduced,
            "lts__t_sectors_srcunit_tex_op_write.sum": stored,
            "lts__t_bytes_srcunit_tex_op_write.sum": 32 * stored,
            "lts__t_sectors_srcunit_tex_op_red.sum": reduced,
            "lts__t_sectors_srcunit_tex_op_atom.sum": returned,
            "lts__t_sectors_srcunit_tex_op_atom_dot_alu.sum": 0.6 * returned,
            "lts__t_sectors_srcunit_tex_op_atom_dot_cas.sum": 0.4 * returned,
            "l1tex__t_sector_hit_rate.pct": (30.0, "%"),
            "lts__t_sectors.sum": 10 * read,
            "lts__t_sectors_lookup_hit.sum": 4 * read,
            "lts__t_sector_hit_rate.pct": (40.0, "%"),
            "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": (25.0, "%"),
        }
        for kind, sectors in (("ld", 16.0), ("st", 4.0)):
            requests = float(self._chance.randint(1, 10**6))
            name = f"pipe_lsu_mem_global_op_{kind}"
            found[f"l1tex__t_requests_{name}.sum"] = requests
            found[f"l1tex__t_sectors_{name}.sum"] = sectors * requests
            found[f"l1tex__t_sectors_{name}_lookup_hit.sum"] = 0.25 * sectors * requests
            found[f"l1tex__average_t_sectors_per_request_{name}.ratio"] = sectors
        every = 10.0 * sum(
            found[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{kind}.sum"] for kind in ("ld", "st")
        )
        found["l1tex__t_sectors.sum"] = every
        found["l1tex__t_sectors_lookup_hit.sum"] = 0.3 * every
        for kind in ("read", "write"):
            sectors = float(self._chance.randint(1, 10**6))
            for name in (f"dram__bytes_{kind}", f"dram__bytes_op_{kind}"):
                found[f"{name}.sum"] = 32 * sectors
            for name in (f"dram__sectors_{kind}", f"dram__sectors_op_{kind}"):
                found[f"{name}.sum"] = sectors
        return found

    def _shared(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind, opcode, words in (("ld", "LDS", "loads"), ("st", "STS", "stores")):
            executed = self.opcodes[opcode] * (0.8 if self._rich else 1.0)
            found[f"smsp__sass_inst_executed_op_shared_{kind}.sum"] = executed
            found[f"sass__inst_executed_shared_{words}"] = executed
            found[f"smsp__inst_executed_op_shared_{kind}.sum"] = self.opcodes[opcode]
            found[f"smsp__sass_inst_executed_op_local_{kind}.sum"] = 0.0
            matrix = self.opcodes.get("LDSM", 0.0) if kind == "ld" else 0.0
            found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum"] = 2 * (executed + 0.9 * matrix)
        found["smsp__sass_inst_executed_op_ldsm.sum"] = 0.9 * self.opcodes.get("LDSM", 0.0)
        found["smsp__inst_executed_op_ldgsts.sum"] = self.opcodes.get("LDGSTS", 0.0)
        found["smsp__inst_executed_op_ldsm.sum"] = self.opcodes.get("LDSM", 0.0)
        return found

    def _stalls(self) -> dict[str, Any]:
        total = sum(self.warp_cycles.values())
        found: dict[str, Any] = {
            "smsp__average_warp_latency_per_inst_issued.ratio": total / self.instructions
        }
        for reason, cycles in self.warp_cycles.items():
            ratio = cycles / self.instructions
            found[f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"] = ratio
            found[f"smsp__warps_issue_stalled_{reason}.sum"] = cycles
            share = f"smsp__warp_issue_stalled_{reason}_per_warp_active.pct"
            found[share] = (100 * cycles / total, "%")
        return found
