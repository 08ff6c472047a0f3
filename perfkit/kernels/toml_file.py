"""Reading a TOML file so that every complaint about it names file, key and line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from perfkit.errors import ConfigError
from perfkit.user_file import read_text

_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_ASSIGNMENT = re.compile(r"^\s*(?P<name>[\w\"'.\- ]+?)\s*=")


class TomlFile:
    """A parsed TOML file. `data` is what tomllib makes of it; `fail` raises ConfigError for a key of it.

    tomllib keeps no positions, so the line of a key is found again in the text: the first assignment of that
    name under its table's header, else the header itself.
    """

    def __init__(self, path: Path) -> None:
        """Read `path`. Raises ConfigError when it cannot be read or is no TOML."""
        self.path = path
        try:
            self.text = read_text(path)
            self.data: dict[str, Any] = tomllib.loads(self.text)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be read ({error.strerror})", "Name a TOML file that exists."
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{path}: not UTF-8 text ({error.reason})", "Save the file as UTF-8."
            ) from error
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(
                f"{path}: not valid TOML: {error}", "Correct that line; see https://toml.io."
            ) from error

    def line(self, table: tuple[str, ...], key: str = "") -> int | None:
        """The line, from 1, that assigns `key` in `table`; else the table's; else None."""
        wanted = (*table, key) if key else table
        header_line = None
        current: tuple[str, ...] = ()
        for number, line in enumerate(self.text.splitlines(), start=1):
            if match := _HEADER.match(line):
                current = _split(match["name"])
                if current[: len(wanted)] == wanted:
                    return number
                if current == table:
                    header_line = number
            elif match := _ASSIGNMENT.match(line):
                assigned = (*current, *_split(match["name"]))
                if assigned == wanted:
                    return number
                # `saxpy = { grid = ... }` or `kernels.saxpy.grid`: the nearest line there is.
                if header_line is None and assigned[: len(table)] == table[: len(assigned)]:
                    header_line = number
        return header_line

    def fail(self, table: tuple[str, ...], key: str, message: str, remedy: str = "") -> NoReturn:
        """Raise ConfigError for `key` of `table`, with its line."""
        line = self.line(table, key)
        where = f"{self.path}:{line}" if line else str(self.path)
        name = " ".join(part for part in (f"[{'.'.join(table)}]" if table else "", key) if part)
        raise ConfigError(f"{where}: {name}: {message}", remedy)

    def check_keys(self, table: tuple[str, ...], found: Iterable[str], known: Iterable[str]) -> None:
        """Raise ConfigError for the first key that is not known, with a near match."""
        known = list(known)
        for key in found:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"Did you mean {near[0]}? " if near else ""
                self.fail(table, key, "is not a known key", f"{hint}Known keys: {', '.join(known)}.")


def _split(name: str) -> tuple[str, ...]:
    """`kernels."my kernel".x` as its parts."""
    return tuple(part.strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.\s]+", name))
