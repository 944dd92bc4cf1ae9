"""A secret in a URL, a header, a variable and a script: no command leaves it in a file, an output, the list of processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, Ran
from tests.cli.test_secrets import (  # noqa: F401 - a fixture
    C,
    command_lines,
    everything_below,
    guarded,
    with_credentials,
)

MEASURED = """\
run: 'test ${#MY_API_KEY} = 16; echo throughput: 5 samples/s; echo throughput: 6 samples/s'
resources: {ranks_per_node: 1}
secrets: {MY_API_KEY: {env: MY_VARIABLE}}
"""
OLD = f"""\
#!/bin/bash
#SBATCH --nodes=1
export HF_TOKEN={C}
URL="https://me:{C}@host/f?X-Amz-Signature={C}"
curl -H "Authorization: Bearer {C}" $URL
rsync -a me:{C}@host:/set me%3A{C}@host:/set .
curl "https://host/f?next=https%3A%2F%2Fme%3A{C}%40host"
API_KEY={C} srun python train.py --token $HF_TOKEN --from $URL
"""


@contextmanager
def watched() -> Iterator[None]:
    """Look at the command lines of all processes as often as possible; fails if one has the canary."""
    over, found = threading.Event(), []

    def look() -> None:
        while not over.is_set():
            found.extend(line for line in command_lines().split(b"\n") if C.encode() in line)
            time.sleep(0.002)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert found == []


def clean(dlrun: Dlrun, printed: list[Ran], *except_files: str) -> None:
    """Nothing that was printed or written has the canary; files of the user's that have it are named."""
    for ran in printed:
        assert C not in ran.stdout + ran.stderr
    for place in (dlrun.place, dlrun.jobs.parent):
        for path in place.rglob("*"):
            if path.is_file() and path.name not in except_files:
                assert C.encode() not in path.read_bytes(), path


def after(dlrun: Dlrun, job: str, env: dict[str, str]) -> list[Ran]:
    """The output of each command that tells something about a job."""
    words = (
        "list", "list --json", f"status {job}", f"status {job} --json", f"logs {job} --rank all", f"logs {job} --merge",
        f"why {job}", f"why {job} --json", f"results {job} --json", f"usage {job} --json", f"report {job} -o r.html --force",
        f"report {job} --json", f"top {job} --once", f"explain MY_API_KEY {job}", f"explain secrets {job}", "clean --json",
        f"resubmit {job}", f"render {job}", f"cancel {job}",
    )  # fmt: skip
    return [dlrun(*line.split(), env=env, code=None) for line in words]


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["", "; exit 3"])
def test_no_command_about_a_job_has_it(dlrun, guarded, ends):  # noqa: F811
    guarded.gate.set()
    url = f"http://127.0.0.1:{guarded.server_port}"
    env = {"MY_URL": f"{url}/f?X-Amz-Signature={C}", "MY_VARIABLE": C}
    name = with_credentials(dlrun, url)
    text = (
        (dlrun.place / name).read_text().replace("secrets: {", "secrets: {MY_API_KEY: {env: MY_VARIABLE}, ")
    )
    (dlrun.place / name).write_text(text.replace("/g'", f"/g{ends}'"))
    with watched():
        printed = [dlrun(*line.split(), env=env, code=None) for line in (
            "plan spec.yaml", "plan spec.yaml --json", "plan spec.yaml -o saved.json", "render spec.yaml",
            "submit --dry-run spec.yaml",
                        "submit spec.yaml --wait --job-dir job", "submit saved.json --wait --job-dir again", "run spec.yaml",
            "stage-data spec.yaml --to elsewhere", "stage-data --list --to elsewhere --json",
        )]  # fmt: skip
        assert [ran.code for ran in printed[:5]] == [0] * 5
        assert (printed[5].code == 0) == (not ends), printed[5]
        printed += after(dlrun, "job", env)
    clean(dlrun, printed)


@pytest.mark.slow
def test_studies_do_not_have_it(dlrun):
    env = {"MY_VARIABLE": C}
    dlrun.spec(MEASURED)
    with watched():
        printed = [dlrun(*line.split(), env=env) for line in (
            "scale spec.yaml --ranks-per-node 1,2 --repeat 1 --out study", "scale show study --json",
            "scale spec.yaml --out study",
            "tune spec.yaml --only --try placement.threads=1 --length 1s --repeat 1 --budget 1 --out tuning",
            "tune tuning --show",
            "clean study tuning --json",
        )]  # fmt: skip
    clean(dlrun, printed)


def test_a_batch_script_with_it_is_imported_without(dlrun):
    (dlrun.place / "old.sbatch").write_text(OLD)
    printed = [
        dlrun("import", "old.sbatch", *words, code=None) for words in ((), ("-o", "new.yaml"), ("--json",))
    ]
    assert "HF_TOKEN" in (dlrun.place / "new.yaml").read_text()
    clean(dlrun, printed, "old.sbatch")


def test_a_command_that_shows_it_to_others_has_a_warning(dlrun):
    dlrun.spec("run: true --token $T\nresources: {ranks_per_node: 1}\nsecrets: {T: {env: MY_VARIABLE}}\n")
    said = dlrun("submit", "spec.yaml", "--wait", env={"MY_VARIABLE": C}).stderr
    assert "every user of a node can read with `ps` (DLR130)" in said


@pytest.mark.parametrize("place", ["dlrun", "jobs"])
def test_the_test_sees_what_is_written(dlrun, place):
    path: Path = (dlrun.place if place == "dlrun" else dlrun.jobs) / "x" / "y"
    path.parent.mkdir(parents=True)
    path.write_text(f"a {C}")
    with pytest.raises(AssertionError):
        clean(dlrun, [])
    assert C.encode() in everything_below(path.parent)
