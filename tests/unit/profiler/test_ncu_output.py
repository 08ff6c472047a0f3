"""Reading what ncu prints, whole and in pieces."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from perfkit.profiler.ncu_output import NcuOutput

# As ncu 2025.3.1 printed it, with a program that writes into the same stream.
STREAM = (
    b"==WARNING== Note: Running with unmodified GPU clocks.\n"
    b"==WARNING== Something else.\n"
    b"==PROF== Connected to process 922 (/usr/bin/python3.12)\n"
    b"==PERFKIT== verify k6 n=4096\n"
    b"==PERFKIT== launch k6 n=4096\n"
    b'==PROF== Profiling "sgemm_k6" - 0: 0%....50%....100% - 11 passes\n'
    b"==PERFKIT== launch cublas n=4096\n"
    b'==PROF== Profiling "sm80_xmma_gemm_f32f32_f32f32_..." - 1: 0%....50%....100% - 1 pass\n'
    b'==PROF== Profiling "void f<"x">(int)" - 2 (3/5): 0%....50%hello\n'
    b"....100% - 12 passes\n"
    b"half a line==ERROR== LaunchFailed\n"
    b"the program\r\n"
    b"==PROF== Disconnected from process 922\n"
    b"last"
)


def read(*pieces: bytes) -> NcuOutput:
    output = NcuOutput()
    for piece in pieces:
        output.feed(piece)
    output.close()
    return output


def test_launches_passes_labels_and_complaints() -> None:
    output = read(STREAM)
    assert [(x.kernel, x.passes, x.label, x.problem) for x in output.launches] == [
        ("sgemm_k6", 11, "k6", "n=4096"),
        ("sm80_xmma_gemm_f32f32_f32f32_...", 1, "cublas", "n=4096"),
        ('void f<"x">(int)', 12, "cublas", "n=4096"),
    ]
    assert output.errors == ["LaunchFailed"]
    assert output.warnings == ["Something else."]
    assert list(output.program) == ["half a line", "the program", "last"]
    assert output.connected
    assert not output.none_profiled
    assert output.current is None


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_cuts_between_pieces_do_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    whole, pieces = read(STREAM), read(*(STREAM[a:b] for a, b in itertools.pairwise(edges)))
    assert pieces.launches == whole.launches
    assert pieces.errors == whole.errors
    assert pieces.warnings == whole.warnings
    assert list(pieces.program) == list(whole.program)


def test_progress_within_a_launch() -> None:
    seen: list[tuple[str, float]] = []
    output = NcuOutput(on_progress=lambda o: seen.append((str(o.current), o.launches[-1].fraction)))
    output.feed(b'==PROF== Profiling "gemm" - 0: 0%')
    output.feed(b"..")
    output.feed(b"..50%")
    output.feed(b"....100%")
    output.feed(b" - 11 passes\n")
    assert seen == [("gemm", 0.0), ("gemm", 0.2), ("gemm", 0.5), ("gemm", 1.0), ("None", 1.0)]


def test_the_kernel_in_hand_when_the_stream_ends() -> None:
    output = read(
        b'==PROF== Profiling "first" - 0: 0%....50%....100% - 2 passes\n==PROF== Profiling "nccl" - 1: 0%..'
    )
    assert output.current is not None
    assert output.current.kernel == "nccl"
    assert output.current.passes is None


def test_bytes_that_are_no_text() -> None:
    assert list(read(b"\xff\xfe\n\n").program) == ["\ufffd\ufffd", ""]


def test_output_without_an_end_of_line_is_cut_and_launches_behind_it_are_seen() -> None:
    noise = [b"\0" * 65536] * 1500  # 98 MB: copied again for each piece, this would take minutes
    output = read(*noise, b"\n" + STREAM)
    assert len(output.launches) == 3
    assert max(map(len, output.program)) <= 2 * 65536
