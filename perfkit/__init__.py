"""perfkit: profile, explain and document CUDA kernels with counters that can be traced.

`perfkit.load()`, `perfkit.profile()` and friends give what the command line gives, as pandas frames and
dataclasses; see perfkit.api. Nothing heavy is imported until one of them is used.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Profile", "__version__", "bench", "check", "check_model", "compare", "load", "profile"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from perfkit import api

        return getattr(api, name)
    raise AttributeError(f"module 'perfkit' has no attribute {name!r}")
