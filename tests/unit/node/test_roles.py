"""The node program that runs the roles of a job, with a script in place of each role's own job and real servers in them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlrun.node
import pytest
from dlrun.jobs.submission.files import COORDINATOR
from dlrun.node.role import Role

from tests import processes
from tests.ports import free_port

from .programs import PYTHON, ROOT

NODE = Path(dlrun.node.__file__).parent
JOB = """\
cd "${0%/*}"
export DLRUN_RESTART=$1
echo "$1 $DLRUN_CHOSEN_HOSTS" >>starts
mkdir -p failures logs
rm -f failures/*
record() {
  printf '{"version": 1, "state": "%s", "exit_code": %s, "reason": %s, "at": %s}' $1 $2 "$3" $(date +%s%N) >.state
  mv .state state.json
}
end() { kill -s "$1" $child 2>/dev/null; }
trap 'asked=1; end TERM' TERM
trap 'end USR1' USR1
record running null null
bash run.sh >>logs/rank-0.log 2>&1 &
child=$!
if [[ -n ${asked-} ]]; then end TERM; fi
while wait $child; code=$?; ((code > 128)) && kill -0 $child 2>/dev/null; do
  if [[ -n ${asked-} ]]; then sleep 0.2; end TERM; fi
done
if [[ -n ${asked-} ]]; then record ended 143 '"asked to end"' && exit 143; fi
((code == 0)) || echo "$(date +%s%N) rank 0 here $code" >failures/rank-0
sleep "${SLOW_END:-0}"
if ((code == 99)); then touch .again && record requeued 124 null && exit 124; fi
record ended $code null
exit $code
"""
SERVER = """\
import http.server, os, sys, time
how = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        if how == "hangs":
            time.sleep(600)
        if how == "redirects":
            self.send_response(302)
            self.send_header("Location", "/other")
        elif how == "later" and Handler.asked < 4:
            self.send_response(503)
        else:
            self.send_response(200)
        self.end_headers()
    def log_message(self, *words): pass
name = os.path.basename(os.getcwd()).upper()
server = http.server.ThreadingHTTPServer(("", int(os.environ["DLRUN_ROLE_" + name + "_PORT"])), Handler)
print("serving", flush=True)
server.serve_forever()
"""
SERVE = f"exec {sys.executable} ../../server.py "
UNTIL = "until [ -e {} ]; do sleep 0.05; done; "


def role(name: str, run: str, **more: Any) -> tuple[dict[str, Any], str]:
    return {"name": name, "nodes": 1, **more}, run


def server(name: str, how: str = "well", **more: Any) -> tuple[dict[str, Any], str]:
    return role(name, SERVE + how, **{"ports": 1, "ready": {"http": "/health"}, **more})


def read(path: Path) -> str:
    """What a file holds that others may remove at any moment: nothing then."""
    try:
        return path.read_text()
    except OSError:
        return ""


class Job:
    """A job directory with these roles, and its program once it has started."""

    def __init__(self, place: Path, *roles: tuple[dict[str, Any], str], **plan: Any) -> None:
        self.place = place
        (place / "lib").mkdir(parents=True)
        for name in ("python.sh", "addresses.sh"):
            shutil.copy(ROOT / "templates" / "lib" / name, place / "lib")
        for name in COORDINATOR:
            shutil.copy(NODE / name, place)
        (place / "server.py").write_text(SERVER)
        for entry, run in roles:
            own = place / "roles" / entry["name"]
            (own / "logs").mkdir(parents=True)
            (own / "job.sh").write_text(JOB)
            (own / "run.sh").write_text(run)
        found = {"version": 1, "grace": 2, "roles": [entry for entry, _ in roles], **plan}
        (place / "roles.json").write_text(json.dumps(found))
        self.hosts = ["localhost"] * sum(entry["nodes"] for entry, _ in roles)
        self.log = place / "job.log"

    def start(self, *words: str, hosts: str = "", **variables: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DLRUN_JOB_DIR": str(self.place), "DLRUN_JOB_ID": str(self.place)}
        environment |= {"DLRUN_NODE_PYTHON": PYTHON, **variables}
        self.before = set(self.locks())  # a job that was killed long ago may have had the same process id
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [PYTHON, "-I", str(self.place / "roles.py"), hosts or ",".join(self.hosts), *words],
                env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self.process

    def run(self, *words: str, **more: str) -> str:
        """Run it to its end; its log."""
        self.start(*words, **more)
        return self.ended()

    def ended(self) -> str:
        self.process.wait(timeout=90)
        text = self.log.read_text()
        assert "Traceback" not in text, text
        await_true(lambda: not processes.of_session(self.process.pid), self.log)
        assert not self.reserved(), "a port is still reserved"
        return text

    def reserved(self) -> list[str]:
        """The ports that this job has reserved."""
        of_now = [lock for lock in self.locks() if lock not in self.before]
        return [lock.name for lock in of_now if read(lock).strip() == str(self.process.pid)]

    @staticmethod
    def locks() -> list[Path]:
        base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
        return list(Path(base, f"dlrun-ports-{os.getuid()}").glob("*"))

    @property
    def code(self) -> int | None:
        return self.process.returncode

    def record(self, name: str = "") -> dict[str, Any]:
        path = self.place / ("roles/" + name + "/role.json" if name else "state.json")
        return dict(json.loads(path.read_text()))

    def wrote(self, name: str, file: str = "logs/rank-0.log") -> str:
        return (self.place / "roles" / name / file).read_text()

    def await_state(self, name: str, state: str) -> None:
        def reached() -> bool:
            try:
                return bool(self.record(name)["state"] == state)
            except FileNotFoundError:
                return False

        await_true(reached, self.log)


def await_true(reached: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


class Spare(Job):
    """A job with one node more than its roles need; `command`: the site's check of a node."""

    HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")

    def __init__(self, place: Path, command: str, *roles: tuple[dict[str, Any], str], **spare: Any) -> None:
        super().__init__(place, *roles, spare={"nodes": 2, **spare}, requeues=1, requeue="true")
        shutil.copy(NODE / "checks" / "node_checks.py", place)
        checks = {
            "memory": None, "directory": str(place), "space": 1, "gpus": 0, "interfaces": [], "commands": [command],
            "suffix": "", "keep_out": 3600,
        }  # fmt: skip
        (place / "plan.json").write_text(json.dumps({"node_checks": checks}))
        # Of the real page what matters here: it becomes this program again, with the count of its starts.
        again = f"exec {PYTHON} -I {place}/roles.py {','.join(self.HOSTS)} env CHECKED={{host}}"
        (place / "job.sh").write_text(f"export DLRUN_RESTART=$((DLRUN_RESTART + 1))\n{again}\n")

    def run(self, *words: str, **more: str) -> str:
        return super().run("env", "CHECKED={host}", hosts=",".join(self.HOSTS), **more)

    def hosts_of(self, name: str) -> list[str]:
        return list(self.record(name)["hosts"])


IS_BAD = "[[ $CHECKED != {} ]] || {{ echo the fan is dead; false; }}"


def test_of_more_nodes_than_needed_the_good_ones_are_used(tmp_path):
    job = Spare(tmp_path, IS_BAD.format("127.0.0.2"), role("a", "true"), role("b", "true"))
    said = job.run()
    assert job.code == 0, said
    assert "node 127.0.0.2: `" in said
    assert "the fan is dead" in said
    assert "of 3 nodes these are used: 127.0.0.1,127.0.0.3" in said
    assert (job.hosts_of("a"), job.hosts_of("b")) == (["127.0.0.1"], ["127.0.0.3"])
    (bad,) = (tmp_path / "bad-nodes").read_text().splitlines()
    assert bad.startswith("127.0.0.2 ")


def test_hosts_that_are_to_be_left_out_or_were_bad_are_not_used(tmp_path):
    job = Spare(tmp_path, "true", role("a", "true"), role("b", "true"), leave_out=["127.0.0.1"])
    (tmp_path / "bad-nodes").write_text("127.0.0.2 100 long ago\n127.0.0.9 99999999999 of another job\n")
    said = job.run()
    assert "granted, but to be left out: 1 of 3 nodes" in said
    assert (job.hosts_of("a"), job.hosts_of("b")) == (["127.0.0.2"], ["127.0.0.3"]), said


@pytest.mark.parametrize("requeue", [(), ("node_failed",)])
def test_too_few_good_nodes_end_the_job_or_start_it_again(tmp_path, requeue):
    job = Spare(tmp_path, "[[ $CHECKED == 127.0.0.1 ]]", role("a", "true"), role("b", "true"))
    plan = json.loads((tmp_path / "roles.json").read_text())
    (tmp_path / "roles.json").write_text(json.dumps({**plan, "requeue_on": requeue}))
    said = job.run()
    assert "the job ends: node failed: only 1 of 3 nodes are good, and the job needs 2" in said
    assert job.record()["reason"] == "node failed"
    assert (job.record()["state"], job.code) == (("requeued", 124) if requeue else ("ended", 1))
    assert "only 1 of 3" in (tmp_path / "failures" / "node-0").read_text()
    assert not (tmp_path / "roles/a/starts").exists()


FAILS_ON_ITS_NODE = "[ -e ../../gone ] || { echo $DLRUN_CHOSEN_HOSTS >../../gone; exit 3; }"
GOES_BAD = "! grep -sqxF $CHECKED {}"


def test_after_the_failure_of_a_node_the_roles_start_again_on_others(tmp_path):
    job = Spare(
        tmp_path, GOES_BAD.format(tmp_path / "gone"), role("a", "true"), role("b", FAILS_ON_ITS_NODE), restarts=True
    )  # fmt: skip
    said = job.run(DLRUN_RESTART="0")
    assert job.code == 0, said
    assert "2 good nodes are left: starting again on 2 of them" in said
    gone = (tmp_path / "gone").read_text().strip()
    assert [*job.hosts_of("a"), *job.hosts_of("b")] == [host for host in job.HOSTS if host != gone]
    assert job.wrote("b", "starts").splitlines() == [f"0 {gone}", f"1 {job.hosts_of('b')[0]}"]


def test_without_checkpoints_the_failure_of_a_node_ends_the_job_with_that_cause(tmp_path):
    job = Spare(tmp_path, GOES_BAD.format(tmp_path / "gone"), role("a", "true"), role("b", FAILS_ON_ITS_NODE))
    job.run()
    assert (job.code, job.record()["reason"], job.record()["role"]) == (3, "node failed", "b")


def test_the_failure_of_a_program_on_good_nodes_is_its_own(tmp_path):
    job = Spare(tmp_path, "true", role("a", "true"), role("b", "exit 3"), restarts=True)
    job.run()
    assert (job.code, job.record()["reason"]) == (3, None)
    assert len(job.wrote("b", "starts").splitlines()) == 1


def test_roles_start_in_order_with_addresses_and_services_end_with_the_job(tmp_path):
    asks = "import os, urllib.request as r; [r.urlopen('http://' + os.environ[n + '_ADDRESS']) for n in {}]"
    asks = asks.format(("DLRUN_ROLE_LEFT", "DLRUN_ROLE_RIGHT"))
    (tmp_path / "asks.py").write_text(asks)
    job = Job(
        tmp_path / "job",
        server("base", "later"),
        server("left", needs=["base"], ready={"port": True}),
        server("right", needs=["base"], ready={"log": "serving"}),
        role("main-part", f"{PYTHON} {tmp_path}/asks.py && env", needs=["left", "right"], ends=True, nodes=2),
    )
    said = job.run()
    assert job.code == 0, said
    marks = [
        said.index(f"role {name}")
        for name in ("base starts", "base is ready", "left starts", "main-part starts")
    ]
    assert marks == sorted(marks)
    assert said.index("role right is ready") < said.index("main-part starts")
    assert job.record()["exit_code"] == 0
    for name in ("base", "left", "right"):
        found = job.record(name)
        assert (found["state"], found["stopped"], found["cause"]) == ("ended", True, None)
        assert found["ready_after"] >= 0
        assert found["address"] == f"localhost:{found['port']}"
    assert job.record("base")["ready_after"] > 0, "it answered 503 first"
    assert len({job.record(name)["port"] for name in ("base", "left", "right")}) == 3
    assert job.record("main-part")["exit_code"] == 0
    seen = job.wrote("main-part")
    assert "DLRUN_CHOSEN_HOSTS=localhost,localhost\n" in seen
    assert "DLRUN_ROLE_MAIN_PART_HOSTS=localhost,localhost\n" in seen
    assert f"DLRUN_ROLE_BASE_PORT={job.record('base')['port']}\n" in seen
    assert "DLRUN_ROLE_MAIN_PART_PORT" not in seen


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize(
    ("how", "ready", "last"),
    [
        ("hangs", {"http": "/health"}, "no answer within 5 s"),
        ("redirects", {"http": "/health"}, "HTTP status 302 for /health"),
        ("well", {"http": "/health", "status": 204}, "HTTP status 200 for /health"),
        ("well", {"log": "never"}, "no line with 'never' in 1 logs"),
    ],
)
def test_a_role_that_is_not_ready_in_time_ends_the_job_with_its_last_answer(tmp_path, how, ready, last):
    job = Job(
        tmp_path / "job",
        server("judge", how, ready=ready, within=15),
        role("main", "true", needs=["judge"], ends=True),
    )
    said = job.run()
    assert job.code == 1
    cause = f"role judge was not ready within 15 s: last answer: {last}"
    assert cause in said
    assert job.record()["cause"] == job.record("judge")["cause"] == cause
    assert job.record()["role"] == "judge"
    assert not (tmp_path / "job/roles/main/starts").exists()
    assert job.record("main")["state"] == "ended"


@pytest.mark.slow
@pytest.mark.each_python
def test_nothing_listens(tmp_path):
    # In which the program that asks has begun, on a busy machine, too.
    job = Job(tmp_path / "job", role("judge", "exec sleep 600", ports=1, ready={"port": True}, within=10))
    assert "not ready within 10 s: last answer: connection refused" in job.run()


def test_a_file_from_before_the_start_makes_no_role_ready(tmp_path):
    run = UNTIL.format("go") + "echo new >model; exec sleep 600"
    job = Job(
        tmp_path / "job",
        role("store", run, ready={"file": "model"}),
        role("main", "true", needs=["store"], ends=True),
    )
    own = tmp_path / "job/roles/store"
    (own / "model").write_text("old, and longer")
    (own / "logs/rank-0.log").write_text("ready\n")
    job.start()
    job.await_state("store", "starting")
    (own / "go").touch()
    assert "role store is ready" in job.ended()
    assert job.code == 0


@pytest.mark.slow
@pytest.mark.each_python
def test_a_line_of_an_earlier_start_makes_no_role_ready(tmp_path):
    run = UNTIL.format("go") + "printf 're'; sleep 0.3; echo ady; exec sleep 600"
    job = Job(
        tmp_path / "job",
        role("store", run, ready={"log": "ready"}),
        role("main", "true", needs=["store"], ends=True),
    )
    own = tmp_path / "job/roles/store"
    (own / "logs/rank-0.log").write_text("ready\n")
    job.start()
    job.await_state("store", "starting")
    await_true((own / "starts").exists, job.log)
    assert not (tmp_path / "job/roles/main/starts").exists()
    (own / "go").touch()
    job.ended()
    assert job.code == 0


def test_a_role_that_ends_before_it_is_ready_is_the_cause(tmp_path):
    job = Job(
        tmp_path / "job",
        role("judge", "exit 3", ports=1, ready={"port": True}),
        role("other", "exec sleep 600"),
        role("main", "true", needs=["judge"], ends=True),
    )
    said = job.run()
    assert job.code == 3
    assert job.record()["cause"] == "role judge ended with exit code 3 before it was ready", said
    assert job.record("other")["stopped"]
    assert job.record("other")["cause"] is None


@pytest.mark.slow
@pytest.mark.each_python
def test_a_service_is_restarted_at_its_address_and_then_ends_the_job(tmp_path):
    job = Job(
        tmp_path / "job",
        server("judge", restarts=1),
        role("main", "exec sleep 600", needs=["judge"], ends=True),
    )
    job.start()
    for time_of in (1, 2):
        job.await_state("judge", "ready")
        port = job.record("judge")["port"]
        pid = server_of(job, "judge")
        os.kill(pid, signal.SIGKILL)
        if time_of == 1:
            await_true(lambda: job.record("judge")["restarts"] == 1, job.log)
            assert job.record("judge")["port"] == port
    said = job.ended()
    assert job.code == 137
    assert job.record()["cause"] == "role judge ended with exit code 137 (it was started 2 times)", said
    assert [line.split()[0] for line in job.wrote("judge", "starts").splitlines()] == ["0", "1"]
    assert job.record("main")["stopped"]


def server_of(job: Job, name: str) -> int:
    """The server's process."""
    for pid in processes.of_session(job.process.pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"server.py" in words and os.readlink(f"/proc/{pid}/cwd").endswith(f"/roles/{name}"):
                return pid
        except OSError:
            continue
    raise AssertionError(job.log.read_text())


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("needs", [["judge"], []])
def test_a_service_may_end_only_where_nobody_needs_it(tmp_path, needs):
    run = "echo up; " + UNTIL.format("go")
    job = Job(
        tmp_path / "job",
        role("judge", run, ready={"log": "up"}),
        role("main", "touch ../judge/go; " + UNTIL.format("end"), needs=needs, ends=True),
    )
    job.start()
    if needs:
        job.ended()
        assert job.code == 1
        assert job.record()["cause"] == "role judge ended with exit code 0, and main needs it"
    else:
        job.await_state("judge", "ended")
        (tmp_path / "job/roles/main/end").touch()
        job.ended()
        assert job.code == 0


@pytest.mark.slow
@pytest.mark.each_python
def test_the_process_that_failed_first_is_the_cause_whatever_is_seen_first(tmp_path):
    job = Job(
        tmp_path / "job",
        role("judge", "export x; " + UNTIL.format("go") + "exit 9"),
        role("main", "touch ../judge/go; " + UNTIL.format("../judge/failures/rank-0") + "exit 5", ends=True),
    )
    (tmp_path / "job/roles/judge/job.sh").write_text("SLOW_END=3\n" + JOB)
    said = job.run()
    assert job.code == 9, said
    assert job.record()["role"] == "judge"
    assert job.record()["cause"] == "role judge failed first: rank 0 on here ended with exit code 9"


@pytest.mark.slow
@pytest.mark.each_python
def test_a_service_that_ignores_its_end_is_killed_and_is_no_failure(tmp_path):
    deaf = "trap '' TERM; echo up; while :; do sleep 0.2; done"
    job = Job(
        tmp_path / "job",
        role("judge", "exec bash -c " + json.dumps(deaf), ready={"log": "up"}),
        role("main", "true", needs=["judge"], ends=True),
        grace=1,
    )
    (tmp_path / "job/roles/judge/job.sh").write_text(
        'cd "${0%/*}"; mkdir -p logs; trap "" TERM; echo up >logs/rank-0.log; exec sleep 120'
    )
    said = job.run()
    assert job.code == 0, said
    assert job.record("judge")["exit_code"] == 137
    assert job.record("judge")["stopped"]


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("how", ["TERM", "INT", "job", "role"])
def test_it_can_be_cancelled(tmp_path, how):
    job = Job(tmp_path / "job", server("judge"), role("main", "exec sleep 600", needs=["judge"], ends=True))
    job.start()
    job.await_state("main", "running")
    if how in ("TERM", "INT"):
        job.process.send_signal(getattr(signal, "SIG" + how))
    else:
        (tmp_path / "job" / ("" if how == "job" else "roles/judge") / ".cancel").touch()
    job.ended()
    assert job.code == 128 + signal.SIGTERM
    assert job.record()["reason"] == "cancelled"
    assert job.record()["cause"] is None


def test_roles_that_the_scheduler_signalled_first_are_no_failure(tmp_path):
    job = Job(tmp_path / "job", server("judge"), role("main", "exec sleep 600", needs=["judge"], ends=True))
    job.start()
    job.await_state("main", "running")
    await_true((tmp_path / "job/roles/main/logs/rank-0.log").exists, job.log)
    for pid in processes.of_session(job.process.pid):
        if pid != job.process.pid and "/job.sh" in read(Path(f"/proc/{pid}/cmdline")):
            os.kill(pid, signal.SIGTERM)
    await_true(lambda: '"asked to end"' in job.wrote("judge", "state.json"), job.log)
    job.process.terminate()
    job.ended()
    assert (job.record()["reason"], job.record()["cause"]) == ("cancelled", None)


@pytest.mark.slow
@pytest.mark.each_python
def test_if_it_is_killed_the_roles_end(tmp_path):
    job = Job(tmp_path / "job", server("judge"), role("main", "exec sleep 600", needs=["judge"], ends=True))
    job.start()
    job.await_state("main", "running")
    await_true((tmp_path / "job/roles/main/logs/rank-0.log").exists, job.log)
    job.process.kill()
    job.process.wait()
    await_true(lambda: not processes.of_session(job.process.pid), job.log)


@pytest.mark.slow
@pytest.mark.each_python
def test_before_the_walltime_roles_save_and_the_job_starts_again(tmp_path):
    saves = "trap 'exit 99' USR1; while :; do sleep 0.1; done"
    job = Job(
        tmp_path / "job", server("judge"), role("main", saves, needs=["judge"], ends=True, signal="USR1"),
        walltime=45, before=25, requeues=1, requeue='touch "$DLRUN_RUN_DIR/queued"',
    )  # fmt: skip
    said = job.run()
    assert job.code == 124, said
    assert (job.record()["state"], job.record()["reason"]) == ("requeued", "timed out")
    assert (tmp_path / "job/queued").exists()
    said = job.run(DLRUN_RESTART="1")
    assert job.code == 124, said
    assert (job.record()["state"], job.record()["reason"]) == ("ended", "timed out")
    assert [line.split()[0] for line in job.wrote("main", "starts").splitlines()] == ["0", "1"]


def test_a_role_that_may_start_again_does_so_before_the_job(tmp_path):
    fails = "echo failed; exit 99"
    job = Job(tmp_path / "job", role("main", fails, ends=True, restarts=1), requeues=1, requeue="true")
    said = job.run()
    assert job.code == 124, said
    assert [line.split()[0] for line in job.wrote("main", "starts").splitlines()] == ["0", "1"]
    assert job.record()["state"] == "requeued"
    said = job.run(DLRUN_RESTART="1")
    assert (job.code, job.record()["state"]) == (124, "ended"), said
    assert [line.split()[0] for line in job.wrote("main", "starts").splitlines()] == ["0", "1", "1", "2"]
    assert "role main ended with exit code 124" in job.record()["cause"]


def test_what_an_earlier_start_has_asked_for_is_over(tmp_path):
    job = Job(tmp_path / "job", role("main", "true", ends=True), requeues=2, requeue="true")
    (job.place / "roles/main/.again").touch()
    said = job.run(DLRUN_RESTART="1")
    assert (job.code, job.record()["state"]) == (0, "ended"), said


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize(("causes", "state"), [(["timed_out"], "requeued"), (["user_error"], "ended")])
def test_the_end_of_the_walltime_is_a_cause_of_its_own(tmp_path, causes, state):
    more = {"requeues": 1, "requeue": "true", "requeue_on": causes}
    job = Job(tmp_path / "job", role("main", "exec sleep 600", ends=True), walltime=20, before=10, **more)
    job.run()
    assert (job.record()["state"], job.record()["reason"]) == (state, "timed out")


@pytest.mark.slow
@pytest.mark.each_python
def test_at_the_walltime_everything_ends(tmp_path):
    job = Job(
        tmp_path / "job", server("judge"), role("main", "exec sleep 600", ends=True), walltime=20, before=10
    )
    job.run()
    assert job.code == 128 + signal.SIGTERM
    assert job.record()["reason"] == "timed out"


def test_too_few_nodes(tmp_path):
    job = Job(tmp_path / "job", server("judge"), role("main", "true", ends=True, nodes=2))
    said = job.run(hosts="n1,n2")
    assert job.code == 1
    assert "the roles need 3 nodes, and the job has 2" in said
    assert job.record()["cause"] in said
    assert not (tmp_path / "job/roles/judge/starts").exists()


def test_ports_that_are_taken_are_left_out(tmp_path):
    taken = free_port("", block=3) + 1
    with socket.create_server(("", taken)):
        job = Job(
            tmp_path / "job",
            server("judge"),
            role("main", "true", needs=["judge"], ends=True),
            ports=[taken - 1, taken + 1],
        )
        (tmp_path / f"job/dlrun-ports-{os.getuid()}").mkdir(mode=0o700)
        reserved = tmp_path / f"job/dlrun-ports-{os.getuid()}/{taken - 1}"
        reserved.write_text(f"{os.getpid()}\n")
        job.start(XDG_RUNTIME_DIR=str(tmp_path / "job")).wait(timeout=60)
        assert job.code == 0, job.log.read_text()
        assert job.record("judge")["port"] == taken + 1
        assert reserved.exists(), "another job's"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("claimed", [False, True], ids=["", "also-by-one-that-is-gone"])
def test_a_port_that_a_killed_job_had_reserved_is_free_again(tmp_path, claimed):
    gone = subprocess.Popen(["true"])
    gone.wait()
    port = free_port("")
    job = Job(
        tmp_path / "job",
        server("judge"),
        role("main", "true", needs=["judge"], ends=True),
        ports=[port, port],
    )
    shelf = tmp_path / f"job/dlrun-ports-{os.getuid()}"
    shelf.mkdir(mode=0o700)
    for name in [str(port), *([f"{port}-{gone.pid}"] if claimed else [])]:
        (shelf / name).write_text(f"{gone.pid}\n")
    job.start(XDG_RUNTIME_DIR=str(tmp_path / "job")).wait(timeout=60)
    assert job.code == 0, job.log.read_text()
    assert job.record("judge")["port"] == port
    assert list(shelf.iterdir()) == []


@pytest.mark.slow
@pytest.mark.each_python
def test_without_a_free_port_the_job_ends_with_that_cause(tmp_path):
    with socket.create_server(("", 0)) as held:
        taken = held.getsockname()[1]
        job = Job(tmp_path / "job", server("judge"), ports=[taken, taken])
        job.run()
        assert job.code == 1
        assert job.record()["cause"] == "no free port was found for role judge on localhost"


def test_the_search_runs_on_the_first_node_of_a_role_with_the_rule_of_the_site(tmp_path):
    job = Job(
        tmp_path / "job", server("judge", needs=[]), role("main", "true", needs=["judge"], ends=True, nodes=2),
        address="$(echo 127.0.0.$((${#DLRUN_FIRST_HOST} - 8)))",
    )  # fmt: skip
    words = ("bash", "-c", 'echo banner; echo "$0" >>"$DLRUN_JOB_DIR/asked"; exec "$@"', "{host}")
    said = job.run(*words, hosts="localhost,localhost1,localhost2")
    assert job.code == 0, said
    assert sorted((tmp_path / "job/asked").read_text().split()) == ["localhost", "localhost1"]
    assert job.record("judge")["address"] == f"127.0.0.1:{job.record('judge')['port']}"


def test_a_role_on_nodes_of_another_type_has_its_own_component_and_gpus(tmp_path):
    shows = "echo ${DLRUN_COMPONENT-none} ${CUDA_VISIBLE_DEVICES-none}"
    job = Job(
        tmp_path / "job",
        role("train", shows, component=0, ends=True),
        role("judge", shows, component=1, ports=1, ends=True),
    )
    words = ("bash", "-c", 'echo "$0" >>"$DLRUN_JOB_DIR/asked"; exec "$@"', "--het-group={component}:{host}")
    said = job.run(*words, CUDA_VISIBLE_DEVICES="0,1")
    assert job.code == 0, said
    assert [job.wrote(name) for name in ("train", "judge")] == ["0 0,1\n", "1 none\n"]
    assert (tmp_path / "job/asked").read_text() == "--het-group=1:localhost\n"


def test_on_one_machine_all_roles_have_it(tmp_path):
    job = Job(
        tmp_path / "job", server("judge"), role("main", "true", needs=["judge"], ends=True, beside="judge")
    )
    said = job.run(hosts="localhost")
    assert job.code == 0, said


def test_a_role_whose_results_are_copied_has_time_for_that():
    assert Role("/job", {"name": "train", "copies": 300}, 15.0).grace == 315.0
    assert Role("/job", {"name": "judge"}, 15.0).grace == 15.0


class Looked:
    """A process, by the exit codes that one look after the other finds; the last one stays."""

    def __init__(self, *codes: int | None) -> None:
        self.codes = list(codes)

    def poll(self) -> int | None:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]

    def wait(self) -> int | None:
        return self.codes[-1]

    def kill(self) -> None:
        self.codes = [code for code in self.codes if code is not None] or [-9]


@pytest.mark.parametrize("ends", ["check", "role"])
def test_a_role_that_is_ready_as_it_is_looked_at_is_ready(tmp_path, ends):
    """Its check, or its own job, ends between two lines of the program: that was `its check ended by itself`."""
    judge = Role(str(tmp_path), {"name": "judge", "ready": {"log": "up"}}, 1.0)
    os.makedirs(judge.directory)
    judge.hosts, judge.state, judge.begun = ["n1"], "starting", time.monotonic()
    judge.check = Looked(None, 0) if ends == "check" else Looked(0)
    judge.process = Looked(0) if ends == "role" else Looked(None)
    judge.answer = (tmp_path / "answer").open("w+b")
    assert [judge.look(), judge.look()] == ["", ""]
    assert (judge.state, judge.check) == ("ready", None)
    assert judge.is_up()


@pytest.mark.parametrize(("answer", "up"), [(0, True), (1, False), (None, False)])
def test_a_role_that_was_ready_and_has_ended_since_the_last_look_was_ready(tmp_path, answer, up):
    """What needs it may start; its end was one `before it was ready`, and ended the job."""
    judge = Role(str(tmp_path), {"name": "judge", "ready": {"log": "up"}}, 1.0)
    os.makedirs(judge.directory)
    judge.hosts, judge.state, judge.begun = ["n1"], "starting", time.monotonic()
    judge.check, judge.process, judge.log = Looked(answer), Looked(0), (tmp_path / "log").open("wb")
    judge.answer = (tmp_path / "answer").open("w+b")
    assert judge.collect() == 0
    assert judge.is_up() is up
    judge.change("ended")
    assert judge.is_up() is up


@pytest.mark.parametrize("code", [1, -9])
def test_a_check_that_ends_by_itself_ends_the_job(tmp_path, code):
    judge = Role(str(tmp_path), {"name": "judge", "ready": {"log": "up"}}, 1.0)
    judge.check, judge.process, judge.begun = Looked(code), Looked(None), time.monotonic()
    judge.answer = (tmp_path / "answer").open("w+b")
    assert judge.look() == "its check ended by itself"
    assert (judge.check, judge.is_up()) == (None, False)


SHOWS = """
import os, sys
from dlrun.node import ready
def watched(real):
    def call(*words):
        found = real(*words)
        sys.stderr.write(os.pread(1, 4096, 0).decode().partition("\\n")[0] + "\\n")
        return found
    return call
os.ftruncate, os.pwrite = watched(os.ftruncate), watched(os.pwrite)
for answer in sys.argv[1:]:
    ready.show(answer)
"""


def test_an_answer_of_a_check_is_there_until_the_next_one_is(tmp_path):
    """A role whose time was over between two calls had none."""
    answers = ["no answer within 5 s", "refused", "HTTP status 503 for /health"]
    judge = Role(str(tmp_path), {"name": "judge"}, 1.0)
    with (tmp_path / "answer").open("w+b") as judge.answer:
        assert judge.last_answer() == ""
        words = [PYTHON, "-c", SHOWS, *answers]
        seen = subprocess.run(
            words, cwd=ROOT, stdout=judge.answer, stderr=subprocess.PIPE, text=True, check=True
        )
        assert set(seen.stderr.splitlines()) == set(answers)
        assert judge.last_answer() == answers[-1]
