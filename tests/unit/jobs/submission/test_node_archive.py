"""`node.pyz` kept between runs: taken while its sources are the same, made anew whenever something is wrong."""

from __future__ import annotations

import os

import pytest

from dlrun.jobs.submission import node_archive
from dlrun.node import bundle


@pytest.fixture
def made(monkeypatch, tmp_path) -> list[None]:
    """One entry for each time that the file is made; it is kept below `tmp_path`."""
    times: list[None] = []
    whole = bundle.archive

    def archive(programs, package):
        times.append(None)
        few = {name: programs[name] for name in ("__init__.py", "text.py") if name in programs}
        return whole(few, package)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(bundle, "archive", archive)
    return times


def file(tmp_path):
    (found,) = (tmp_path / "cache" / "dlrun").iterdir()
    return found


@pytest.mark.slow
def test_what_is_kept_is_what_would_be_made(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whole = bundle.archive()
    assert node_archive.content() == whole
    monkeypatch.delattr(bundle, "archive")
    assert node_archive.content() == whole


def test_a_changed_source_is_compiled_anew_and_replaces_what_was_kept(made, monkeypatch, tmp_path):
    first = node_archive.content()
    changed = {**bundle.sources(), "text.py": b"X = 1\n"}
    monkeypatch.setattr(bundle, "sources", lambda part: changed)
    monkeypatch.setattr(bundle, "sizes_and_times", lambda part: [("text.py", 6, 1)])
    second = node_archive.content()
    assert second != first
    assert node_archive.content() == second
    assert len(made) == 2
    assert file(tmp_path).read_bytes().endswith(second)


@pytest.mark.parametrize("make", [node_archive.content, node_archive.sampler])
def test_what_another_maker_made_is_not_taken(monkeypatch, tmp_path, make):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first, same = make(), bundle.sizes_and_times()
    maker = tmp_path / "bundle.py"
    maker.write_text("another\n")
    monkeypatch.setattr(bundle, "sizes_and_times", lambda part: same)
    monkeypatch.setattr(bundle, "sources", lambda part: {})
    make()
    monkeypatch.setattr(bundle, "single_file", lambda *_: b"new")
    monkeypatch.setattr(bundle, "archive", lambda *_: b"new")
    assert make() != b"new" != first
    monkeypatch.setattr(bundle, "__file__", str(maker))
    assert make() == b"new"


def test_each_source_has_its_mark():
    assert [name for name, _, _ in bundle.sizes_and_times()] == list(bundle.sources())


def test_each_python_has_a_file_of_its_own(made, monkeypatch, tmp_path):
    node_archive.content()
    monkeypatch.setattr(node_archive.sys, "version", "3.99.0")
    node_archive.content()
    assert len(made) == len(list((tmp_path / "cache" / "dlrun").iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1], lambda data: b"x" * 99])
def test_a_damaged_file_is_written_anew(made, tmp_path, damage):
    content = node_archive.content()
    file(tmp_path).write_bytes(damage(file(tmp_path).read_bytes()))
    assert [node_archive.content(), node_archive.content()] == [content, content]
    assert len(made) == 2


def test_another_users_file_is_not_read(made, monkeypatch):
    node_archive.content()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    node_archive.content()
    assert len(made) == 2


def test_where_nothing_can_be_kept_it_is_made_each_time(made, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert node_archive.content() == node_archive.content()
    assert len(made) == 2


def test_the_directory_is_the_users_alone(made, tmp_path):
    node_archive.content()
    assert (tmp_path / "cache" / "dlrun").stat().st_mode & 0o777 == 0o700


def test_the_sampler_travels_by_itself_in_one_module(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    programs = bundle.sources(bundle.SAMPLER)
    assert sorted(programs) == [name for name, _, _ in bundle.sizes_and_times(bundle.SAMPLER)]
    text, _, _ = node_archive.sampler().decode().partition("class Sources")
    read: dict[str, dict[str, str]] = {}
    exec(text, read)
    assert list(read["SOURCES"].values()) == [source.decode() for source in programs.values()]
    assert "sampler.py" in programs
    assert not [name for name in bundle.sources() if name.startswith(bundle.SAMPLER)]
