"""SASS opcodes by what they do, and what one instruction of an opcode does.

The names are those of NVIDIA's CUDA Binary Utilities guide ("Instruction Set Reference", Volta to
Blackwell) and of its Maxwell and Pascal table for 6.x. This is the only table of opcodes: metric formulas
read it as `[class:integer]` and `[FFMA*@fmas]`, the explanation by `by_class`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache

FMA = "fma"
GLOBAL_LOAD = "global_load"
GLOBAL_STORE = "global_store"
ASYNC_LOAD = "async_load"
ASYNC_STORE = "async_store"
LOCAL = "local"
SHARED_LOAD = "shared_load"
SHARED_STORE = "shared_store"
BARRIER = "barrier"
FENCE = "fence"
TENSOR = "tensor"
HALF = "half"
FP64 = "fp64"
UNIFORM = "uniform"
OTHER = "other"

TITLES: Mapping[str, str] = {
    FMA: "FMAs",
    "fp32_other": "other FP32 arithmetic",
    HALF: "half-precision arithmetic",
    FP64: "FP64 arithmetic",
    TENSOR: "tensor-core instructions",
    "tensor_memory": "tensor-memory accesses",
    GLOBAL_LOAD: "global loads",
    GLOBAL_STORE: "global stores",
    ASYNC_LOAD: "asynchronous global loads (cp.async, TMA)",
    ASYNC_STORE: "asynchronous global stores (TMA)",
    SHARED_LOAD: "shared loads",
    SHARED_STORE: "shared stores",
    LOCAL: "local accesses (spills, stack)",
    "atomic": "atomics and reductions",
    "shared_atomic": "shared-memory atomics",
    "cache": "prefetches and cache control",
    "texture": "texture and surface accesses",
    "constant": "constant loads",
    "integer": "integer and address arithmetic",
    "alu_pipe": "ALU pipe (integer, logic)",
    "fma_pipe": "FMA pipe (integer)",
    "conversion": "conversions",
    "move": "moves and special registers",
    UNIFORM: "uniform-datapath instructions",
    "control": "branches and control",
    BARRIER: "barriers",
    FENCE: "fences and waits for copies",
    "warp": "shuffles, votes, matches",
    OTHER: "other instructions",
}

_TABLE: Mapping[str, str] = {
    FMA: "FFMA FFMA32I FFMA2 FHFMA FHFMA2",
    "fp32_other": """
        FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FHADD FHADD2 FHMUL2 FMNMX FMNMX3 FSEL FSET FSETP FSWZADD FCHK
        FCMP MUFU RRO
    """,
    HALF: "HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I HSET2 HSETP2 HMNMX2 VHMNMX",
    FP64: "DADD DFMA DMUL DMNMX DSET DSETP",
    TENSOR: """
        HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA
    """,
    "tensor_memory": "LDT LDTM STT STTM UTCCP UTCSHIFT UTCATOMSWS",
    GLOBAL_LOAD: "LDG LD LDGMC",
    GLOBAL_STORE: "STG ST USTGR",
    # Only the modifiers of UBLKCP tell the direction, see `opcode_class`; without them it counts as a load.
    ASYNC_LOAD: "LDGSTS UBLKCP UTMALDG",
    ASYNC_STORE: "UTMASTG",
    SHARED_LOAD: "LDS LDSM",
    SHARED_STORE: "STS STSM STAS UMEMSETS",
    LOCAL: "LDL STL",
    "atomic": "ATOM ATOMG RED REDG UREDGR UBLKRED UTMAREDG",
    "shared_atomic": "ATOMS REDS REDAS",
    "cache": "CCTL CCTLL CCTLT UBLKPF UBLKL2CCTL UTMAPF UTMACCTL UTMAL2CCTL",
    "texture": "TEX TLD TLD4 TMML TXD TXQ SUATOM SULD SURED SUST",
    "constant": "LDC ULDC LDCU",
    "integer": """
        BFE BFI BMSK BREV DECOMPRESS FLO IABS IADD IADD2 IADD3 IADD32I ICMP IDP IDP4A IMAD IMAD32I IMNMX IMUL
        IMUL32I ISCADD ISCADD32I ISET ISETP LEA LOP LOP3 LOP32I PLOP3 POPC PRMT PSETP QSPC SEL SGXT SHF SHL
        SHR SPARSIFY VABSDIFF VABSDIFF4 VIADD VIADDMNMX VIMNMX VIMNMX3 VISET XMAD
    """,
    "conversion": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP",
    "move": """
        MOV MOV32I MOV64IUR MOVM CS2R CS2UR S2R S2UR R2UR P2R R2P R2B B2R LEPC GETLMEMBASE SETLMEMBASE
        SETCTAID
    """,
    BARRIER: "BAR SYNCS SYNCSU USYNCS UCGABAR_ARV UCGABAR_WAIT UTCBAR ARRIVES",
    FENCE: "MEMBAR ERRBAR CGAERRBAR FENCE DEPBAR LDGDEPBAR UTMACMDFLUSH WARPGROUP",
    "warp": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "control": """
        ACQBULK ACQSHMINIT BMOV BPT BRA BREAK BRK BRX BRXU BSSY BSYNC CALL ENDCOLLECTIVE EXIT JMP JMX JMXU
        KILL NANOSLEEP NOP PBK PMTRIG PREEXIT RET RPCMOV RTT SSY SYNC UGETNEXTWORKID USETMAXREG UVIRTCOUNT
        WARPGROUPSET WARPSYNC YIELD
    """,
    UNIFORM: """
        UBMSK UBREV UCLEA UF2F UF2FP UF2I UF2IP UFADD UFFMA UFLO UFMNMX UFMUL UFRND UFSEL UFSET UFSETP UI2F
        UI2FP UI2I UI2IP UIABS UIADD3 UIMAD UIMNMX UISETP ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UP2UR UPLOP3
        UPOPC UPRMT UPSETP UR2UP USEL USGXT USHF USHL USHR UVIADD UVIMNMX
    """,
}
OPCODES: Mapping[str, tuple[str, ...]] = {name: tuple(opcodes.split()) for name, opcodes in _TABLE.items()}
CLASSES = (*OPCODES, OTHER)
_CLASS_OF = {opcode: name for name, opcodes in OPCODES.items() for opcode in opcodes}
# Destination and source of a bulk copy: S.S copies to the shared memory of another SM of the cluster.
_BULK_COPIES = {"SG": ASYNC_LOAD, "GS": ASYNC_STORE, "SS": SHARED_STORE}

# Instructions by which a warp asks whether it may go on, and asks again while it may not: their number
# depends on timing. The waits of mbarriers (try_wait and test_wait of PTX), sleep between two looks, atomic
# swaps as locks use them, and the loads that see what others store (volatile, acquire, relaxed).
POLLING = ("*SYNCS.PHASECHK*", "NANOSLEEP*", "ATOM*.CAS*", "ATOM*.EXCH*", "LD*.STRONG.*")
# The same where a report does not hold the modifiers.
_POLLING_BARE = ("SYNCS", "USYNCS", "NANOSLEEP", "ATOM", "ATOMG", "ATOMS")

# FP32 FMAs, and FP32 operations, that a thread performs in one instruction; an FMA is two operations.
_FMAS = {"FFMA": 1, "FFMA32I": 1, "FFMA2": 2, "FHFMA": 1, "FHFMA2": 2}
_ADDS = {
    "FADD": 1, "FADD32I": 1, "FADD2": 2, "FHADD": 1, "FHADD2": 2,
    "FMUL": 1, "FMUL32I": 1, "FMUL2": 2, "FHMUL2": 2,
}  # fmt: skip
# Bytes that a thread accesses, by the modifier that says so; 4 where none does.
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def opcode_class(opcode: str) -> str:
    """The class (a key of TITLES) of an opcode, with or without modifiers; "other" where it is unknown."""
    base, *modifiers = opcode.upper().split(".")
    if base == "UBLKCP":
        spaces = "".join(one for one in modifiers if one in ("S", "G"))
        return _BULK_COPIES.get(spaces, ASYNC_LOAD)
    if base in _CLASS_OF:
        return _CLASS_OF[base]
    if "MMA" in base:
        return TENSOR  # of an architecture to come
    if base.startswith("U"):
        return UNIFORM  # the uniform datapath repeats the opcodes of the others with a U in front
    return OTHER


def by_class(opcodes: Mapping[str, float]) -> dict[str, float]:
    """Instruction counts by class, from counts by opcode."""
    counts: dict[str, float] = {}
    for opcode, count in opcodes.items():
        name = opcode_class(opcode)
        counts[name] = counts.get(name, 0.0) + count
    return counts


def polling(opcodes: Mapping[str, float]) -> tuple[str, ...]:
    """Those by which a kernel may poll, of counts by opcode, most frequent first."""
    modified = any("." in opcode for opcode in opcodes)
    patterns = POLLING if modified else _POLLING_BARE
    found = [
        opcode
        for opcode, count in opcodes.items()
        if count > 0 and any(fnmatchcase(opcode, pattern) for pattern in patterns)
    ]
    return tuple(sorted(found, key=lambda opcode: -opcodes[opcode]))


def fmas(opcode: str) -> float:
    """FP32 FMAs that a thread performs in one instruction: 2 for a packed one (FFMA2), 0 for other work."""
    return _FMAS.get(opcode.split(".")[0], 0)


def fp32_flops(opcode: str) -> float:
    """FP32 operations that a thread performs in one instruction; an FMA is two of them."""
    return 2 * fmas(opcode) + _ADDS.get(opcode.split(".")[0], 0)


def ideal_sectors(opcode: str) -> float:
    """32-byte sectors that a full warp touches in one access to neighbouring elements, by the width among
    the opcode's modifiers: 4 without one (4 bytes a thread), 16 for `.128`.
    """
    return next((_WIDTHS[one] for one in opcode.split(".")[1:] if one in _WIDTHS), 4)


FIGURES: Mapping[str, Callable[[str], float]] = {
    "fmas": fmas,
    "fp32_flops": fp32_flops,
    "ideal_sectors": ideal_sectors,
}


@cache
def figure_of(figure: str, opcode: str) -> float:
    """A figure (a key of FIGURES) of one instruction of this opcode."""
    return FIGURES[figure](opcode)
