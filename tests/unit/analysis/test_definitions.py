"""Metric files: what they may say, and how a wrong one is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.analysis.definitions import load_definitions, load_devices
from perfkit.analysis.metrics import load_metric_sets
from perfkit.errors import ConfigError, UsageError

Write = Callable[..., Path]
HEAD = 'title = "T"\ndoc = "D"\n'
FIELDS = 'title = "T"\nunit = ""\ndoc = "D"\n'


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str, name: str = "own.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def error_of(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_metric_sets([path])
    assert str(path) in caught.value.message
    assert caught.value.remedy
    return caught.value.message


def test_the_built_in_sets() -> None:
    sets = load_metric_sets()
    assert set(sets.sets) == {"launch", "memory", "shared", "issue", "stalls"}
    for metric in sets.metrics.values():
        assert metric.doc.endswith((".", ")")), metric.name
        assert metric.title


DESIGN_NAMES = {
    "launch": "registers_per_thread shared_bytes_per_block block_size grid_size waves_per_sm blocks_per_sm"
    " theoretical_occupancy achieved_occupancy occupancy_limiter",
    "memory": "sectors_per_load sectors_per_store l1_hit_rate l2_hit_rate l2_read_bytes l2_write_bytes"
    " dram_read_bytes dram_write_bytes",
    "shared": "shared_load_conflicts shared_store_conflicts wavefronts_per_shared_load"
    " wavefronts_per_shared_store fma_per_shared_load",
    "issue": "issue_rate fma_share active_fraction instructions active_warps_per_scheduler"
    " eligible_warps_per_scheduler duration sm_clock share_of_peak model_share_of_peak",
    "stalls": "top_stall stall_long_scoreboard stall_lg_throttle stall_mio_throttle stall_not_selected"
    " stall_selected stall_gmma stall_imc_miss",
}


@pytest.mark.parametrize("name", DESIGN_NAMES)
def test_the_names_that_json_rules_and_claims_use(name: str) -> None:
    assert set(DESIGN_NAMES[name].split()) <= set(load_metric_sets().sets[name].metrics)


def test_a_user_set_joins(write: Write) -> None:
    path = write(HEAD + f'[metrics.twice]\n{FIELDS}formula = "2 * issue_rate"\n')
    sets = load_metric_sets([path])
    assert sets.sets["own"].metrics == ("twice",)
    assert set(sets.counters(["own"])) == {"smsp__issue_active.sum", "smsp__cycles_active.sum"}


def test_a_folder_of_sets(write: Write, tmp_path: Path) -> None:
    write(HEAD + f'[metrics.a1]\n{FIELDS}formula = "1"\n', "one.toml")
    write(HEAD + f'[metrics.a2]\n{FIELDS}formula = "2"\n', "two.toml")
    assert {"one", "two"} <= set(load_metric_sets([tmp_path]).sets)


def test_an_unknown_name_is_told_with_near_ones(write: Write) -> None:
    message = error_of(write(HEAD + f'[metrics.mine]\n{FIELDS}formula = "isue_rate * 2"\n'))
    assert "metric 'mine'" in message
    assert "unknown name 'isue_rate'" in message
    assert "did you mean issue_rate" in message


def test_an_unknown_figure_is_told_with_near_ones(write: Write) -> None:
    message = error_of(write(HEAD + f'[metrics.mine]\n{FIELDS}formula = "device.fp32_lane_per_sm"\n'))
    assert "device.fp32_lane_per_sm" in message
    assert "fp32_lanes_per_sm" in message


def test_an_unknown_key_is_told_with_line_and_near_ones(write: Write) -> None:
    message = error_of(write(HEAD + f'\n[metrics.mine]\n{FIELDS}formual = "1"\n'))
    assert ":4, metric 'mine'" in message
    assert "unknown key 'formual' (did you mean formula?)" in message


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('title = "T"\nunit = ""\nformula = "1"\n', "doc is missing"),
        (FIELDS, "one of formula, pick and sum"),
        (FIELDS + 'formula = "{a} **"\n', "is no formula"),
        (FIELDS + 'formula = "exec(1)"\n', "is not allowed"),
        (FIELDS + 'formula = "mine + 1"\n', "needs itself: mine -> mine"),
        (FIELDS + 'formula = "1"\nrange = [0, "x"]\n', "unknown name 'x'"),
        (FIELDS + 'formula = "1"\nrange = [0]\n', "range must be two numbers or formulas"),
        (FIELDS + 'formula = "{a}[class:intger]"\n', "unknown class of opcodes 'intger'"),
        (FIELDS + 'formula = "{a}[class:fma@fma]"\n', "unknown figure of an opcode 'fma'"),
        (FIELDS + 'formula = [{ formula = "1", nota = "x" }]\n', "unknown key 'nota' (did you mean note?)"),
        (FIELDS + 'formula = [{ formula = "1", where = "issue_rate" }]\n', "belong together"),
        (FIELDS + "formula = 3\n", "formula"),
        (FIELDS + 'formula = "1"\nrefuse = [{ when = "issue_rate" }]\n', "KeyError 'reason'"),
        (FIELDS + 'formula = "1"\nrefuse = 5\n', "TypeError"),
    ],
)
def test_a_wrong_metric(write: Write, entry: str, words: str) -> None:
    assert words in error_of(write(f"{HEAD}[metrics.mine]\n{entry}"))


def test_wrong_toml_names_the_line(write: Write) -> None:
    assert "line 3" in error_of(write(HEAD + "title = x\n"))


def test_a_metric_that_exists_already(write: Write) -> None:
    message = error_of(write(HEAD + f'[metrics.issue_rate]\n{FIELDS}formula = "1"\n'))
    assert "'issue_rate' is already defined in" in message
    assert "issue.toml" in message


def test_a_missing_file(tmp_path: Path) -> None:
    assert "no such file" in error_of(tmp_path / "gone.toml")


def test_a_chip_file_of_ones_own(write: Write) -> None:
    path = write(
        '[[chip]]\ncompute_capability = ["9.0"]\nabsent = { duration = "for the test" }\n', "chips.toml"
    )
    definitions = load_definitions([path])
    assert definitions.chips[-1].absent == {"duration": "for the test"}
    assert definitions.chips[-1].applies_to((9, 0))
    assert not definitions.chips[-1].applies_to((8, 9))


def test_a_chip_file_that_names_nothing(write: Write) -> None:
    path = write('[[chip]]\ncompute_capability = ["9.0"]\nabsent = { durration = "x" }\n', "chips.toml")
    assert "no metric matches 'durration' (did you mean duration" in error_of(path)


def test_asking_for_a_set_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match=r"'memry' \(did you mean memory"):
        load_metric_sets().names(["memry"])


def test_every_device_has_the_same_figures() -> None:
    devices = load_devices()
    measured = {"xbar_read_sectors_per_cycle", "dshared_read_sectors_per_cycle"}  # NVIDIA publishes neither
    keys = [set(figures) - measured for figures in devices.values()]
    assert all(one == keys[0] for one in keys)
    known = "6.1 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 10.0 10.1 10.3 11.0 12.0 12.1"
    assert set(known.split()) <= set(devices)
    assert {figures["smsps_per_sm"] for chip, figures in devices.items() if chip != "6.0"} == {4}
    # The Programming Guide's table of resident warps and blocks, and of shared memory, per SM.
    figures = ("max_warps_per_sm", "max_blocks_per_sm", "shared_bytes_per_sm")
    kib = {chip: tuple(devices[chip][one] for one in figures) for chip in known.split()}
    assert kib["7.2"] == (64, 32, 96 * 1024)
    assert kib["8.7"] == (48, 16, 164 * 1024)
    assert kib["10.1"] == kib["11.0"] == (48, 24, 228 * 1024)
    assert kib["10.0"] == kib["10.3"] == kib["9.0"] == (64, 32, 228 * 1024)
    assert kib["12.0"] == kib["12.1"] == (48, 24, 100 * 1024)
