"""Sources on the hub, as its own library writes them."""

import errno
import shutil

import pytest

from dlrun.jobs.hubs import store
from dlrun.jobs.hubs.client import Client
from dlrun.model.data import parse_hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("source", "repository", "kind", "revision", "commit"),
    [
        ("hf://org/name", "org/name", "model", "main", None),
        ("hf://gpt2@v1.0", "gpt2", "model", "v1.0", None),
        (f"hf://org/name@{COMMIT}", "org/name", "model", COMMIT, COMMIT),
        ("hf://datasets/org/name@main", "org/name", "dataset", "main", None),
        ("hf://datasets/squad", "squad", "dataset", "main", None),
        ("hf://org/name@refs/pr/1", "org/name", "model", "refs/pr/1", None),
        ("hf://org/name@refs%2Fpr%2F1", "org/name", "model", "refs/pr/1", None),
        ("hf://datasets/org/name@refs/convert/parquet", "org/name", "dataset", "refs/convert/parquet", None),
    ],
)
def test_forms(source, repository, kind, revision, commit):
    found = parse_hub(source)
    assert (found.repository, found.kind, found.revision, found.commit) == (
        repository,
        kind,
        revision,
        commit,
    )
    assert parse_hub(str(found)) == found


@pytest.mark.parametrize(
    "source",
    ["hf://", "hf://../name", "hf://org/../x", "hf://org/name/file", "hf://org/name@main/file", "hf://spaces/org/name",
     "hf://buckets/org/name", "hf://org/name@", "hf://org/name@a%00b", "hf://org/na me", "hf:///org/name"],
)  # fmt: skip
def test_what_is_none(source):
    with pytest.raises(ValueError, match="expected `hf://ORG/NAME@REVISION`"):
        parse_hub(source)


def test_the_librarys_own_reader_agrees():
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    for source in ("hf://org/name@main", "hf://datasets/org/name@refs%2Fpr%2F1", f"hf://org/name@{COMMIT}"):
        own, found = hub.parse_hf_uri(source), parse_hub(source)
        assert (own.id, own.type, own.revision) == (found.repository, found.kind, found.revision)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_while_it_is_fetched(number):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    found = Client(parse_hub("hf://org/name"), None, print).fault(OSError(number, "no room"))
    assert "no space left for `hf://org/name@main`" in found.message
    assert "dlrun clean --yes" in found.help


@pytest.mark.parametrize("what", ["repository", "store"])
def test_what_another_dlrun_removes_while_a_store_is_listed_is_not_in_it(tmp_path, monkeypatch, what):
    place = tmp_path / "store"
    (place / "models--org--a" / "commit").mkdir(parents=True)
    place.chmod(0o700)
    assert [version.directory.name for version in store.versions(place)] == ["commit"]
    kept = store._is_own

    def removed(directory):
        owned = kept(directory) if what == "repository" else None
        shutil.rmtree(place / "models--org--a" if what == "repository" else place)
        return kept(directory) if owned is None else owned

    monkeypatch.setattr(store, "_is_own", removed)
    if what == "repository":
        (place / "models--org--b").mkdir()
        glob = type(place).glob
        monkeypatch.setattr(type(place), "glob", lambda *words: [*glob(*words), place / "models--org--a"])
    assert store.versions(place) == []
