"""`perfkit show --strict`, status by status, on a real report and on copies in which one thing is another."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from perfkit.cli import app
from perfkit.errors import CheckFailedError

REPORT = Path(__file__).parents[2] / "data" / "runs" / "programs" / "cpp" / "profile.ncu-rep"
# Of this one report: where the major and minor of the compute capability stand.
MAJOR, MINOR = 30135, 30146
GMMA = b"smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"


def shown(path: Path, metric: str, *more: str) -> Result:
    return CliRunner().invoke(app, ["show", str(path), "--set", metric, "--format", "csv", *more])


def changed(folder: Path, *, renamed: bytes = b"", chip: tuple[int, int] = (9, 0)) -> Path:
    """The report as of another chip, or without a counter: its name, of the same length, is no counter's."""
    data = bytearray(REPORT.read_bytes())
    assert (data[MAJOR], data[MINOR]) == (9, 0)
    data[MAJOR], data[MINOR] = chip
    if renamed:
        assert renamed in data
        data = data.replace(renamed, b"x" * len(renamed))
    path = folder / "changed.ncu-rep"
    path.write_bytes(data)
    return path


def check(path: Path, metric: str, status: str, code: int) -> None:
    """`metric` of the report has `status`; shown it always is, and with --strict the exit code is `code`."""
    plain, strict = shown(path, metric), shown(path, metric, "--strict")
    (row,) = (line for line in plain.stdout.splitlines() if f",{metric}," in line)
    assert f",{status}," in f"{row},"
    assert plain.exception is None
    assert strict.stdout == plain.stdout
    if code:
        assert isinstance(strict.exception, CheckFailedError)
        assert strict.exception.exit_code == code
        assert f"{path}:0 (saxpy) has no value for 1 metrics: {metric}" in strict.exception.message
    else:
        assert strict.exception is None


def test_a_value_passes() -> None:
    check(REPORT, "registers_per_thread", "ok", 0)


def test_a_ratio_of_nothing_was_collected_and_passes() -> None:
    check(REPORT, "wavefronts_per_shared_load", "undefined", 0)


def test_what_the_report_does_not_hold_fails() -> None:
    check(REPORT, "mix_fp32", "not_collected", 1)


def test_a_counter_that_is_gone_fails(tmp_path: Path) -> None:
    assert shown(REPORT, "stall_gmma", "--strict").exception is None
    check(changed(tmp_path, renamed=GMMA), "stall_gmma", "not_collected", 1)


def test_what_the_chip_does_not_count_is_missing_too(tmp_path: Path) -> None:
    """`--strict` asks for a value; that there can be none on this chip does not make one."""
    check(changed(tmp_path, renamed=GMMA, chip=(8, 9)), "stall_gmma", "not_on_chip", 1)


def test_a_value_out_of_range_is_kept_and_passes(tmp_path: Path) -> None:
    sets = tmp_path / "own.toml"
    sets.write_text(
        '[metrics.doubtful]\ntitle = "Doubtful"\nunit = "fraction"\ndoc = "A share."\nrange = [0, 1]\n'
        'formula = "{launch__registers_per_thread}"\n'
    )
    strict = shown(REPORT, str(sets), "--strict")
    assert ",invalid," in strict.stdout
    assert strict.exception is None


@pytest.mark.parametrize("metrics", [("registers_per_thread", "mix_fp32"), ("mix_fp64", "mix_fp32")])
def test_every_missing_metric_is_named(metrics: tuple[str, str]) -> None:
    done = CliRunner().invoke(app, ["show", str(REPORT), "-s", metrics[0], "-s", metrics[1], "--strict"])
    missing = [name for name in metrics if name.startswith("mix")]
    assert isinstance(done.exception, CheckFailedError)
    assert done.exception.message.endswith(f"no value for {len(missing)} metrics: {', '.join(missing)}")
