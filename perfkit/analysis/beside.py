"""The JSON files that perfkit stores beside a report: read as what they are, files that anybody can write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perfkit.user_file import read_bytes


def read_json(path: Path) -> tuple[Any, str]:
    """The content of a JSON file and "", or None and what is wrong with it. A missing file is (None, "")."""
    try:
        content = json.loads(read_bytes(path))
    except FileNotFoundError:
        return None, "it is a link to a file that does not exist" if path.is_symlink() else ""
    except OSError as error:
        return None, f"it cannot be read ({error.strerror or error})"
    except (ValueError, RecursionError) as error:
        return None, f"it is not JSON ({error})"
    # None stands for a missing file, and no file of perfkit's holds nothing.
    return content, "it holds nothing (null)" if content is None else ""
