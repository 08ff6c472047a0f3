"""Every launch of every field report is accounted for, against the index that came with them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfkit.analysis.metrics import load_metric_sets
from perfkit.analysis.report import read_reports
from perfkit.model import Report, Status

if TYPE_CHECKING:
    from .conftest import Corpus

NOT_COLLECTED = {
    "cc80_a100-pcie-40gb_905ff7.ncu-rep": [0],
    "cc86_a10g_be34af.ncu-rep": [5],
    "cc90_h800_3a0513.ncu-rep": [4],
    "cc120_rtx-5060-ti_bf1d76.ncu-rep": [44],
}


@pytest.fixture(scope="module")
def reports(corpus: Corpus) -> dict[str, Report]:
    read = read_reports(corpus.files(), load_metric_sets().reading())
    return {Path(report.path).name: report for report in read}


def test_every_launch_is_there(corpus: Corpus, reports: dict[str, Report]) -> None:
    assert len(reports) == len(corpus.index) == 36
    for name, row in corpus.index.items():
        report = reports[name]
        assert len(report.launches) == report.expected_launches == int(row["launches"]), name
        assert (report.lost, report.truncated, report.problems, report.error) == (0, False, (), ""), name
        assert [one.id.launch for one in report.launches] == list(range(len(report.launches))), name


def test_identity_agrees_with_the_index(corpus: Corpus, reports: dict[str, Report]) -> None:
    for name, row in corpus.index.items():
        report = reports[name]
        assert (report.ncu_version or "not found") == row["ncu_version"], name
        assert {one.gpu for one in report.launches} == {row["gpu"]}, name
        found = {".".join(map(str, one.compute_capability)) for one in report.launches}
        assert found == {row["compute_capability"]}, name
        assert len({one.kernel for one in report.launches}) == int(row["distinct_kernel_names"]), name
        # The index also counts launches of which ncu only noted that they lie in no range.
        assert sum(bool(one.nvtx) for one in report.launches) <= int(row["nvtx_launches"]), name


def test_launches_that_were_not_collected_are_found(reports: dict[str, Report]) -> None:
    found = {
        name: missing
        for name, report in reports.items()
        if (missing := [one.id.launch for one in report.launches if not one.collected])
    }
    assert found == NOT_COLLECTED


def test_a_value_or_a_reason_for_every_metric(reports: dict[str, Report]) -> None:
    """Nothing is 0 for missing, NaN for a value, or without a status that says why."""
    sets = load_metric_sets()
    names = sets.names()
    for report in reports.values():
        for launch in report.launches:
            evaluated = sets.evaluate(launch)
            assert tuple(evaluated.metrics) == names
            for value in evaluated.metrics.values():
                if value.status in (Status.OK, Status.INVALID):
                    assert value.value is not None
                    assert isinstance(value.value, str) or math.isfinite(value.value)
                    assert value.formula
                    assert value.counters
                else:
                    assert value.value is None
                    assert value.reason, (launch.id, value)


def test_uncollected_launches_have_no_measured_value(reports: dict[str, Report]) -> None:
    sets = load_metric_sets()
    for name, indices in NOT_COLLECTED.items():
        for index in indices:
            metrics = sets.evaluate(reports[name].launches[index]).metrics
            for metric in ("duration", "issue_rate", "l2_hit_rate", "sectors_per_load", "top_stall"):
                assert metrics[metric].value is None
                assert metrics[metric].status is Status.NOT_COLLECTED


def test_impossible_values_are_kept_and_flagged(reports: dict[str, Report]) -> None:
    sets = load_metric_sets()
    flagged = {}
    for launch in reports["cc75_rtx-2060-with-max-q-design_4cbb0c.ncu-rep"].launches:
        value = sets.evaluate(launch, ["achieved_occupancy"]).metrics["achieved_occupancy"]
        if value.status is Status.INVALID:
            flagged[launch.id.launch] = value.value
            assert "outside its possible range" in value.reason
    assert set(flagged) == {4, 5}
    assert all(isinstance(value, float) and value > 1 for value in flagged.values())


def test_what_a_chip_lacks_is_not_called_uncollected(reports: dict[str, Report]) -> None:
    sets = load_metric_sets()
    (b200,) = reports["cc100_b200_7937f6.ncu-rep"].launches
    (gh200,) = reports["cc90_gh200-480gb_c2e38b.ncu-rep"].launches
    assert sets.evaluate(b200).metrics["stall_imc_miss"].status is Status.NOT_ON_CHIP
    assert sets.evaluate(b200).metrics["stall_gmma"].status is Status.NOT_ON_CHIP
    assert sets.evaluate(gh200).metrics["stall_gmma"].status is Status.OK
    assert sets.evaluate(gh200).metrics["stall_imc_miss"].status is Status.OK


def test_stalls_add_up_to_the_warp_latency(reports: dict[str, Report]) -> None:
    """Within 5 % wherever both are there, save one launch whose passes disagree, and that one is flagged."""
    sets = load_metric_sets()
    status = {}
    for report in reports.values():
        for launch in report.launches:
            check = sets.evaluate(launch, ["warp_states_check"]).metrics["warp_states_check"]
            if check.value is not None:
                status[str(launch.id)] = check.status
                assert (check.status is Status.OK) == (0.95 <= check.number <= 1.05)
    flagged = [name for name, one in status.items() if one is Status.INVALID]
    assert len(status) == 27
    assert len(flagged) == 1
    assert flagged[0].endswith("cc90_h800_3a0513.ncu-rep:1")


def test_half_precision_work_gets_no_fp32_share(reports: dict[str, Report]) -> None:
    sets = load_metric_sets()
    (launch,) = reports["cc100_b200_7937f6.ncu-rep"].launches
    share = sets.evaluate(launch).metrics["share_of_peak"]
    assert share.status is Status.UNDEFINED
    assert "half-precision" in share.reason


def test_nvtx_ranges(reports: dict[str, Report]) -> None:
    launches = reports["cc86_rtx-3070_8399c7.ncu-rep"].launches
    assert [one.nvtx for one in launches] == [
        ("run_test", "init_data"),
        ("run_test", "daxpy"),
        ("run_test", "check_results"),
    ]
    assert [one.key for one in launches] == [None, None, None]
    (b200,) = reports["cc100_b200_7937f6.ncu-rep"].launches
    assert b200.nvtx == ("custom_kernel",)
