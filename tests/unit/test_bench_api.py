"""`perfkit.bench` and friends: they exist, and refuse as the command line does."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfkit
from perfkit.errors import PerfkitError, UsageError


@pytest.mark.parametrize("name", perfkit.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(perfkit, name) is not None


def test_unknown_kernels_and_sizes_are_refused_before_a_gpu_is_asked_for() -> None:
    with pytest.raises(UsageError, match="no kernel 'k66'"):
        perfkit.bench("k66")
    with pytest.raises(UsageError, match="multiple of 128"):
        perfkit.bench("k6", n=1000)
    with pytest.raises(UsageError, match="no kernel"):
        perfkit.compare("k6", "nothing", n=1024)


def test_the_model_of_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(PerfkitError, match="no run"):
        perfkit.check_model(tmp_path)
