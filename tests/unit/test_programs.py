"""Real runs of programs on an H200 that perfkit did not build: what the counters must show, by counting."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfkit
from perfkit.model import Evaluated

RUNS = Path(__file__).parents[1] / "data" / "runs" / "programs"
N = 1 << 24  # elements of saxpy, the reduction and Triton's add


def launches(run: str) -> list[Evaluated]:
    profile = perfkit.load(RUNS / run)
    assert profile.problems == ()
    return list(profile)


@pytest.mark.parametrize(
    ("run", "index", "sectors"),
    [("own", 0, 4), ("cpp", 0, 4), ("triton", 0, 16)],  # loads of 4 bytes a thread, Triton's of 16
)
def test_two_arrays_in_one_array_out(run: str, index: int, sectors: int) -> None:
    one = launches(run)[index]
    assert one.number("l2_read_bytes") == 2 * N * 4
    assert one.number("l2_write_bytes") == N * 4
    assert one.number("sectors_per_load") == one.number("sectors_per_store") == sectors
    # Nothing is read twice from DRAM, and no more is written than there is: the rest is still in L2.
    assert one.number("dram_read_bytes") == pytest.approx(2 * N * 4, rel=0.001)
    assert one.number("dram_write_bytes") < N * 4


def test_saxpy_is_one_fma_an_element() -> None:
    own, cpp = launches("own")[0], launches("cpp")[0]
    for one in (own, cpp):
        assert one.number("fma_share") * one.number("instructions") == pytest.approx(N / 32)
        assert one.number("grid_size") * one.number("block_size") == N
    # Once counted by opcode, once from threads: the same kernel, the same share.
    assert own.metrics["share_of_peak"].status == cpp.metrics["share_of_peak"].status == "ok"
    assert own.number("fma_share") == pytest.approx(cpp.number("fma_share"), rel=1e-9)


def test_a_reduction_reads_once_and_writes_a_sum_a_block() -> None:
    one = launches("own")[1]
    assert (one.launch.label, one.launch.problem) == ("reduce", f"n={N}")
    assert one.number("l2_read_bytes") == N * 4
    blocks = N // 16384
    assert one.number("grid_size") == blocks
    assert one.number("l2_write_bytes") == blocks * 32  # a sector each
    assert one.number("sectors_per_store") == 1
    assert one.metrics["top_stall"].value == "long_scoreboard"


def test_the_range_of_a_pytorch_program_holds_its_five_kernels() -> None:
    found = launches("torch")
    assert [one.launch.nvtx for one in found] == [("attention",)] * 5
    softmax = found[2]
    assert softmax.launch.kernel == "softmax_warp_forward"
    scores = 2048 * 2048 * 4  # bytes of Q K^T
    # The scaling and the softmax each read and write the scores once; the product before wrote them.
    assert [found[i].number("l2_read_bytes") for i in (1, 2)] == [scores, scores]
    assert [found[i].number("l2_write_bytes") for i in (0, 1, 2)] == [scores, scores, scores]
    # 2 x 2048 x 2048 x 64 FLOPs in FMAs of 32 lanes, and nothing on tensor cores: FP32 is not TF32 here.
    product = found[0]
    fmas = product.number("fma_share") * product.number("instructions") * 32
    assert fmas == pytest.approx(2048 * 2048 * 64, rel=0.02)
