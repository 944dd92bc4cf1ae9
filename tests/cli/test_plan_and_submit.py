"""What is shown is what is submitted: plan, render, dry run and the job directory agree to the byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dlrun.jobs.clusters.environment import clean

SPEC = "command: [echo, 'it''s', $HOME, '{{ world_size }}']\nresources: {ranks_per_node: 2, walltime: 5m}\n"


@pytest.mark.slow
def test_a_dry_run_prints_what_submit_writes(dlrun):
    spec = dlrun.spec(SPEC)
    shown = dlrun("submit", spec, "--dry-run", "--job-dir", "here")
    assert "nothing was submitted" in shown.stderr
    assert not (dlrun.place / "here").exists()
    all_files = json.loads(dlrun("submit", spec, "--dry-run", "--json", "--job-dir", "here").stdout)["files"]
    dlrun("render", spec, "-o", "here")
    rendered = {name: (dlrun.place / "here" / name).read_text() for name in all_files}
    (dlrun.place / "here").rename(dlrun.place / "rendered")
    dlrun("submit", spec, "--job-dir", "here", "--wait")
    written = {name: (dlrun.place / "here" / name).read_text() for name in all_files}
    assert written == all_files
    assert f"{written['job.sh']}\n--- rank.sh ---\n{written['rank.sh']}" == shown.stdout
    assert rendered == written
    assert (dlrun.place / "here" / "spec.yaml").read_text() == (dlrun.place / spec).read_text()
    assert (dlrun.place / "here" / "site.yaml").read_text().startswith("# One machine")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["submit", "--dry-run"], "nothing was submitted"),
        (["render"], "dlrun plan --script"),
        (["render", "--rank"], "-o"),
    ],
    ids=["dry run", "render", "render rank"],
)
def test_a_page_goes_into_a_file(dlrun, arguments, says):
    """Whole, as a pipe gets it, for review and diff; how to get the directory that could run is said beside it."""
    spec = dlrun.spec(SPEC)
    with (dlrun.place / "page.sh").open("w") as file:
        ran = dlrun.start(*arguments, spec, stdout=file)
        assert says in ran.communicate(timeout=60)[1]
    assert ran.returncode == 0
    assert (dlrun.place / "page.sh").read_text() == dlrun(*arguments, spec).stdout


def test_a_dry_run_makes_nothing_at_all(dlrun):
    for arguments in (["submit", "--dry-run"], ["plan"], ["render"], ["plan", "--json"]):
        dlrun(*arguments, dlrun.spec(SPEC))
    assert not dlrun.jobs.exists()
    assert not dlrun.alive()


def test_a_saved_plan_is_submitted_exactly(dlrun):
    dlrun("plan", dlrun.spec(SPEC), "-o", "plan.json", "--set", "resources.walltime=7m")
    before = (dlrun.place / "plan.json").read_text()
    (dlrun.place / "spec.yaml").write_text("broken")
    (dlrun.place / "elsewhere").mkdir()
    dlrun.place /= "elsewhere"
    ran = dlrun("submit", "../plan.json", "--job-dir", "job", "--wait")
    assert (dlrun.place / "job" / "plan.json").read_text() == before
    assert json.loads(before)["request"]["walltime"] == 420
    assert "it's $HOME 2" in ran.stdout.splitlines()
    dlrun("render", "../plan.json", "-o", "again")
    scripts = [(dlrun.place / name / "rank.sh").read_text() for name in ("again", "job")]
    assert "/job" not in scripts[0]
    assert scripts[0] == scripts[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "is not a plan of this version"),
        ("[1", "is not a plan"),
        ('{"version": 1, "nmae": "x"}', "unknown key `nmae`"),
        ('{"version": 1}', "the document: without `name`, `framework`, `site`, …\n"),
    ],
)
def test_what_is_no_plan(dlrun, text, says):
    (dlrun.place / "plan.json").write_text(text)
    ran = dlrun("submit", "plan.json", code=2)
    assert says in ran.stderr
    assert "`dlrun plan -o`" in ran.stderr
    (dlrun.place / "plan.json").unlink()
    assert (
        "cannot read plan `plan.json`: there is no such file" in dlrun("submit", "plan.json", code=2).stderr
    )


def test_flags_cannot_change_a_saved_plan(dlrun):
    dlrun("plan", dlrun.spec(SPEC), "-o", "plan.json")
    for flag in (["--set", "resources.nodes=1"], ["--site", "workstation"]):
        assert "submitted unchanged" in dlrun("submit", "plan.json", *flag, code=2).stderr


def test_plan_is_a_page_for_people(dlrun):
    text = dlrun("plan", dlrun.spec(SPEC)).stdout
    for line in (
        r"job run on workstation \(local, torch started by local\)",
        r"  nodes +1",
        r"  ranks +2",
        r"  WORLD_SIZE +2 +1 node × 2 ranks",
        r"  walltime +5m",
        r"  OMP_NUM_THREADS +\d+ +.+",
        r"cost at most 0\.0833 node-hours",
    ):
        assert re.search(f"^{line}$", text, re.MULTILINE), line


def test_render_check_tells_an_edited_script(dlrun):
    spec = dlrun.spec(SPEC)
    dlrun("render", spec, "-o", "here")
    script = dlrun.place / "here" / "job.sh"
    assert "up to date" in dlrun("render", spec, "--check", "here/job.sh").stderr
    script.write_text(script.read_text() + "# mine\n")
    assert (
        "differs from the rendered script" in dlrun("render", spec, "--check", "here/job.sh", code=1).stderr
    )
    assert "cannot read" in dlrun("render", spec, "--check", "nothing", code=2).stderr


def test_a_job_directory_is_never_written_over(dlrun):
    spec = dlrun.spec(SPEC)
    (dlrun.place / "here").mkdir()
    (dlrun.place / "here" / "mine").touch()
    ran = dlrun("submit", spec, "--job-dir", "here", code=1)
    assert "cannot make the job directory" in ran.stderr
    assert "`--job-dir`" in ran.stderr
    assert "`-o`" in dlrun("render", spec, "-o", "here", code=1).stderr
    assert sorted(p.name for p in dlrun.place.iterdir()) == ["here", "spec.yaml"]
    assert not dlrun.alive()


@pytest.mark.slow
def test_explain(dlrun):
    spec = dlrun.spec(SPEC)
    flags = ("--set", "resources.walltime=7m")
    text = dlrun("explain", "resources.walltime", spec, *flags).stdout
    assert "resources.walltime = 7m" in text.replace("420", "7m")
    assert "--set resources.walltime=7m" in text
    assert "overrode: 5m from spec spec.yaml:" in text
    assert "rule:" in dlrun("explain", "OMP_NUM_THREADS", spec).stdout
    assert "each rank" in dlrun("explain", "WORLD_SIZE", spec).stdout
    assert "set for all jobs of site workstation" in dlrun("explain", "resources.exclusive", spec).stdout
    near = dlrun("explain", "resources.waltime", spec, code=2).stderr
    assert "the nearest is `resources.walltime`" in near
    assert dlrun("explain", "walltime", spec).stdout == dlrun("explain", "resources.walltime", spec).stdout
    assert "the nearest is `resources.walltime`" in dlrun("explain", "walltim", spec, code=2).stderr
    assert "the nearest is `MASTER_ADDR`" in dlrun("explain", "MASTER_ADR", spec, code=2).stderr
    assert "not set; partition" in dlrun("explain", "partition", spec).stdout
    assert "`dlrun plan` shows" in dlrun("explain", "nonsense", spec, code=2).stderr
    assert "ports 20000-29999" in dlrun("explain", "rendezvous", spec).stdout
    assert "in order of node index" in dlrun("explain", "DLRUN_HOSTS").stdout
    dlrun("plan", spec, "-o", "plan.json")
    assert "each rank" in dlrun("explain", "WORLD_SIZE", "plan.json").stdout
    dlrun("submit", spec, "--wait")
    assert "each rank" in dlrun("explain", "WORLD_SIZE", "latest").stdout


def test_explain_a_code(dlrun):
    text = dlrun("explain", "dlr014").stdout
    assert text.startswith("DLR014: walltime outside the limits\n")


def test_inherited_job_variables_are_kept_out_and_named(dlrun):
    hostile = {
        "SLURM_JOB_ID": "1", "SLURM_CPU_BIND": "map_cpu:0", "SBATCH_ACCOUNT": "x", "SRUN_DEBUG": "9", "PBS_JOBID": "2",
        "PMI_RANK": "7", "PMIX_RANK": "7", "OMPI_COMM_WORLD_RANK": "7", "RANK": "99", "WORLD_SIZE": "99",
        "LOCAL_RANK": "9", "MASTER_ADDR": "evil", "MASTER_PORT": "1", "DLRUN_RANK": "5", "KEEP_ME": "1",
    }  # fmt: skip
    spec = 'command: [bash, -c, \'env -0 | sort -z | tr "\\0" "\\n"\']\nresources: {ranks_per_node: 1}\n'
    ran = dlrun("submit", dlrun.spec(spec), "--wait", env=hostile)
    seen = dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line)
    gone = {name for name in hostile if name not in clean(hostile)}
    assert {n for n in hostile if n.startswith(("SLURM", "SBATCH", "SRUN", "PBS", "PMI", "OMPI"))} <= gone
    assert not {n for n in gone if n in seen and seen[n] == hostile[n]}
    assert seen["KEEP_ME"] == "1"
    assert (seen["RANK"], seen["WORLD_SIZE"], seen["DLRUN_RANK"], seen["MASTER_ADDR"]) == (
        "0",
        "1",
        "0",
        "127.0.0.1",
    )
    (said,) = [line for line in ran.stderr.splitlines() if line.startswith("not passed to the job")]
    assert all(name in said for name in gone)


def test_list_and_names_of_jobs(dlrun):
    first = dlrun.submit(SPEC, "--wait")
    second = dlrun.submit("name: other\n" + SPEC, "--wait")
    listed = [line.split()[0] for line in dlrun("list").stdout.splitlines()[1:]]
    assert listed == [second.name, first.name]
    assert dlrun("list", "--limit", "1").stdout.count("workstation") == 1
    elsewhere = dlrun("list", "--site", "elsewhere")
    assert (elsewhere.stdout, elsewhere.stderr) == (
        "",
        "no job of site `elsewhere`; `dlrun status --recent` shows all\n",
    )
    job_id = json.loads((first / "submission.json").read_text())["job_id"]
    for word in (str(first), first.name, first.name[:-2], "run", job_id, job_id.split(".")[0]):
        assert dlrun("status", word).stdout.splitlines()[1].startswith(first.name), word
    assert dlrun("status", "latest").stdout.splitlines()[1].startswith(second.name)
    third = dlrun.submit(SPEC, "--wait")
    assert dlrun("status", "run").stdout.splitlines()[1].startswith(third.name)
    assert "could be any of 2 jobs" in dlrun("status", "run-", code=2).stderr


def test_logs(dlrun):
    job = dlrun.submit(
        "command: [bash, -c, 'echo out $RANK; echo err $RANK >&2']\nresources: {ranks_per_node: 3}\n",
        "--wait",
    )
    by_rank = {w: dlrun("logs", job, "--rank", w).stdout for w in ("0", "1-2", "all", "job", "first")}
    assert [line for line in by_rank["1-2"].splitlines() if line] == [
        "[rank 1] out 1", "[rank 1] err 1", "[rank 2] out 2", "[rank 2] err 2",
    ]  # fmt: skip
    assert "out 0" in by_rank["first"]
    assert "out 1" not in by_rank["first"]
    assert "out 0" not in by_rank["job"]
    assert by_rank["all"].count("err ") == 3
    assert dlrun("logs", job, "--paths", "--rank", "2").stdout == f"{job}/logs/rank-2.log\n"
    assert (
        "has no log of rank 7; there are logs of rank 0-2;"
        in dlrun("logs", job, "--rank", "7", code=1).stderr
    )
    assert dlrun("logs", job, "--rank", "1-4,7").stderr == "no log of rank 3-4,7\n"
    for no_ranks in ("x", "3-1"):
        assert "does not name ranks" in dlrun("logs", job, "--rank", no_ranks, code=2).stderr


@pytest.mark.slow
def test_directory_is_where_the_command_runs(dlrun):
    (dlrun.place / "sub").mkdir()
    ran = dlrun("submit", dlrun.spec("command: [pwd]\ndirectory: sub\n"), "--wait")
    assert str(dlrun.place / "sub") in ran.stdout.splitlines()


def test_home_is_understood_in_paths(dlrun):
    home = Path(dlrun.environment()["HOME"])
    (home / "env" / "bin").mkdir(parents=True)
    (home / "env" / "bin" / "activate").write_text("export ACTIVATED=yes\n")
    (home / "set").mkdir()
    spec = "command: [bash, -c, 'echo $ACTIVATED $DLRUN_DATA_A $0', '{{ data.a }}']\n"
    spec += "environment: {venv: ~/env}\ndata: {a: ~/set}\n"
    ran = dlrun("submit", dlrun.spec(spec), "--wait")
    assert f"yes {home}/set {home}/set" in ran.stdout.splitlines()


@pytest.mark.parametrize("site", ["generic-openpbs", "generic-torque", "generic-gridengine"])
@pytest.mark.parametrize("name", ["a\nb", "^array_index^"])
def test_a_directory_whose_name_pbs_and_grid_engine_would_replace(dlrun, site, name):
    spec = dlrun.spec(
        f"command: [x]\nsite: {site}\nresources: {{nodes: 1, walltime: 1h, ranks_per_node: 1}}\n"
    )
    taken = "\n" in name or site == "generic-openpbs"
    said = dlrun("submit", spec, "--dry-run", f"--job-dir={name}", code=2 if taken else 0).stderr
    assert ("has a special meaning in its paths" in said) == taken
    assert (r"because `\n`" in said) == ("\n" in name)


@pytest.mark.parametrize(("name", "sign"), [("a%jb", "%j"), ("%4x", "%4x"), ("p%%q", "%%"), ("x\\y", "\\")])
def test_a_directory_whose_name_slurm_would_replace(dlrun, name, sign):
    spec = dlrun.spec("command: [x]\nsite: generic-slurm\nresources: {nodes: 1, walltime: 1h}\n")
    said = dlrun("submit", spec, "--dry-run", "--job-dir", name, code=2).stderr
    assert f"because `{sign}` has a special meaning in its paths" in said
    dlrun("submit", spec, "--dry-run", "--job-dir", "100%")
    dlrun(
        "submit",
        spec,
        "--dry-run",
        "--job-dir",
        name,
        "--site",
        "workstation",
        "--set",
        "resources.walltime=1h",
    )


def test_a_plan_shows_which_network_the_profile_has(dlrun):
    spec = dlrun.spec("command: [./train]\nresources: {nodes: 2, account: nn9999k, walltime: 1h}\n")
    assert "network: " in dlrun("plan", spec, "--site", "olivia").stdout
    spec = dlrun.spec("command: [./train]\nresources: {nodes: 2, account: g1, walltime: 1h}\n")
    assert "network (Slingshot 11): " in dlrun("plan", spec, "--site", "clariden").stdout
