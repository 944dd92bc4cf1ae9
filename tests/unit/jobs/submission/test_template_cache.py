"""Compiled templates kept between runs: taken when they fit, made anew whenever something is wrong."""

from __future__ import annotations

import os

import jinja2
import pytest

from dlrun.jobs.submission import template_cache
from dlrun.jobs.submission.template_cache import Compiled, cached


@pytest.fixture
def place(tmp_path):
    (tmp_path / "a.j2").write_text("one {{ x }}")
    return tmp_path


def render(place, store: Compiled) -> tuple[str, int]:
    """A rendering by way of the store, and how many templates had to be compiled for it."""
    count = 0

    class Counting(jinja2.Environment):
        def compile(self, *args, **kwargs):
            nonlocal count
            count += 1
            return super().compile(*args, **kwargs)

    environment = Counting(loader=jinja2.FileSystemLoader(place), bytecode_cache=store)
    text = environment.get_template("a.j2").render(x=7)
    store.save()
    return text, count


def test_the_second_run_compiles_nothing(place):
    assert render(place, Compiled(place / "store")) == ("one 7", 1)
    assert render(place, Compiled(place / "store")) == ("one 7", 0)
    assert {path.name for path in place.iterdir()} == {"store", "a.j2"}


def test_a_changed_template_is_compiled_anew(place):
    render(place, Compiled(place / "store"))
    (place / "a.j2").write_text("two {{ x }}")
    assert render(place, Compiled(place / "store")) == ("two 7", 1)
    assert render(place, Compiled(place / "store")) == ("two 7", 0)


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: data + b"x", lambda data: b"x" * 99]
)
def test_a_damaged_file_is_written_anew(place, damage):
    render(place, Compiled(place / "store"))
    (place / "store").write_bytes(damage((place / "store").read_bytes()))
    assert render(place, Compiled(place / "store")) == ("one 7", 1)
    assert render(place, Compiled(place / "store")) == ("one 7", 0)


def test_another_users_file_is_not_read(place, monkeypatch):
    render(place, Compiled(place / "store"))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert render(place, Compiled(place / "store")) == ("one 7", 1)


def test_a_place_that_cannot_be_written_is_no_fault(place):
    (place / "file").touch()
    assert render(place, Compiled(place / "file/store")) == ("one 7", 1)


def test_without_a_cache_each_run_compiles(place):
    assert render(place, Compiled(None)) == ("one 7", 1)
    assert render(place, Compiled(None)) == ("one 7", 1)


def test_each_version_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = cached()._path
    assert first.parent == tmp_path / "dlrun"
    assert cached()._path == first
    monkeypatch.setattr(template_cache, "__version__", "0.0.0")
    assert cached()._path != first
