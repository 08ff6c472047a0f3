"""One `[kernels.KEY]` table of kernels.toml or perfkit.toml, checked and made into a KernelSpec."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfkit.errors import UsageError
from perfkit.kernels.plan import integer_limits, plan_arguments, plan_sides, plan_whole
from perfkit.kernels.sizes import check_size, evaluate, problem_label
from perfkit.kernels.toml_file import TomlFile
from perfkit.model import Argument, KernelSpec

LIBRARIES = ("cublas.sgemm",)
DTYPES = (
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
DIRECTIONS = ("in", "out", "inout")
KERNEL_KEYS = (
    *(
        "title",
        "change",
        "source",
        "entry",
        "template",
        "flags",
        "library",
        "grid",
        "block",
        "shared",
        "arguments",
    ),
    *("size", "multiple_of", "flops", "least_bytes", "reference", "rtol", "atol"),
)
ARGUMENT_KEYS = ("name", "dtype", "shape", "direction", "fill", "value")

_KEY = re.compile(r"[A-Za-z_][\w.\-]*")  # no "@", ":" or ",": labels, NVTX ranges and RUN:kernel use them
_ENTRY = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*")
_FILL = re.compile(
    r"(zeros|ones|arange|none)|uniform\(\s*(-?[\d.eE+\-]+)\s*,\s*(-?[\d.eE+\-]+)\s*\)|constant\(\s*(\S+)\s*\)"
)


class KernelTable:
    """Reads the keys of one kernel's table, defaults included; ConfigError names the line."""

    def __init__(
        self, file: TomlFile, key: str, values: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> None:
        self.file = file
        self.key = key
        self.table = ("kernels", key)
        self.defaults = defaults
        self.own = values
        self.values = {**defaults, **values}

    def fail(self, key: str, message: str, remedy: str = "") -> None:
        """Raise ConfigError for a key, in [defaults] where it came from there."""
        inherited = key in self.defaults and key not in self.own
        self.file.fail(("defaults",) if inherited else self.table, key, message, remedy)

    def text(self, key: str, default: str = "") -> str:
        """A string."""
        value = self.values.get(key, default)
        if not isinstance(value, str):
            self.fail(key, f"must be a string, not {value!r}")
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; whole numbers and booleans become text, a single value a list of one."""
        value = self.values.get(key, [])
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if not isinstance(part, str | int | float):
                self.fail(key, f"must be a list of strings or numbers, not {part!r}")
        return tuple(str(part).lower() if isinstance(part, bool) else str(part) for part in parts)

    def number(self, key: str) -> float:
        """A number of at least 0."""
        value = self.values.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            self.fail(key, f"must be a number of at least 0, not {value!r}")
        return float(value)

    def counts(self, key: str, default: Mapping[str, int]) -> Mapping[str, int]:
        """A table of positive whole numbers by name."""
        value = self.values.get(key, default)
        if not isinstance(value, Mapping):
            self.fail(key, f"must be a table such as {{ n = 4096 }}, not {value!r}")
        for name, count in value.items():
            if not str(name).isidentifier():
                self.fail(
                    key, f"{name!r} cannot be used in an expression", "Use letters, digits and underscores."
                )
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                self.fail(key, f"{name} must be a whole number of at least 1, not {count!r}")
        return dict(value)

    def expression(self, key: str, text: str, size: Mapping[str, int]) -> str:
        """An expression that can be computed at the default size."""
        try:
            evaluate(text, size)
        except UsageError as error:
            self.fail(key, error.message, error.remedy)
        return text


def kernel_spec(
    file: TomlFile, key: str, values: Any, defaults: Mapping[str, Any], origin: str
) -> KernelSpec:
    """The KernelSpec of `[kernels.KEY]`. Raises ConfigError naming file, key and line."""
    table = ("kernels", key)
    if not isinstance(values, Mapping):
        file.fail(
            ("kernels",),
            key,
            f"must be a table, not {values!r}",
            f"Write [kernels.{key}] and its keys below.",
        )
    if not _KEY.fullmatch(key):
        file.fail(table, "", "a kernel's key is letters, digits, _ . and -, and starts with a letter")
    file.check_keys(table, values, KERNEL_KEYS)
    read = KernelTable(file, key, values, defaults)
    size = read.counts("size", {"n": 4096})
    multiple_of = read.counts("multiple_of", {})
    for name in multiple_of:
        if name not in size:
            read.fail("multiple_of", f"{name} is no name of the size", f"The size has: {', '.join(size)}.")
    library = read.text("library")
    if library and library not in LIBRARIES:
        read.fail("library", f"{library!r} is not known", f"Known: {', '.join(LIBRARIES)}.")
    built = not library
    shared = read.texts("shared") or ("0",)
    if len(shared) != 1:
        read.fail("shared", "must be one number of bytes or one expression")
    spec = KernelSpec(
        key=key,
        title=read.text("title", key),
        change=read.text("change"),
        source=_source(read) if built else _absent(read, "source"),
        entry=_entry(read) if built else _absent(read, "entry"),
        template=read.texts("template"),
        flags=read.texts("flags"),
        library=library,
        grid=_dimensions(read, "grid", size) if built else (),
        block=_dimensions(read, "block", size) if built else (),
        shared=read.expression("shared", shared[0], size),
        arguments=_arguments(read, size),
        flops=_work(read, "flops", size),
        least_bytes=_work(read, "least_bytes", size),
        size=size,
        multiple_of=multiple_of,
        reference=_reference(read),
        rtol=read.number("rtol"),
        atol=read.number("atol"),
        origin=origin,
    )
    _check_default(read, spec)
    return spec


def _check_default(read: KernelTable, spec: KernelSpec) -> None:
    """What cannot be launched at the default size is a mistake of the file, and is said with its line."""
    checks: dict[str, Callable[[], object]] = {
        "multiple_of": lambda: check_size(spec, {}),
        "grid": lambda: plan_sides(spec, "grid", spec.grid, spec.size),
        "block": lambda: plan_sides(spec, "block", spec.block, spec.size),
        "shared": lambda: plan_whole(spec, "shared", spec.shared, spec.size),
        "arguments": lambda: plan_arguments(spec, spec.size),
    }
    for key, check in checks.items():
        try:
            check()
        except UsageError as error:
            read.fail(key, error.message.removeprefix(f"kernel {spec.key}: "), error.remedy)
    for key in ("flops", "least_bytes"):
        if getattr(spec, key) and evaluate(getattr(spec, key), spec.size) < 0:
            read.fail(key, f"is negative at {problem_label(spec.size)}")


def _absent(read: KernelTable, key: str) -> str:
    if key in read.own:
        read.fail(key, "a kernel has either a source or a library", "Remove one of the two.")
    return ""


def _source(read: KernelTable) -> str:
    name = read.text("source")
    if not name:
        read.fail("source", "is missing", 'Name the .cu file, relative to this file: source = "saxpy.cu".')
    path = (read.file.path.parent / Path(name).expanduser()).resolve()
    if not path.is_file():
        read.fail("source", f"there is no file {path}", "The path is relative to the folder of this file.")
    return str(path)


def _entry(read: KernelTable) -> str:
    entry = read.text("entry")
    if not entry:
        read.fail("entry", "is missing", 'Name the __global__ function: entry = "saxpy".')
    if not _ENTRY.fullmatch(entry):
        read.fail(
            "entry",
            f"{entry!r} is not the name of a function",
            'Write the name alone: "saxpy" or "ns::saxpy"; template arguments go into template = [...].',
        )
    return entry


def _dimensions(read: KernelTable, key: str, size: Mapping[str, int]) -> tuple[str, ...]:
    sides = read.texts(key)
    if not 1 <= len(sides) <= 3:
        read.fail(
            key, f"has {len(sides)} dimensions", f'Give one to three, such as {key} = ["ceil(n / 256)"].'
        )
    return tuple(read.expression(key, side, size) for side in sides)


def _work(read: KernelTable, key: str, size: Mapping[str, int]) -> str:
    values = read.texts(key)
    if len(values) > 1:
        read.fail(key, "must be one number or one expression")
    return read.expression(key, values[0], size) if values else ""


def _reference(read: KernelTable) -> str:
    reference = read.text("reference")
    if not reference or reference in LIBRARIES:
        return reference
    file, colon, function = reference.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        read.fail(
            "reference",
            f"{reference!r} is not understood",
            f'Write "file.py:function", or one of: {", ".join(LIBRARIES)}.',
        )
    if not (read.file.path.parent / file).is_file():
        read.fail("reference", f"there is no file {file}", "The path is relative to the folder of this file.")
    return reference


def _arguments(read: KernelTable, size: Mapping[str, int]) -> tuple[Argument, ...]:
    value = read.values.get("arguments", [])
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        read.fail(
            "arguments", "must be a list of tables", 'Write { name = "x", dtype = "float32", shape = ["n"] }.'
        )
    arguments = tuple(_argument(read, entry, size) for entry in value)
    names = [argument.name for argument in arguments]
    for name in names:
        if names.count(name) > 1:
            read.fail("arguments", f"{name} is there twice", "Give each argument its own name.")
    return arguments


def _argument(read: KernelTable, entry: Mapping[str, Any], size: Mapping[str, int]) -> Argument:
    name = entry.get("name")
    if not isinstance(name, str) or not name.isidentifier():
        read.fail(
            "arguments", f"name = {name!r} is no name", "Give every argument a name of letters and digits."
        )

    def fail(message: str, remedy: str = "") -> None:
        read.fail("arguments", f"{name}: {message}", remedy)

    for key in entry:
        if key not in ARGUMENT_KEYS:
            fail(f"{key} is not a known key", f"Known keys: {', '.join(ARGUMENT_KEYS)}.")
    dtype, direction, fill = (str(entry.get(key, "")) for key in ("dtype", "direction", "fill"))
    if dtype not in DTYPES:
        fail(f"dtype {dtype!r} is not known", f"Known: {', '.join(DTYPES)}.")
    if direction and direction not in DIRECTIONS:
        fail(f"direction {direction!r} is not known", f"Known: {', '.join(DIRECTIONS)}.")
    if ("shape" in entry) == ("value" in entry):
        fail("needs either a shape (an array) or a value (a scalar)", 'shape = ["n", "n"], or value = "n".')
    if "value" in entry:
        if fill or direction not in ("", "in"):
            fail("a scalar has no fill, and goes in", "Remove fill and direction.")
        return Argument(name=str(name), dtype=dtype, value=_expression(read, name, entry["value"], size))
    shape = entry["shape"] if isinstance(entry["shape"], list) else [entry["shape"]]
    if not shape:
        fail("shape is empty", 'Give at least one side: shape = ["n"].')
    check_fill(fill, dtype, fail)
    return Argument(
        name=str(name),
        dtype=dtype,
        shape=tuple(_expression(read, name, side, size) for side in shape),
        direction=direction or "in",
        fill=fill,
    )


def _expression(read: KernelTable, name: Any, value: Any, size: Mapping[str, int]) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        read.fail("arguments", f"{name}: {value!r} is neither a number nor an expression")
    try:
        evaluate(str(value), size)
    except UsageError as error:
        read.fail("arguments", f"{name}: {error.message}", error.remedy)
    return str(value)


def check_fill(fill: str, dtype: str, fail: Callable[[str, str], None]) -> None:
    """Call `fail` unless `fill` is "", zeros, ones, arange, none, or a uniform(lo, hi) or constant(x) that an
    integer `dtype` holds.
    """
    if not fill:
        return
    match = _FILL.fullmatch(fill.strip())
    try:
        numbers = [float(group) for group in match.groups()[1:] if group] if match else None
    except ValueError:
        numbers = None
    if numbers is None or (len(numbers) == 2 and numbers[0] > numbers[1]):
        fail(
            f"fill {fill!r} is not understood",
            "It is uniform(lo, hi), zeros, ones, arange, constant(x) or none.",
        )
    limits = integer_limits(dtype)
    for number in numbers or ():
        if limits and not (number.is_integer() and limits[0] <= number <= limits[1]):
            fail(f"fill {fill!r}: {dtype} cannot hold {number:g}", f"It holds {limits[0]} to {limits[1]}.")
