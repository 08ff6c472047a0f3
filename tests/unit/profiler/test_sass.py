"""Loops and opcode counts, on listings as nvdisasm prints them. Real cubins: test_build.py."""

from __future__ import annotations

from perfkit.profiler.sass import parse_listing


def listing(*lines: str, symbol: str = "kernel") -> str:
    """An `nvdisasm -c` listing: labels as they are, instructions with addresses."""
    text = [f'\t.section\t.text.{symbol},"ax",@progbits', f".text.{symbol}:"]
    address = 0
    for line in lines:
        if line.startswith("."):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/          {line} ;")
            address += 16
    return "\n".join(text) + "\n"


END = ("EXIT", ".L_end:", "BRA `(.L_end)", "NOP", "NOP")


def test_mix_of_a_loop() -> None:
    text = listing(
        "LDC R1, c[0x0][0x28]",
        ".L_x_1:",
        "LDG.E.128.CONSTANT R4, desc[UR8][R2.64]",
        "LDG.E.CONSTANT R5, desc[UR8][R2.64]",
        "STS.64 [R3], R4",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "LDS R1, [R2]",
        "LDS.128 R4, [R2+0x10]",
        "LDS.U.64 R8, [R2+0x20]",
        "LDS.U8 R8, [R2+0x30]",
        "@P0 FFMA R9, R1, R4, R9",
        "@!UP0 UIADD3 UR4, UR4, 0x1, URZ",
        "@P0 BRA `(.L_x_1)",
        *END,
    )
    parsed = parse_listing(text)["kernel"]
    mix = parsed.mix
    assert mix is not None
    assert (mix.total, mix.ffma, mix.barriers, mix.other) == (11, 1, 1, 2)
    assert mix.lds == {8: 1, 32: 1, 64: 1, 128: 1}
    assert mix.ldg == {32: 1, 128: 1}
    assert mix.sts == {64: 1}
    assert mix.opcodes == {"LDS": 4, "LDG": 2, "STS": 1, "BAR": 1, "FFMA": 1, "UIADD3": 1, "BRA": 1}
    assert parsed.opcodes["EXIT"] == 1
    assert "NOP" not in parsed.opcodes


def test_a_kernel_without_a_loop() -> None:
    # The branch to itself that ends every kernel's code is no loop.
    parsed = parse_listing(
        listing("FFMA R1, R2, R3, R4", "@P0 BRA `(.L_skip)", "FADD R1, R1, R1", ".L_skip:", *END)
    )
    assert parsed["kernel"].mix is None
    assert parsed["kernel"].opcodes["FFMA"] == 1


def test_the_loop_with_the_most_ffmas_of_its_own() -> None:
    text = listing(
        ".L_outer:",
        "FFMA R1, R1, R1, R1",
        ".L_inner:",
        "FFMA R1, R1, R1, R1",
        "FFMA R1, R1, R1, R1",
        "BRA `(.L_inner)",
        "BRA `(.L_outer)",
        ".L_rest:",
        "FFMA R1, R1, R1, R1",
        "BRA `(.L_rest)",
        *END,
    )
    mix = parse_listing(text)["kernel"].mix
    assert mix is not None
    assert (mix.total, mix.ffma) == (3, 2)


def test_a_nested_wait_loop_is_left_out_of_the_main_loop() -> None:
    text = listing(
        ".L_main:",
        "FFMA R1, R1, R1, R1",
        ".L_wait:",
        "SYNCS R1, R2",
        "@P0 BRA `(.L_wait)",
        "FFMA R1, R1, R1, R1",
        "@P1 BRA `(.L_main)",
        *END,
    )
    mix = parse_listing(text)["kernel"].mix
    assert mix is not None
    assert (mix.total, mix.ffma, mix.other) == (3, 2, 1)


def test_a_loop_left_by_two_backward_branches_is_one_loop() -> None:
    text = listing(
        ".L_main:", "FFMA R1, R1, R1, R1", "@P1 BRA `(.L_main)", "FFMA R1, R1, R1, R1", "BRA `(.L_main)", *END
    )
    mix = parse_listing(text)["kernel"].mix
    assert mix is not None
    assert (mix.total, mix.ffma) == (4, 2)


def test_without_ffmas_the_longest_loop() -> None:
    text = listing(
        ".L_a:",
        "FADD R1, R1, R1",
        "BRA `(.L_a)",
        ".L_b:",
        "FADD R1, R1, R1",
        "DADD R2, R2, R2",
        "BRA `(.L_b)",
        *END,
    )
    mix = parse_listing(text)["kernel"].mix
    assert mix is not None
    assert (mix.total, mix.ffma, mix.other) == (3, 0, 3)


def test_kernels_are_kept_apart_by_symbol() -> None:
    text = listing("FFMA R1, R1, R1, R1", *END, symbol="_Z1aPf") + listing(
        "DFMA R1, R1, R1, R1", *END, symbol="b"
    )
    parsed = parse_listing(text)
    assert list(parsed) == ["_Z1aPf", "b"]
    assert parsed["_Z1aPf"].opcodes["FFMA"] == 1
    assert "FFMA" not in parsed["b"].opcodes


def test_no_listing() -> None:
    assert parse_listing("") == {}
