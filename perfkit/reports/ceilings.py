"""Measured ceilings as a small JSON file, so that a roofline drawn elsewhere can use them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from perfkit.errors import ConfigError
from perfkit.model.traced import Ceiling
from perfkit.user_file import read_text

SCHEMA_VERSION = 1


def write_ceilings(ceilings: Sequence[Ceiling]) -> str:
    """The file's text."""
    entries = [asdict(ceiling) for ceiling in ceilings]
    for entry in entries:
        del entry["counters"]  # what was measured was not computed from a launch's
    document = {"schema_version": SCHEMA_VERSION, "ceilings": entries}
    return json.dumps(document, indent=1) + "\n"


def read_ceilings(path: Path) -> tuple[Ceiling, ...]:
    """The ceilings of a file that `write_ceilings` made. Raises ConfigError naming the file."""
    remedy = "Make it with `perfkit roofline --measure --ceilings FILE` on the GPU."
    try:
        document = json.loads(read_text(path))
        found = tuple(Ceiling(**entry) for entry in document["ceilings"])
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", remedy) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} holds no measured ceilings: {error}", remedy) from None
    if any(not isinstance(one.value, (int, float)) or not one.value > 0 for one in found):
        raise ConfigError(f"{path}: a ceiling is no positive number", remedy)
    return found
