"""`perfkit explain` and `perfkit check` on reports from the field: output, exit codes, errors without
traceback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAIVE, COALESCED = "gtx-1660-super_7bc2a7", "gtx-1660-super_957240"


def perfkit(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "perfkit", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160"},
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_pair_of_reports(corpus: Any, tmp_path: Path) -> None:
    figure = tmp_path / "w.svg"
    done = perfkit("explain", corpus.find(NAIVE), corpus.find(COALESCED), "--figure", figure)
    assert done.returncode == 0, done.stderr
    first, reason = done.stdout.splitlines()[:2]
    assert first == "naive_gemm (2 launches) -> sgemm_global_mem_coalesce (2 launches): faster"
    assert reason.startswith("Reason: -3.0% in time")
    assert "LG throttle 23.9 -> 22.9 cycles per issue" in done.stdout
    assert "Instructions where the stalls grew and fell most" in done.stdout
    assert "LG throttle" in figure.read_text()


def test_json_goes_to_a_file(corpus: Any, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    done = perfkit(
        "explain", f"{corpus.find(NAIVE)}:0", f"{corpus.find(COALESCED)}:1", "--format", "json", "-o", output
    )
    assert (done.returncode, done.stdout) == (0, "")
    (result,) = json.loads(output.read_text())["results"]
    assert result["verdict"]["kind"] == "faster"
    assert (result["a"]["launch"]["launch"], result["b"]["launch"]["launch"]) == (0, 1)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ("a100-pcie-40gb_905ff7", NAIVE, "was not collected"),
        (NAIVE, "tesla-t4_b4d31e", "counters of different chips"),
        ("cc86_a40_317662.ncu-rep:0", "cc86_a40_317662.ncu-rep:1", "tensor-core work"),
        ("cc86_a40_317662.ncu-rep:9", NAIVE, "holds no launch 9"),
    ],
)
def test_refusals_exit_with_2(corpus: Any, a: str, b: str, said: str) -> None:
    def path(text: str) -> str:
        return str(corpus.folder / text) if ":" in text else str(corpus.find(text))

    done = perfkit("explain", path(a), path(b))
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.splitlines()) >= 2  # what happened, and what to do


def test_the_gate_on_a_field_report(corpus: Any, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        """baseline = "base.json"
[[rule]]
metric = "registers_per_thread"
op = "unchanged"
[[rule]]
kernel = "naive_gemm"
metric = "sectors_per_load"
op = "<="
value = 2.6
"""
    )
    report = corpus.find(NAIVE)
    before = perfkit("check", report, "--rules", rules)
    assert before.returncode == 1
    assert "2 of 4 checks" in before.stderr
    told = "registers_per_thread is 51, to be compared with the baseline: there is no baseline yet"
    assert told in before.stderr
    assert perfkit("check", report, "--rules", rules, "--update-baseline").returncode == 0
    recorded = json.loads((tmp_path / "base.json").read_text())["launches"]
    assert [(one["kernel"], one["values"]["registers_per_thread"]["value"]) for one in recorded] == [
        ("naive_gemm", 51.0),
        ("naive_gemm", 51.0),
    ]
    assert perfkit("check", report, "--rules", rules).returncode == 0
    rules.write_text(rules.read_text().replace("2.6", "2.4"))
    after = perfkit("check", report, "--rules", rules, "--format", "json")
    assert after.returncode == 1
    assert "sectors_per_load is 2.5, required <= 2.4" in after.stderr
    outcomes = [row["result"]["value"] for row in json.loads(after.stdout)["tables"][0]["rows"]]
    assert outcomes == ["ok", "ok", "FAILED", "FAILED"]


def test_a_wrong_rules_file_exits_with_2(corpus: Any, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nmetric = "sector_per_load"\nop = "<"\nvalue = 1\n')
    done = perfkit("check", corpus.find(NAIVE), "--rules", rules)
    assert done.returncode == 2
    assert "rules.toml:1: rule 1: unknown metric 'sector_per_load'" in done.stderr
    assert "Did you mean sectors_per_load" in done.stderr
