"""The code keeps the size that one person can hold in mind (CONTRIBUTING.md)."""

from __future__ import annotations

from tests import house

MODULES = house.modules()
FUNCTIONS = {name: length for module in MODULES for name, length in module.functions.items()}


def test_modules_are_short():
    assert {module.name: module.lines for module in MODULES if module.lines > 400} == {}
    assert house.share([module.lines for module in MODULES], 0.5) <= 100


def test_functions_are_short():
    assert {name: length for name, length in FUNCTIONS.items() if length > 80} == {}
    assert house.share([*FUNCTIONS.values()], 0.95) <= 40


def test_folders_hold_twenty_modules_at_most():
    crowded = {name: count for name, count in house.folders().items() if count > 20}
    assert set(crowded) <= house.EQUALS, crowded
