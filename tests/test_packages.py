"""Each package says what lives there, and names only modules that it has."""

from __future__ import annotations

import ast
import re

import pytest

from tests import house

PACKAGES = sorted(house.PACKAGE.rglob("__init__.py"))


def test_a_folder_with_modules_is_a_package():
    """One without `__init__.py` works in a checkout, and not in `dlrun.pyz`."""
    folders = {path.parent for path in house.PACKAGE.rglob("*.py")}
    assert {path for path in folders if not (path / "__init__.py").exists()} == set()


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.relative_to(house.ROOT).as_posix())
def test_a_package_says_where_to_begin(path):
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    assert text
    begin = " ".join(re.findall(r"(?:Begin with|Read in this order:) (.*?)[.;]", text.replace("\n", " ")))
    named = set(re.findall(r"`([a-z_0-9]+)`", begin))
    assert named <= {one.stem for one in path.parent.iterdir()}
