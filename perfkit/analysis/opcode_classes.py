"""SASS opcodes by what they do. Names: the instruction set reference of NVIDIA's CUDA Binary Utilities
guide.
"""

from __future__ import annotations

from collections.abc import Mapping

FMA = "fma"
GLOBAL_LOAD = "global_load"
GLOBAL_STORE = "global_store"
SHARED_LOAD = "shared_load"
SHARED_STORE = "shared_store"
BARRIER = "barrier"
TENSOR = "tensor"
HALF = "half"
FP64 = "fp64"
OTHER = "other"

TITLES: Mapping[str, str] = {
    FMA: "FMAs",
    "fp32_other": "other FP32 arithmetic",
    HALF: "half-precision arithmetic",
    FP64: "FP64 arithmetic",
    TENSOR: "tensor-core instructions",
    GLOBAL_LOAD: "global loads",
    GLOBAL_STORE: "global stores",
    SHARED_LOAD: "shared loads",
    SHARED_STORE: "shared stores",
    "async_copy": "asynchronous copies",
    "local": "local accesses (spills, stack)",
    "atomic": "atomics and reductions",
    "texture": "texture and surface accesses",
    "constant": "constant loads",
    "integer": "integer and address arithmetic",
    "alu_pipe": "ALU pipe (integer, logic)",
    "fma_pipe": "FMA pipe (integer)",
    "conversion": "conversions",
    "move": "moves and special registers",
    "uniform": "uniform-datapath instructions",
    "control": "branches and control",
    BARRIER: "barriers",
    "warp": "shuffles, votes, matches",
    OTHER: "other instructions",
}

_OPCODES: Mapping[str, str] = {
    FMA: "FFMA FFMA32I FFMA2",
    "fp32_other": """
        FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSEL FSET FSETP FSWZADD FCHK FCMP MUFU RRO
    """,
    HALF: "HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I HSET2 HSETP2 HMNMX2",
    FP64: "DADD DFMA DMUL DMNMX DSET DSETP",
    GLOBAL_LOAD: "LDG LD",
    GLOBAL_STORE: "STG ST",
    SHARED_LOAD: "LDS LDSM",
    SHARED_STORE: "STS STSM STAS",
    "async_copy": "LDGSTS LDGDEPBAR UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF",
    "local": "LDL STL",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS",
    "texture": "TEX TLD TLD4 TMML TXD TXQ SUATOM SULD SURED SUST",
    "constant": "LDC ULDC LDCU",
    "integer": """
        BFE BFI BMSK BREV FLO IABS IADD IADD2 IADD3 IADD32I ICMP IDP IDP4A IMAD IMAD32I IMNMX IMUL ISCADD
        ISET ISETP LEA LOP LOP3 LOP32I PLOP3 POPC PRMT PSETP SEL SGXT SHF SHL SHR VABSDIFF VABSDIFF4 VIADD
        VIADDMNMX VIMNMX VIMNMX3 XMAD
    """,
    "conversion": "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP",
    "move": "MOV MOV32I MOVM CS2R S2R S2UR R2UR P2R R2P R2B B2R GETLMEMBASE",
    BARRIER: "BAR SYNCS UCGABAR_ARV UCGABAR_WAIT ARRIVES",
    "warp": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "control": """
        ACQBULK BMOV BPT BRA BREAK BRK BRX BRXU BSSY BSYNC CALL CCTL CCTLL CCTLT DEPBAR ENDCOLLECTIVE
        ERRBAR EXIT FENCE JMP JMX JMXU KILL MEMBAR NANOSLEEP NOP PBK PREEXIT RET RPCMOV RTT SSY SYNC
        WARPGROUP WARPSYNC YIELD
    """,
}
_CLASS_OF = {opcode: name for name, opcodes in _OPCODES.items() for opcode in opcodes.split()}


def opcode_class(opcode: str) -> str:
    """The class (a key of TITLES) of an opcode, with or without modifiers; "other" where it is unknown."""
    base = opcode.split(".")[0].upper()
    if base in _CLASS_OF:
        return _CLASS_OF[base]
    if "MMA" in base:
        return TENSOR  # HMMA, IMMA, DMMA, BMMA, QMMA, HGMMA, IGMMA, UTCHMMA, ...
    if base.startswith("U"):
        return "uniform"  # the uniform datapath repeats the integer opcodes with a U in front
    return OTHER


def by_class(opcodes: Mapping[str, float]) -> dict[str, float]:
    """Instruction counts by class, from counts by opcode."""
    counts: dict[str, float] = {}
    for opcode, count in opcodes.items():
        name = opcode_class(opcode)
        counts[name] = counts.get(name, 0.0) + count
    return counts
