"""Set-up lines of a site that are wrong or hostile: the job ends as it should, with a line that names the cause."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from tests.examples import cases

SPEC = """\
name: lines
framework: torch
command: [bash, -c, 'echo $PWD $DLRUN_NODES $DLRUN_JOB_DIR']
resources: {ranks_per_node: 1, walltime: 2m}
"""


def rendered(dlrun, line, *, code=0, env=None):
    """A job whose site has this set-up line, and what `render` prints on stderr."""
    site = {
        "name": "lines",
        "scheduler": {"type": "local"},
        "launcher": {"name": "local"},
        "environment": {"setup": [line]},
    }
    (dlrun.place / "lines.yaml").write_text(json.dumps(site))
    words = ("render", dlrun.spec(SPEC), "--site", "./lines.yaml", "-o", "job")
    return dlrun.place / "job", dlrun(*words, code=code, env=env).stderr


def run(dlrun, job):
    """Run the job by hand."""
    return subprocess.run(
        ["bash", "job.sh"], cwd=job, env=dlrun.environment(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip


def ended(job):
    state = json.loads((job / "state.json").read_text())
    return state["state"], state["exit_code"]


@pytest.mark.parametrize(
    "line", ["echo 'open", "if true; then", "}", "cat <<EOF", "echo $(", "((", "f() {", "case a in"]
)
def test_lines_that_would_take_the_page_into_theirs_are_refused(dlrun, line):
    job, printed = rendered(dlrun, line, code=2)
    assert "`environment.setup` of the site profile is not valid bash: line " in printed
    assert not job.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("LC_ALL", "xx_YY.UTF-8"), ("BASH_FUNC_module%%", "() { broken"), ("BASH_ENV", "/nonexistent/init")],
)
def test_what_bash_reports_about_the_users_own_environment_is_not_about_the_lines(dlrun, name, value):
    job, _ = rendered(dlrun, "module() { :; }", env={name: value})
    assert job.exists()


def test_lines_may_switch_to_extended_patterns(dlrun):
    job, _ = rendered(dlrun, "shopt -s extglob\necho !(x) >/dev/null")
    assert run(dlrun, job).returncode == 0


@pytest.mark.parametrize(
    ("line", "code", "printed"),
    cases(
        [
            ("unset PATH", 1, "PATH has no mkdir"),
            ("PATH=/nonexistent", 1, "they must add to PATH, not replace it"),
            ("no-such-command", 127, "`no-such-command` failed with exit code 127"),
            ("exit 0", 1, "a line of job.sh ended it before the ranks did"),
            ("exit 3", 3, "ended with exit code 3"),
            ("kill -TERM $$", 143, "asked to end"),
        ],
        quick=2,
    ),
)
def test_the_end_is_recorded(dlrun, line, code, printed):
    job, _ = rendered(dlrun, line)
    done = run(dlrun, job)
    assert printed in done.stdout
    assert (done.returncode, ended(job)) == (code, ("ended", code))


@pytest.mark.parametrize(
    "line",
    cases(
        [
            "cd /tmp",
            "set +e; false",
            "enable -n printf read local kill",
            "hash -p /bin/false mv; hash -p /bin/false mkdir",
            "exec 1>&-",
            "exec 2>&-",
            "exec 1>&- 2>&- 0<&-",
            "export DLRUN_NODES=7",
            "export DLRUN_JOB_DIR=/nonexistent",
            "unset DLRUN_JOB_ID DLRUN_RUN_DIR DLRUN_HOSTS DLRUN_NODES",
            "readonly DLRUN_NODES DLRUN_JOB_DIR",
            "set -- a b c; FUNCNEST=1",
            "trap 'exit 9' EXIT ERR TERM",
        ],
        quick=4,
    ),
)
def test_the_job_runs_as_without_them(dlrun, line):
    job, _ = rendered(dlrun, line)
    done = run(dlrun, job)
    assert (done.returncode, ended(job)) == (0, ("ended", 0)), done.stdout + done.stderr
    assert "failed" not in done.stdout + done.stderr
    assert (job / "logs" / "rank-0.log").read_text() == f"{dlrun.place} 1 {job}\n"


def test_a_changed_variable_of_dlrun_is_reported(dlrun):
    job, _ = rendered(dlrun, "DLRUN_NODES=7")
    assert "a set-up line has changed DLRUN_NODES, which is dlrun's: it is 1 again" in run(dlrun, job).stdout


@pytest.mark.slow
def test_a_copy_of_a_job_directory_does_not_write_to_the_first(dlrun):
    job, _ = rendered(dlrun, "true")
    copy = shutil.copytree(job, dlrun.place / "copy")
    for words, place in ((["bash", "job.sh"], copy), (["bash", copy / "job.sh"], dlrun.place)):
        done = subprocess.run(
            words, cwd=place, env=dlrun.environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        assert "job.sh is a copy: its DLRUN_JOB_DIR is " in done.stdout
    assert not (job / "state.json").exists()
    script = copy / "job.sh"
    script.write_text(script.read_text().replace(f"DLRUN_JOB_DIR={job} ", f"DLRUN_JOB_DIR={copy} "))
    assert run(dlrun, copy).returncode == 0
    assert ended(copy) == ("ended", 0)
    # A second mount of the same directory has the same file in another directory.
    elsewhere = dlrun.place / "elsewhere"
    shutil.copytree(job, elsewhere, copy_function=os.link)
    assert run(dlrun, elsewhere).returncode == 0
    assert ended(job) == ("ended", 0)
    other = shutil.copytree(job, dlrun.place / "other")
    (other / "job.sh").write_text("# another job's\n")
    spooled = dlrun.place / "slurm_script"
    shutil.copy(job / "job.sh", spooled)
    done = subprocess.run(["bash", spooled], cwd=other, env=dlrun.environment(), timeout=60, check=False)
    assert done.returncode == 0
