"""One compilation: a source and flags in, a cubin with its symbol and resources out. No cache here.

nvcc and NVRTC both hand `-v` to ptxas, so registers, shared memory, stack and spills are read from the same
words.
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfkit.errors import CompileError, ToolError
from perfkit.model import KernelSpec
from perfkit.profiler.toolchain import Compiler, find_tool, include_folders, run_tool_status

BASE_FLAGS = ("-O3", "-lineinfo")
_NVCC_ONLY = frozenset({"-O0", "-O1", "-O2", "-O3"})  # NVRTC always optimizes, and knows no such option

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CHATTER = re.compile(r"^(ptxas info\b|ptxas\s+\.|\s+\d+ bytes stack frame)")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes of an SM, as ptxas reports it; bytes, and registers a thread."""

    registers: int
    static_shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin, the (mangled) symbol of the entry asked for, its resources, and the compiler's warnings."""

    cubin: bytes
    symbol: str
    resources: Resources
    warnings: str


def compile_kernel(spec: KernelSpec, arch: str, compiler: Compiler, flags: Sequence[str]) -> Compiled:
    """Compile `spec` for `arch` (sm_90) with `flags` after the base flags.

    Raises CompileError with the compiler's own words, file and line, or when the entry is not in the source.
    """
    run = _run_nvcc if compiler.kind == "nvcc" else _run_nvrtc
    cubin, log, symbol = run(spec, arch, compiler, flags)
    symbols = _ENTRY.findall(log)
    if symbol is None:
        symbol = _find_symbol(spec, symbols)
    return Compiled(cubin, symbol, parse_resources(log, symbol), _warnings(log))


def _run_nvcc(
    spec: KernelSpec, arch: str, compiler: Compiler, flags: Sequence[str]
) -> tuple[bytes, str, str | None]:
    with tempfile.TemporaryDirectory(prefix="perfkit-") as folder:
        output = Path(folder) / "kernel.cubin"
        source = Path(spec.source)
        if spec.template:
            # Taking the address of an instance makes the compiler emit it; writing out its explicit
            # instantiation would need the types of its parameters.
            source = Path(folder) / "instance.cu"
            text = f'#include "{spec.source}"\nauto perfkit_instance = &{name_expression(spec)};\n'
            source.write_text(text, encoding="utf-8")
        command = [compiler.path, *BASE_FLAGS, f"-arch={arch}", "-Xptxas", "-v", *flags]
        code, log = run_tool_status([*command, "-cubin", "-o", str(output), str(source)])
        if code != 0 or not output.is_file():
            raise _compile_error(spec, arch, compiler, log)
        return output.read_bytes(), log, None


def _run_nvrtc(
    spec: KernelSpec, arch: str, compiler: Compiler, flags: Sequence[str]
) -> tuple[bytes, str, str | None]:
    from cupy_backends.cuda.libs import nvrtc

    source = Path(spec.source)
    folders = [source.parent, *include_folders()]
    options = [flag for flag in (*BASE_FLAGS, *flags) if flag not in _NVCC_ONLY]
    options += [f"-arch={arch}", "--ptxas-options=-v", *(f"-I{folder}" for folder in folders)]
    expression = name_expression(spec)
    program = nvrtc.createProgram(source.read_text(encoding="utf-8"), str(source), (), ())
    try:
        nvrtc.addNameExpression(program, expression)
        nvrtc.compileProgram(program, tuple(options))
        cubin = whole_elf(nvrtc.getCUBIN(program))
        return cubin, nvrtc.getProgramLog(program), nvrtc.getLoweredName(program, expression)
    except nvrtc.NVRTCError as error:
        raise _compile_error(spec, arch, compiler, nvrtc.getProgramLog(program) or str(error)) from error
    finally:
        nvrtc.destroyProgram(program)


def whole_elf(cubin: bytes) -> bytes:
    """The cubin with its last byte, which CuPy strips as if it ended a string (seen in CuPy 14.2).

    That byte is the highest one of an alignment, hence 0. Offsets are those of the ELF-64 header.
    """
    phoff, shoff = struct.unpack_from("<QQ", cubin, 32)
    phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", cubin, 54)
    end = max(phoff + phentsize * phnum, shoff + shentsize * shnum)
    return cubin + b"\0" if len(cubin) == end - 1 else cubin


def name_expression(spec: KernelSpec) -> str:
    """The entry as C++ names it: `saxpy`, or `ns::scale<float, 4>`."""
    return f"{spec.entry}<{', '.join(spec.template)}>" if spec.template else spec.entry


def _compile_error(spec: KernelSpec, arch: str, compiler: Compiler, log: str) -> CompileError:
    words = _warnings(log) or "the compiler gave no reason"
    return CompileError(
        f"kernel {spec.key} ({spec.source}) does not compile for {arch} with {compiler.name}:\n{words}",
        "Correct the source, or the flags and the template arguments of its registry entry.",
    )


def _warnings(log: str) -> str:
    """A compiler's log without what ptxas -v adds to it, and without the NUL that NVRTC's ends with."""
    return "\n".join(line for line in log.splitlines() if not _CHATTER.match(line)).strip("\0 \t\n")


def parse_resources(log: str, symbol: str) -> Resources:
    """Resources of one kernel from the words of `ptxas -v`. Raises ToolError when they do not mention it."""
    for block in re.split(r"(?=ptxas info\s+: Compiling entry function )", log):
        entry = _ENTRY.search(block)
        used = _USED.search(block)
        if entry is None or entry[1] != symbol or used is None:
            continue
        # Functions that were not inlined have properties of their own in the same block.
        own = re.search(rf"Function properties for {re.escape(symbol)}\s*\n[^\n]*", block)
        stack = _STACK.search(own[0]) if own else None
        line = block[used.start() :].splitlines()[0]
        shared = _SHARED.search(line)
        frame, stores, loads = (int(group) for group in stack.groups()) if stack else (0, 0, 0)
        return Resources(int(used[1]), int(shared[1]) if shared else 0, frame, stores, loads)
    raise ToolError(
        f"ptxas does not say what kernel {symbol} uses",
        "Run the compiler by hand with -Xptxas -v to see why.",
    )


def _find_symbol(spec: KernelSpec, symbols: Sequence[str]) -> str:
    """The mangled name, among the kernels of the cubin, of the entry asked for."""
    if spec.entry in symbols and not spec.template:
        return spec.entry
    names = spec.entry.split("::")
    mangled = "".join(f"{len(name)}{name}" for name in names)
    prefix = f"_Z{'N' if len(names) > 1 else ''}{mangled}"
    end = "I" if spec.template else "E" if len(names) > 1 else ""
    found = [symbol for symbol in symbols if symbol.startswith(prefix + end)]
    if len(found) > 1:
        wanted = re.sub(r"\s", "", name_expression(spec)) + "("
        found = [symbol for symbol in found if wanted in re.sub(r"\s", "", demangle(symbol))]
    if len(found) == 1:
        return found[0]
    there = ", ".join(demangle(symbol) for symbol in symbols) or "none"
    what = "no kernel" if not found else "more than one kernel"
    raise CompileError(
        f"kernel {spec.key}: {spec.source} holds {what} {name_expression(spec)}; its kernels: {there}",
        "Correct entry and template of its registry entry"
        + ("." if symbols or spec.template else '; a template needs its arguments: template = ["float"].'),
    )


def demangle(symbol: str) -> str:
    """A C++ name for people, by cu++filt or c++filt; the symbol itself where neither is there."""
    tool = find_tool("cu++filt") or find_tool("c++filt")
    if tool is None or not symbol.startswith("_Z"):
        return symbol
    code, text = run_tool_status([tool, symbol])
    return text.strip() if code == 0 and text.strip() else symbol
