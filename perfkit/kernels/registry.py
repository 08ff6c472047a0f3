"""The kernels perfkit knows: the built-in ladder, and those of a perfkit.toml."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path

from perfkit.errors import UsageError
from perfkit.kernels.schema import KERNEL_KEYS, kernel_spec
from perfkit.kernels.toml_file import TomlFile
from perfkit.model import KernelSpec

BUILT_IN = Path(__file__).with_name("kernels.toml")
CONFIG_NAME = "perfkit.toml"
GROUPS = ("all", "ladder")


def load_registry(config: Path | None = None) -> dict[str, KernelSpec]:
    """Every kernel by key: the ladder, then those of `config`, else of ./perfkit.toml if there is one.

    Raises ConfigError naming file, key and line for a file that is wrong, or a key that is taken by the
    ladder.
    """
    registry = _load(BUILT_IN, origin="built-in")
    if config is None:
        config = Path.cwd() / CONFIG_NAME
        if not config.is_file():
            return registry
    file = config.resolve()
    for key, spec in _load(file, origin=str(file)).items():
        if key in registry:
            TomlFile(file).fail(
                ("kernels", key),
                "",
                "is the key of a built-in kernel",
                f"Choose another key, such as my-{key}.",
            )
        if key in GROUPS:
            TomlFile(file).fail(("kernels", key), "", "stands for several kernels", "Choose another key.")
        registry[key] = spec
    return registry


def resolve(keys: Iterable[str], registry: Mapping[str, KernelSpec]) -> list[KernelSpec]:
    """The kernels asked for, each once, in the order asked for.

    A key may be a pattern (`k6*`), `ladder` (every built-in kernel) or `all` (the whole registry). Raises
    UsageError with near matches for what fits no kernel.
    """
    found: dict[str, KernelSpec] = {}
    for key in keys:
        matches = _matches(key, registry)
        if not matches:
            near = difflib.get_close_matches(key, registry, n=3, cutoff=0.5)
            hint = f"Did you mean {' or '.join(near)}? " if near else ""
            raise UsageError(
                f"there is no kernel {key!r}",
                f"{hint}Known: {', '.join(registry)}. "
                f"Your own kernels go into ./{CONFIG_NAME}: see perfkit kernels --new.",
            )
        found.update((match, registry[match]) for match in matches)
    if not found:
        raise UsageError("no kernel was named", f"Known: {', '.join(registry)}.")
    return list(found.values())


def _matches(key: str, registry: Mapping[str, KernelSpec]) -> list[str]:
    if key in registry:
        return [key]
    if key == "all":
        return list(registry)
    if key == "ladder":
        return [name for name, spec in registry.items() if spec.origin == "built-in"]
    return fnmatch.filter(registry, key) if set(key) & set("*?[") else []


def _load(path: Path, origin: str) -> dict[str, KernelSpec]:
    file = TomlFile(path)
    file.check_keys((), file.data, ("kernels", "defaults"))
    for name in ("kernels", "defaults"):
        if not isinstance(file.data.get(name, {}), dict):
            file.fail(
                (), name, f"must be a table, not {file.data[name]!r}", f"Write [{name}.…] and its keys below."
            )
    defaults = file.data.get("defaults", {})
    file.check_keys(("defaults",), defaults, KERNEL_KEYS)
    return {
        key: kernel_spec(file, key, values, defaults, origin)
        for key, values in file.data.get("kernels", {}).items()
    }
