"""The package `perfkit.model` imports a file when a name of it is first asked for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import perfkit.model


def test_every_name_comes_from_the_file_that_type_checkers_see() -> None:
    tree = ast.parse(Path(perfkit.model.__file__).read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("perfkit.model.")
        for alias in node.names
    }
    found = {name: f"perfkit.model.{module}" for name, module in perfkit.model._WHERE.items()}
    assert found == seen
    assert {*perfkit.model.__all__} <= {*found}
    for name in found:
        assert getattr(perfkit.model, name) is not None


def test_other_names_are_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Kernl'"):
        getattr(perfkit.model, "Kernl")  # noqa: B009
