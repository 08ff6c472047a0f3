"""The JSON files that perfkit stores beside a report: read as what they are, files that anybody can write."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

# The largest of a real run is some hundred kilobytes.
_LARGEST = 64 * 1024 * 1024


def read_json(path: Path) -> tuple[Any, str]:
    """The content of a JSON file and "", or None and what is wrong with it. A missing file is (None, "")."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            return None, "it is not a file"
        if found.st_size > _LARGEST:
            return None, f"it is too large ({found.st_size:,} bytes)"
        return json.loads(path.read_bytes()), ""
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"it cannot be read ({error.strerror or error})"
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"
