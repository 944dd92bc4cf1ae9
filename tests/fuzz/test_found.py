"""What fuzzing found, one case each."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import re
import resource
from types import SimpleNamespace

import pytest

from dlrun import backends
from dlrun.config.document import parse
from dlrun.config.topology import read_topology
from dlrun.errors import Invalid, OperationFailed
from dlrun.importing import read_script, statement
from dlrun.importing.text import spec_text
from dlrun.importing.words import names_in
from dlrun.jobs.logs import files, merge
from dlrun.jobs.records import bad_nodes, directories, plans, submission, validation
from dlrun.jobs.submission import files as job_files
from dlrun.model.json_codec import from_plain
from dlrun.model.origin import Layer, Origin
from dlrun.render.script import plan_json
from dlrun.trials.tune import run
from dlrun.usage import live
from dlrun.why import evidence
from dlrun.why.context import slow_links
from tests import forked
from tests.fuzz import clusters
from tests.fuzz.areas import PLAIN, ROOT, SLURM
from tests.making import plan_of, scripts_of

QSTAT = "Job Id: 12.server\n    job_state = F\n    exit_status = {}\n    run_count = {}\n"


def test_each_line_of_a_long_script_is_searched_a_few_times(monkeypatch):
    searched = 0

    def counted(source):
        nonlocal searched
        searched += 1
        return names_in(source)

    monkeypatch.setattr(statement, "names_in", counted)
    text = "#!/bin/bash\n" + "".join(f"v{i}=1\n" for i in range(300)) + "srun ./a\n"
    assert "setup" not in read_script(text, "a.sh").values.get("environment", {})
    assert 300 <= searched < 300 * 20


def test_a_number_of_a_plan_beyond_all_floats():
    with pytest.raises(ValueError, match=r"1000.* is too large"):
        from_plain(float, 10**400)


@pytest.mark.parametrize("status", ["--1", "-", "-²", "²", "9" * 5000, "-2]e"])
@pytest.mark.parametrize("runs", ["1", "²", "9" * 5000])
def test_numbers_of_pbs_that_are_none(status, runs):
    for name in ("openpbs", "torque"):
        for read in (backends.scheduler(name).parse_queue, backends.scheduler(name).parse_history):
            read(QSTAT.format(status, runs))


@pytest.mark.parametrize("zone", ["+99:00", "-24:00", "+31:00", "+0099", "Z"])
def test_a_zone_that_there_is_not(tmp_path, zone):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-0.log").write_text(f"2026-11-22T15:22:39.5{zone} hello\nworld\n")
    assert [line for _, line in merge.merged(files.find(tmp_path, "all"))]


def test_an_encoding_that_there_is_not():
    with pytest.raises(ValueError, match="encoding"):
        read_topology('<?xml version="1.0" encoding="UnanF-8"?><topology/>')


def test_a_number_of_a_plan_beyond_all_others(tmp_path):
    plan = json.loads(plan_json(plan_of(tmp_path, PLAIN, SLURM)))
    plan["request"]["nodes"] = -(10**400)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(Invalid, match=r"nodes: -1000.* is not between 1"):
        plans.read_plan(tmp_path / "plan.json")


def test_a_plan_of_services_alone(tmp_path):
    plan = json.loads(plan_json(plan_of(tmp_path, PLAIN, SLURM)))
    for role in plan["roles"]:
        role["service"] = True
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(Invalid, match="every role is a service"):
        scripts_of(plans.read_plan(tmp_path / "plan.json"))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("launch", "unset"), ["'"], "launch.unset"),
        (("launch", "unset"), ["X; touch /tmp/x"], "launch.unset"),
        (("directory",), "\0", "NUL"),
        (("directory",), "\ud800", "surrogate"),
        (("stage_directory",), None, "stage_directory"),
        (("secrets",), [{"name": "A", "env": "'"}], "env"),
        (("secrets",), [{"name": "A; x", "env": "A"}], "name"),
        (("roles", 0, "files"), ["../../../.ssh/id_ed25519"], "files"),
        (("roles", 0, "ready"), "'", "bash cannot read"),
        (("rendezvous", "address"), {"shell": '$(x "'}, "bash cannot read"),
        (("directives", 0, "text"), "--x\nrm -rf x", "text"),
        (("request", "nodes"), -1, "between"),
        (("request", "nodes"), 10**30, "between"),
    ],
)
def test_a_plan_that_was_edited(tmp_path, path, value, message):
    plan = json.loads((ROOT / "tests/golden/slurm-srun-staged/plan.json").read_text())
    node = plan
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(Invalid, match=message):
        job_files.files(plans.read_plan(tmp_path / "plan.json"), None, tmp_path / "job")


@pytest.mark.parametrize("golden", ["openpbs-ssh-sweep", "slurm-ssh-rocm"])
@pytest.mark.parametrize(
    "words",
    [
        ["x"],
        ["a", "b", "c", "d", "ssh"],
        ["a", "b", "c", "d", "\u00b2", "ssh"],
        ["a", "b", "c", "d", "-1", "ssh"],
    ],
)
@pytest.mark.parametrize("threads", ["4,2", "", "\u00b2"])
def test_numbers_of_a_plan_that_are_none_now(tmp_path, golden, words, threads):
    """The number of words of the ssh command, and that of threads; such a plan has its page all the same."""
    plan = json.loads((ROOT / "tests/golden" / golden / "plan.json").read_text())
    for role in plan["roles"]:
        role["launch"] = words
        for variable in role["variables"]:
            if variable["name"] == "OMP_NUM_THREADS":
                variable["value"] = threads
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert (
        "#!/bin/bash"
        in job_files.files(plans.read_plan(tmp_path / "plan.json"), None, tmp_path / "job")["job.sh"]
    )


def test_a_note_of_a_time_beyond_all_floats(tmp_path):
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures/rank-1").write_text(f"{'9' * 400} rank 1 n1 7 x\n")
    assert evidence.notes(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    ['{"Jobs": "x"}', '"Jobs":"x"\n"Jobs":{\n"1":{\n"a":0x1F\n}', '"Jobs":{\n"1":"x"\n"1":{\n"a":"b"\n}\n}'],
)
def test_jobs_of_pbs_that_are_texts(text):
    assert isinstance(backends.scheduler("openpbs").parse_queue(text), dict | list)


@pytest.mark.parametrize("odd", ["1", "NaN", "1e999", "-1", "9" * 400, "[]", "null", '"x"'])
def test_what_a_run_wrote_of_itself_and_cannot_be(tmp_path, odd):
    (tmp_path / "state.json").write_text(
        f'{{"state": "ended", "started": {odd}, "ended": {odd}, "exit_code": {odd}, "restarts": {odd}, "host": {odd}}}'
    )
    found = validation.run_state(tmp_path)
    assert found.pop("state") == "ended"
    assert set(found.values()) <= {1, "x"}
    validation.clock(found.get("started"))


def test_a_time_of_too_many_digits(tmp_path):
    (tmp_path / "bad-nodes").write_bytes(b"n1 " + b"9" * 5000 + b" slow\nn2 99999999999 \xff disk\n")
    assert list(bad_nodes.read(tmp_path)) == ["n2"]


@pytest.mark.parametrize("kind", ["scaling study", "tuning"])
def test_a_study_that_was_ended_before_its_record(tmp_path, kind):
    """What a kill or a full disk leaves is no obstacle; what is somebody's own is."""
    assert directories.is_free(tmp_path / "new", kind)
    assert directories.is_free(tmp_path, kind)
    (tmp_path / "thesis.tex").touch()
    assert not directories.is_free(tmp_path, kind)
    with pytest.raises(FileExistsError):
        directories.begin(tmp_path, kind, ())
    directories.begin(tmp_path / "new", kind, ("a.json", "jobs/"))
    (tmp_path / "new/jobs").mkdir()
    assert directories.is_free(tmp_path / "new", kind)
    assert not directories.is_free(tmp_path / "new", "another")
    directories.begin(tmp_path / "new", kind, ("a.json", "jobs/"))
    assert directories.write_table(tmp_path / "new/table", b"one")
    assert directories.write_table(tmp_path / "new/table", b"two")
    (tmp_path / "new/table").write_bytes(b"mine")
    assert not directories.write_table(tmp_path / "new/table", b"three")
    assert (tmp_path / "new/table").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("command", "answer", "message"),
    [
        ("scontrol -o show partition", "MaxTime=1-0", "PartitionName"),
        ("scontrol -o show partition", "PartitionName=a MinNodes=x", "invalid literal"),
        ("scontrol -o show node", "Sockets=2", "NodeName"),
        ("flux queue list", f"a|{'9' * 400}|inf|0|0", "infinity"),
        (
            "flux resource R",
            '{"execution": {"R_lite": [{"rank": "0-999999,0-999999", "children": {}}], "nodelist": []}}',
            "range of numbers",
        ),
        ("flux resource R", "[" * 100_000, "recursion"),
        ("pbsnodes -a -F", '{"nodes": {"n1": 5}}', "not iterable"),
        ("qhost", "<!DOCTYPE x>", "entities|read"),
    ],
)
def test_an_answer_about_a_cluster_that_cannot_be_read(tmp_path, command, answer, message, monkeypatch):
    name = next(name for name, known in clusters.answers().items() if command in known)
    monkeypatch.setattr(clusters, "spoilt", lambda text, chance: answer)
    chance = random.Random(1)
    monkeypatch.setattr(chance, "choice", lambda names: name)
    monkeypatch.setattr(chance, "sample", lambda names, count: [command])
    with pytest.raises(OperationFailed, match=message):
        clusters.case(tmp_path, chance)


def test_directories_beside_the_trials_of_a_tuning(tmp_path):
    for name in ("²-x", "3x-y", "007-z", "9" * 200):
        (tmp_path / "trials" / name).mkdir(parents=True)
    tuning, coming = (
        SimpleNamespace(directory=tmp_path),
        SimpleNamespace(candidate=SimpleNamespace(name="a/b")),
    )
    assert run._directory(tuning, coming).name == "008-a-b"


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "{}",
        '{"event": "slow"}',
        '{"event": "slow", "host": [1], "rate": 1e999, "others": "x"}',
        "[" * 99999,
    ],
)
def test_events_of_staging_that_cannot_be(tmp_path, line):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/stage-0.jsonl").write_text(f"{line}\n")
    assert slow_links.slow_nodes(tmp_path) == ""


def test_a_fifo_in_the_place_of_a_log_is_not_waited_for(tmp_path):
    """A program may make what it likes in its job's directory, and `why`, `top` and `report` come by there."""
    for name in ("logs/rank-0.log", "failures/rank-0", "bad-nodes"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    (log,) = files.find(tmp_path, "0")
    with pytest.raises(OSError, match="not a regular file"):
        list(files.lines(log))
    assert files.last_run(log, 100) == ""
    assert live.tail(log.path) == []
    assert evidence.notes(tmp_path) == []
    assert bad_nodes.read(tmp_path) == {}


def test_a_partition_without_a_name_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(
        clusters.answers()["scontrol"], "scontrol -o show partition", "PartitionName= State=UP"
    )
    chance = random.Random(1)
    monkeypatch.setattr(chance, "choice", lambda names: "scontrol")
    monkeypatch.setattr(clusters, "spoilt", lambda text, chance: text)
    clusters.case(tmp_path, chance)  # fails where dlrun itself does not read the profile that it made


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/bash\nmpiexec -n 2 --genv '' x python t.py\n",
        f"#!/bin/bash\n#SBATCH --ntasks-per-{'9' * 2000}=1\nsrun python t.py\n",
        f"#!/bin/bash\n# flux: --a{'9' * 2000}=1\nflux run python t.py\n",
    ],
)
def test_no_key_is_written_that_yaml_does_not_read(script):
    draft = read_script(script, "job.sh")
    assert parse(spec_text(draft, "job.sh"), Origin(layer=Layer.SPEC, name="spec.yaml")).problems == ()
    assert draft.to_check


def test_with_too_few_files_there_is_one_line(tmp_path):
    """Neither the command nor the search for a reason can open a directory."""

    def before():
        importlib.invalidate_caches()
        used = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        for _ in range(used):
            with contextlib.suppress(OSError):
                os.dup(0)

    done = forked.run(["completion", "bash"], tmp_path, before=before)
    # Which directory it was that could not be opened is a matter of the moment.
    assert done.code == 1
    assert re.fullmatch(r"error: (`\S+`: t|T)oo many open files\n", done.stderr)


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e400])
def test_a_number_of_a_record_beyond_all_floats(value):
    for record in ({"submitted": value}, {"submitting": {"since": value}}):
        with pytest.raises(validation.DamagedRecord, match=r"`submission\.json`: (submitted|since): "):
            validation.part(submission.Submission, directories.SUBMISSION, record).since()
