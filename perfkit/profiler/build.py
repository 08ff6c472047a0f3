"""Building kernels, cached by content.

The key of a cache entry is the SHA-256 of everything that decides the cubin: the source with what it
includes, its path (line information holds it), flags, architecture, entry, template arguments and compiler
version. An entry is a folder that appears by one rename, so builds may run side by side and may be killed at
any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from perfkit.errors import CannotError, UsageError
from perfkit.model import BuildResult, KernelSpec, LoopMix
from perfkit.profiler.compiling import BASE_FLAGS, compile_kernel
from perfkit.profiler.sass import listing_of
from perfkit.profiler.toolchain import Compiler, find_compiler, normalize_arch

FORMAT = 1  # of a cache entry; raise it when what build.json holds changes

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w+))', re.MULTILINE)
_SOURCES = ("*.cu", "*.cuh", "*.h", "*.hpp", "*.inl")


def build(
    spec: KernelSpec,
    arch: str,
    *,
    compiler: Compiler | None = None,
    cache: Path | None = None,
    extra_flags: Sequence[str] = (),
) -> BuildResult:
    """Build one kernel for one architecture, or take it from the cache.

    Raises CompileError with the compiler's own words, UsageError for a library call or an architecture that
    the compiler cannot build for, CannotError where there is no compiler or the cache cannot be written.
    """
    if spec.library:
        raise UsageError(
            f"kernel {spec.key} is a call of {spec.library}: there is nothing to build",
            "Name kernels that have a source; see perfkit kernels.",
        )
    compiler = compiler or find_compiler()
    arch = normalize_arch(arch, compiler)
    flags = _absolute_includes((*spec.flags, *extra_flags), Path(spec.source).parent)
    digest = source_hash(Path(spec.source), _include_folders(flags))
    key = _key(spec, arch, compiler, flags, digest)
    root = cache or cache_folder()
    entry = root / key[:2] / key
    if cached := _read_entry(entry, spec):
        return cached
    compiled = compile_kernel(spec, arch, compiler, flags)
    with _new_entry(root) as folder:
        cubin = folder / "kernel.cubin"
        cubin.write_bytes(compiled.cubin)
        listing = listing_of(cubin, compiled.symbol)
        result = BuildResult(
            key=spec.key,
            arch=arch,
            compiler=compiler.name,
            flags=(*BASE_FLAGS, *flags),
            source_hash=digest,
            cubin=str(entry / "kernel.cubin"),
            symbol=compiled.symbol,
            **dataclasses.asdict(compiled.resources),
            loop=listing.mix,
            opcodes=listing.opcodes,
            warnings=compiled.warnings,
        )
        (folder / "build.json").write_text(json.dumps(dataclasses.asdict(result)), encoding="utf-8")
        _publish(folder, entry, spec)
    return result


def build_many(
    specs: Sequence[KernelSpec],
    arch: str,
    *,
    compiler: Compiler | None = None,
    cache: Path | None = None,
    extra_flags: Sequence[str] = (),
    jobs: int | None = None,
    done: Callable[[BuildResult], None] = lambda _: None,
) -> list[BuildResult]:
    """Build several kernels side by side; results in the order asked for, library calls left out.

    `done` is called, from the caller's thread, as each result comes in. Raises what `build` raises, for the
    first kernel in order that fails.
    """
    compiler = compiler or find_compiler()
    results = []
    with ThreadPoolExecutor(jobs or min(8, os.cpu_count() or 1)) as pool:
        futures = [
            pool.submit(build, spec, arch, compiler=compiler, cache=cache, extra_flags=extra_flags)
            for spec in specs
            if not spec.library
        ]
        try:
            for future in futures:
                results.append(future.result())
                done(results[-1])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return results


def cache_folder() -> Path:
    """$PERFKIT_CACHE, else the platform's cache folder for perfkit."""
    if value := os.environ.get("PERFKIT_CACHE"):
        return Path(value).expanduser().absolute() / "build"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "perfkit" / "build"


def source_hash(source: Path, folders: Sequence[Path] = ()) -> str:
    """SHA-256 over a source and every file it includes from its own folder or from `folders`, in any depth.

    Headers found in neither are the toolkit's own: the compiler's version stands for them. An include whose
    name is a macro stands for every source file beside it. Raises UsageError when the source cannot be read.
    """
    digest = hashlib.sha256()
    pending, seen = [source.resolve()], set[Path]()
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        try:
            text = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", "Check the file.") from error
        digest.update(f"{path.name} {len(text)}\n".encode() + text)
        for quoted, angled, macro in _INCLUDE.findall(text):
            pending += _included(path, (quoted or angled).decode("utf-8", "replace"), bool(macro), folders)
    return digest.hexdigest()


def _included(path: Path, name: str, is_macro: bool, folders: Sequence[Path]) -> list[Path]:
    if is_macro:
        return sorted(file.resolve() for pattern in _SOURCES for file in path.parent.glob(pattern))
    for folder in (path.parent, *folders):
        if (folder / name).is_file():
            return [(folder / name).resolve()]
    return []


def _absolute_includes(flags: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The flags with `-I` in one word each, relative to the folder of the source."""
    words, result = iter(flags), []
    for word in words:
        path = None
        if word in ("-I", "--include-path"):
            path = next(words, "")
        elif match := re.match(r"(?:-I|--include-path=)(.+)", word):
            path = match[1]
        result.append(word if path is None else f"-I{(folder / path).resolve()}")
    return tuple(result)


def _include_folders(flags: Sequence[str]) -> list[Path]:
    return [Path(flag[2:]) for flag in flags if flag.startswith("-I")]


def _key(spec: KernelSpec, arch: str, compiler: Compiler, flags: Sequence[str], digest: str) -> str:
    parts = (
        FORMAT,
        compiler.name,
        arch,
        *BASE_FLAGS,
        *flags,
        spec.source,
        digest,
        spec.entry,
        *spec.template,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read_entry(entry: Path, spec: KernelSpec) -> BuildResult | None:
    """The cached result, or None where there is none that is whole."""
    try:
        raw: dict[str, Any] = json.loads((entry / "build.json").read_text(encoding="utf-8"))
        loop = raw.pop("loop")
        if loop is not None:
            for name in ("lds", "sts", "ldg"):
                loop[name] = {int(width): count for width, count in loop[name].items()}
        raw |= {
            "key": spec.key,
            "cubin": str(entry / "kernel.cubin"),
            "flags": tuple(raw["flags"]),
            "cached": True,
        }
        result = BuildResult(loop=LoopMix(**loop) if loop else None, **raw)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return result if Path(result.cubin).is_file() else None


@contextlib.contextmanager
def _new_entry(root: Path) -> Iterator[Path]:
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=root, prefix="new-"))
    except OSError as error:
        raise CannotError(
            f"the build cache {root} cannot be written: {error.strerror}",
            "Set PERFKIT_CACHE to a folder you can write to.",
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(folder: Path, entry: Path, spec: KernelSpec) -> None:
    """Move a finished entry to its place. A whole one of a faster build stays: somebody may be reading it."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    try:
        folder.rename(entry)
    except OSError:
        if _read_entry(entry, spec):
            return
        shutil.rmtree(entry, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.rename(entry)
