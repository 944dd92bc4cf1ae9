"""A job on this machine that has its data and results on node-local storage, and is cancelled: at work, and before."""

from __future__ import annotations

import getpass
import os
import re
import tarfile
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for

SITE = """\
name: here
scheduler: {{type: local}}
launcher: {{name: local}}
rendezvous: {{address: loopback}}
storage: {{node_local: {{path: '{place}/local', size: 1GB}}}}
"""


@pytest.fixture
def local(dlrun) -> Path:
    """The staging directory, whose name has the user's."""
    (dlrun.place / "site.yaml").write_text(SITE.format(place=dlrun.place))
    (dlrun.place / "local").mkdir()
    for name, count in (("few", 20), ("many", 2000)):
        (dlrun.place / name).mkdir()
        for number in range(count):
            (dlrun.place / name / f"{number}.bin").write_bytes(os.urandom(1024))
    return dlrun.place / "local"


def names(local: Path) -> set[str]:
    """What stands in the staging directory; beside it are the caches of compilers."""
    found = [*local.glob("dlrun-*/*"), *local.glob("dlrun-*/.*")]
    return {path.name for path in found if not path.parent.name.startswith("dlrun-caches-")}


def spec(dlrun: Dlrun, command: str, more: str = "") -> str:
    few = f"{{source: '{dlrun.place}/few', strategy: copy}}"
    return (
        f"site: ./site.yaml\ncommand: [bash, -c, '{command}', x, '{{{{ results }}}}']\nresources: {{walltime: 10m}}\n"
        f"data:\n  few: {few}\n{more}results: '{dlrun.place}/brought'\n"
    )


@pytest.mark.slow
def test_a_job_cancelled_at_work_brings_its_results_and_leaves_no_data(dlrun, local):
    job = dlrun.submit(spec(dlrun, 'echo done >"$1/done"; exec sleep 600'))
    wait_for(lambda: list(local.glob("dlrun-*/.results-*/done")))
    assert "few" in names(local)
    dlrun("cancel", job.name)
    assert (dlrun.place / "brought" / "done").read_text() == "done\n"
    assert names(local) == {".dlrun"}
    assert not dlrun.alive()


@pytest.mark.slow
def test_a_job_cancelled_while_its_data_comes_leaves_none(dlrun, local):
    many = f"  many: {{source: '{dlrun.place}/many', strategy: copy, rate: 20kB}}\n"  # some minutes
    job = dlrun.submit(spec(dlrun, "true", many))
    wait_for(lambda: list(local.glob("dlrun-*/.dlrun/part.many")) and "few" in names(local))
    dlrun("cancel", job.name)
    assert names(local) == {".dlrun"}
    assert not dlrun.alive()
    assert "not all results" not in (job / "logs" / "job.log").read_text()


def test_a_job_trains_on_the_content_of_an_archive(dlrun, local):
    with tarfile.open(dlrun.place / "set.tar.gz", "w:gz") as made:
        made.add(dlrun.place / "few", "few")
    one = f"  packed: {{source: '{dlrun.place}/set.tar.gz', unpack: true}}\n"
    command = 'cmp "$DLRUN_DATA_PACKED/few/7.bin" "$DLRUN_DATA_FEW/7.bin" && ls "$DLRUN_DATA_PACKED/few" >"$1/names"'
    job = dlrun.submit(spec(dlrun, command, one), "--wait")
    assert len((dlrun.place / "brought" / "names").read_text().split()) == 20
    assert names(local) == {".dlrun"}
    assert "unpacking" in "".join(path.read_text() for path in (job / "logs").glob("stage-*.log"))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make what belongs to another user")
@pytest.mark.parametrize("keep", ["job", "cache"])
def test_a_directory_that_another_user_has_taken(dlrun, local, keep):
    """As anyone can in `/tmp`: the job uses one that nobody can guess, and removes it."""
    taken = local / f"dlrun-{getpass.getuser()}"
    taken.mkdir()
    os.chown(taken, 65534, 65534)
    local.chmod(0o1777)
    more = f"  kept: {{source: '{dlrun.place}/few', strategy: copy, keep: {keep}}}\n"
    command = 'ls "$DLRUN_DATA_FEW" | wc -l >"$1/count"; echo "$DLRUN_DATA_KEPT" >"$1/where"'
    job = dlrun.submit(spec(dlrun, command, more), "--wait")
    assert (dlrun.place / "brought" / "count").read_text() == "20\n"
    noted = (job / "stage-directory").read_text().strip()
    assert re.fullmatch(rf"{taken}-[0-9a-f]{{16}}", noted)
    assert (dlrun.place / "brought" / "where").read_text() == f"{noted}/kept/data\n"
    assert f"{taken} on " in (job / "logs" / "job.log").read_text()
    assert {path.name for path in local.iterdir()} == {taken.name, f"dlrun-caches-{getpass.getuser()}"}
