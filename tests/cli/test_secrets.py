"""Secrets reach the ranks and nothing else: no file, no output, no command line has them."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import uuid
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for
from tests.examples import cases

WITNESS = """\
import hashlib, json, os, pathlib, time
names = ("FROM_ENV", "FROM_FILE", "FROM_COMMAND")
told = {name: hashlib.sha256(os.environ[name].encode()).hexdigest() for name in names}
part = pathlib.Path(f".seen-{os.environ['RANK']}")
part.write_text(json.dumps(told))
part.rename(part.name[1:])
while not os.path.exists("go"):
    time.sleep(0.05)
raise SystemExit(3)
"""
FAKE_SSH = """\
#!/bin/bash
printf "%s\\n" "$@" >>ssh-arguments
while [[ $1 == -o ]]; do shift 2; done
shift
exec setsid --wait env -i PATH="$PATH" bash -c "$*"
"""


def everything_below(directory: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def command_lines() -> bytes:
    lines = []
    for process in Path("/proc").glob(
        "[0-9]*"
    ):  # of a longer pattern each path is looked at, and that process may end
        try:
            lines.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return b"\n".join(lines)


def spec(dlrun: Dlrun, secret: str) -> str:
    (dlrun.place / "witness.py").write_text(WITNESS)
    kept = dlrun.place.parent / f"{dlrun.place.name}-kept"
    kept.mkdir()
    (kept / "token file").write_text(secret + "-file\n")
    (kept / "token file").chmod(0o600)
    (kept / "print-it").write_text(f"#!/bin/sh\necho '{secret}-command'\n")
    (kept / "print-it").chmod(0o700)
    return (
        "command: [python3, witness.py]\nresources: {ranks_per_node: 2}\nsecrets:\n"
        "  FROM_ENV: {env: MY_TOKEN}\n"
        f"  FROM_FILE: {{file: {kept / 'token file'}}}\n"
        f"  FROM_COMMAND: {{command: [{kept / 'print-it'}, 'it''s']}}\n"
    )


def site(dlrun: Dlrun, launcher: str) -> str:
    if launcher == "local":
        return ""
    ssh = dlrun.place / "ssh"
    ssh.write_text(FAKE_SSH)
    ssh.chmod(0o700)
    (dlrun.place / "site.yaml").write_text(
        f"name: site\nscheduler: {{type: local}}\nlauncher: {{name: ssh, program: {ssh}}}\nrendezvous: {{address: loopback}}\n"
    )
    return "site: ./site.yaml\n"


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["local", "ssh"])
def test_no_trace_but_in_the_ranks(dlrun, launcher):
    secret = f"canary-{uuid.uuid4().hex}"
    canary = secret.encode()
    text = spec(dlrun, secret) + site(dlrun, launcher)
    env = {"MY_TOKEN": f"{secret}-env"}
    name = dlrun.spec(text)
    printed = [
        dlrun(*arguments, env=env)
        for arguments in (
            ["plan", name], ["plan", name, "--json"], ["plan", name, "-o", "plan.json"], ["render", name],
            ["render", name, "--rank"], ["submit", name, "--dry-run"], ["explain", "FROM_ENV", name],
            ["render", name, "-o", "rendered"], ["submit", name, "--json", "--job-dir", "job"],
        )
    ]  # fmt: skip
    wait_for(lambda: len(list(dlrun.place.glob("seen-*"))) == 2)
    running = command_lines()
    assert b"witness.py" in running
    assert canary not in running
    for rank in (0, 1):
        assert canary not in (dlrun.place / f"seen-{rank}").read_bytes()
        hashes = json.loads((dlrun.place / f"seen-{rank}").read_text())
        assert hashes == {n: hashed(secret + end) for n, end in
                          (("FROM_ENV", "-env"), ("FROM_FILE", "-file"), ("FROM_COMMAND", "-command"))}  # fmt: skip
    (dlrun.place / "go").touch()
    printed.append(dlrun("logs", "-f", "job", env=env))
    printed += [dlrun("status", "job", "--json", env=env), dlrun("logs", "job", "--rank", "all", env=env)]
    assert "first failure" in printed[-1].stdout
    assert canary not in everything_below(dlrun.place)
    assert canary not in everything_below(dlrun.jobs.parent)
    assert not any(secret in ran.stdout + ran.stderr for ran in printed)


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_variable_that_is_not_set_stops_the_submission(dlrun):
    name = dlrun.spec("command: ['true']\nsecrets: {HF_TOKEN: {env: MY_TOKEN}}\n")
    for env in ({}, {"MY_TOKEN": ""}):
        ran = dlrun("submit", name, code=2, env=env)
        assert ran.stderr.startswith(
            "error: secret `HF_TOKEN`: the variable `MY_TOKEN` is not set in this shell\n"
        )
        assert ran.stdout == ""
    assert not dlrun.jobs.exists()


@pytest.mark.slow
def test_a_file_that_others_may_read_stops_the_submission(dlrun):
    token = dlrun.place / "token"
    name = dlrun.spec(f"command: ['true']\nsecrets: {{HF_TOKEN: {{file: {token}}}}}\n")
    assert "the file of secret `HF_TOKEN` does not exist" in dlrun("submit", name, code=2).stderr
    token.write_text("canary")
    token.chmod(0o640)
    ran = dlrun("submit", name, code=2)
    assert "error[DLR035]: the file of secret `HF_TOKEN` can be read by others" in ran.stderr
    assert f"`chmod 600 {token}`" in ran.stderr
    assert "canary" not in ran.stderr
    token.chmod(0o600)
    dlrun("submit", name, "--wait")


@pytest.mark.slow
def test_a_command_that_fails_ends_the_job_and_says_why(dlrun):
    script = dlrun.place / "print-it"
    script.write_text("#!/bin/sh\necho canary-on-stdout\nexit 4\n")
    script.chmod(0o700)
    name = dlrun.spec(f"command: [touch, started]\nsecrets: {{HF_TOKEN: {{command: [{script}]}}}}\n")
    ran = dlrun("submit", name, "--wait", code=1)
    assert "secret HF_TOKEN could not be read: its command failed" in ran.stdout
    assert "first failure: rank 0" in ran.stdout
    assert "canary" not in ran.stdout
    assert not (dlrun.place / "started").exists()
    assert b"canary" not in everything_below(dlrun.jobs)


@pytest.mark.parametrize("scheduler", ["openpbs", "torque"])
def test_pbs_shows_variables_to_everybody(dlrun, scheduler):
    (dlrun.place / "qsub").write_text("#!/bin/sh\ntouch submitted\n")
    (dlrun.place / "qsub").chmod(0o755)
    name = dlrun.spec(
        f"command: ['true']\nsecrets: {{HF_TOKEN: {{env: MY_TOKEN}}}}\nsite: generic-{scheduler}\n"
    )
    ran = dlrun("submit", name, code=2, env={"MY_TOKEN": "canary", "PATH": f"{dlrun.place}:/usr/bin:/bin"})
    assert f"{scheduler} shows a job's variables to others" in ran.stderr
    assert "{HF_TOKEN: {file: PATH}}" in ran.stderr
    assert "canary" not in ran.stderr
    assert not (dlrun.place / "submitted").exists()


def test_a_plan_holds_references_only(dlrun):
    secret = "canary"
    plan = json.loads(dlrun("plan", dlrun.spec(spec(dlrun, secret)), "--json").stdout)
    assert {s["name"]: (s["env"], bool(s["file"]), len(s["command"])) for s in plan["secrets"]} == {
        "FROM_ENV": ("MY_TOKEN", False, 0),
        "FROM_FILE": (None, True, 0),
        "FROM_COMMAND": (None, False, 2),
    }


class Guarded(http.server.BaseHTTPRequestHandler):
    """Files for those with a signature or a token; an answer waits until the test lets it go."""

    def do_GET(self):
        path, _, query = self.path.partition("?")
        allowed = query == f"X-Amz-Signature={C}" or self.headers.get("Authorization") == f"Bearer {C}"
        self.server.asked.append(path)
        self.server.gate.wait(60)
        self.send_response(200 if allowed else 403)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"data")

    def do_HEAD(self):
        self.send_error(405)

    def log_message(self, *words):
        """Nothing."""


@pytest.fixture
def guarded():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    server.asked, server.gate = [], threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()


def with_credentials(dlrun, url):
    kept = dlrun.place.parent / f"{dlrun.place.name}-kept"
    kept.mkdir()
    (kept / "auth").write_text(f"Bearer {C}\n")
    (kept / "auth").chmod(0o600)
    (dlrun.place / "site.yaml").write_text(
        "name: site\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        f"storage: {{node_local: {{path: {dlrun.place}/local}}}}\n"
    )
    (dlrun.place / "local").mkdir()
    return dlrun.spec(
        "site: ./site.yaml\ncommand: [bash, -c, 'cat {{ data.one }}/f {{ data.two }}/g']\nresources: {ranks_per_node: 1}\n"
        f"secrets: {{DATA_URL: {{env: MY_URL}}, DATA_AUTH: {{file: {kept / 'auth'}}}}}\n"
        f"data:\n  one: {{source: '{url}/f', credentials: {{url: DATA_URL}}, keep: cache}}\n"
        f"  two: {{source: '{url}/g', credentials: {{headers: {{Authorization: DATA_AUTH}}}}}}\n"
    )


@pytest.mark.slow
def test_a_data_set_is_fetched_with_credentials_that_stand_nowhere(dlrun, guarded):
    url = f"http://127.0.0.1:{guarded.server_port}"
    spec, env = with_credentials(dlrun, url), {"MY_URL": f"{url}/f?X-Amz-Signature={C}"}
    printed = [dlrun("plan", spec, env=env), dlrun("plan", spec, "--json", env=env)]
    printed += [dlrun("submit", spec, "--job-dir", "job", env=env)]
    wait_for(lambda: guarded.asked)
    assert C.encode() not in command_lines()
    guarded.gate.set()
    printed += [
        dlrun("logs", "-f", "job", env=env),
        dlrun("logs", "job", "--rank", "0"),
        dlrun("why", "job", code=None),
    ]
    assert "datadata" in printed[4].stdout
    dlrun("report", "job", "-o", "report.html")
    printed.append(dlrun("stage-data", spec, "--to", dlrun.place / "elsewhere", env=env))
    assert (dlrun.place / "elsewhere/one/data/f").read_bytes() == b"data"
    assert {"/f", "/g"} == set(guarded.asked)
    for ran in printed:
        assert C not in ran.stdout + ran.stderr
    assert C.encode() not in everything_below(dlrun.place)
    assert C.encode() not in everything_below(dlrun.jobs.parent)


@pytest.mark.slow
def test_credentials_that_have_expired(dlrun, guarded):
    guarded.gate.set()
    url = f"http://127.0.0.1:{guarded.server_port}"
    spec, env = with_credentials(dlrun, url), {"MY_URL": f"{url}/f?X-Amz-Signature=old{C}"}
    ran = dlrun("stage-data", spec, "--to", dlrun.place / "to", env=env, code=None)
    assert ran.code == 1
    assert f"`{url}/f` cannot be read: HTTP 403 Forbidden" in ran.stderr
    assert "have expired" in ran.stderr
    assert C not in ran.stdout + ran.stderr
    assert (
        "the variable `MY_URL` is not set"
        in dlrun("stage-data", spec, "--to", dlrun.place / "to", code=2).stderr
    )


def test_credentials_need_a_secret_and_a_web_server(dlrun):
    spec = dlrun.spec("command: ['true']\ndata: {d: {source: 'https://host/f', credentials: {url: NONE}}}\n")
    assert "needs the secret `NONE`, which is not under `secrets`" in dlrun("plan", spec, code=2).stderr
    spec = dlrun.spec(
        "command: ['true']\nsecrets: {A: {env: A}}\ndata: {d: {source: /x, credentials: {url: A}}}\n"
    )
    assert "error[DLR115]: `credentials` of data set `d`" in dlrun("plan", spec, code=2).stderr


C = "canary0123456789"
PLAIN = {
    "a password in a URL": f"data: {{d: 'https://me:{C}@host/f'}}",
    "a password in a URL for a program": f"environment: {{variables: {{DATABASE: 'postgres://me:{C}@host/f'}}}}",
    "a signature": f"data: {{d: {{source: 'https://host/f?X-Amz-Expires=9&X-Amz-Signature={C}'}}}}",
    "a signature in a sweep": f"sweep: {{parameters: {{url: ['https://host/f?sig={C}', b]}}}}",
    "a token": f"environment: {{setup: [git clone https://ghp_{C * 2}@github.com/a/b]}}",
    "a header": f"environment: {{setup: [\"curl -H 'Authorization: Bearer {C}' https://host\"]}}",
    "an argument": f"command: [python, train.py, --api-key, {C}]",
    "an argument of one word": f"command: [python, train.py, --api-key={C}]",
    "a password after an option": f"command: [sshpass, -p, {C}, ssh, host]",
    "a user and a password": f"command: [curl, -u, 'me:{C}', 'https://host']",
    "a cookie in a set-up line": f'environment: {{setup: ["curl -b session={C} https://host"]}}',
    "a line of netrc": f"environment: {{setup: ['echo machine host login me password {C} >>~/.netrc']}}",
    "an address of a channel": f"run: notify https://hooks.slack.com/services/T0/B0/{C * 2}",
    "a token of an image": f"environment: {{container: {{image: 'docker://me:{C}@host/x', runtime: apptainer}}}}",
    "an argument in a line": f"run: python train.py --hf-token {C}",
    "a variable in a line": f"run: HF_TOKEN={C} python train.py",
    "a variable in a set-up line": f"environment: {{setup: [export WANDB_API_KEY={C}]}}",
    "a variable": f"environment: {{variables: {{WANDB_API_KEY: {C}}}}}",
    "a source that prints it": f"secrets: {{A: {{command: [echo, ghp_{C * 2}]}}}}",
    "a key": f"environment: {{variables: {{A: '-----BEGIN PRIVATE KEY-----\\n{C}'}}}}",
}


@pytest.mark.parametrize("text", cases(PLAIN.values(), quick=4), ids=PLAIN)
def test_a_plain_secret_is_refused_and_stands_nowhere(dlrun, text):
    spec = dlrun.spec(("" if text.startswith(("run", "command")) else "command: ['true']\n") + text + "\n")
    kept = (dlrun.place / spec).rename(dlrun.place.parent / f"{dlrun.place.name}.yaml")
    for command in (
        ["plan"],
        ["plan", "-o", "plan.json"],
        ["render", "-o", "r"],
        ["submit", "--job-dir", "job"],
    ):
        ran = dlrun(command[0], kept, *command[1:], code=2)
        assert "error[DLR001]: " in ran.stderr
        assert "secrets: {" in ran.stderr
        assert C not in ran.stdout + ran.stderr
    for form in ("json", "concise"):
        ran = dlrun("--error-format", form, "plan", kept, code=2)
        assert "DLR001" in ran.stderr
        assert C not in ran.stdout + ran.stderr
    assert C.encode() not in everything_below(dlrun.place)
    assert C.encode() not in everything_below(dlrun.jobs.parent)


def test_a_secret_in_a_comment_is_not_copied(dlrun):
    spec = dlrun.spec(f"command: ['true'] # ghp_{C * 2}\n# https://me:{C}@host/\n")
    dlrun("submit", spec, "--wait", "--job-dir", dlrun.jobs / "job")
    assert (dlrun.jobs / "job" / "spec.yaml").exists()
    assert C.encode() not in everything_below(dlrun.jobs)


@pytest.mark.parametrize(
    "source", [f"https://me:{C}@host/f", f"ftp://me:{C}@host/f", f"https://host/f?token={C}"]
)
def test_nor_one_on_a_command_line(dlrun, source):
    spec = dlrun.spec("command: ['true']\ndata: {d: /nowhere}\n")
    for words in (
        ["stage-data", source, "--to", dlrun.place / "to"],
        ["plan", spec, "--set", f"data.d.source={source}"],
        ["submit", spec, "--set", f"data.d={source}"],
        ["plan", spec, "--site", source],
        ["--error-format", "json", "plan", spec, "--site", source],
        ["--error-format", "concise", "plan", spec, "--site", source],
        ["submit", spec, "--host", f"me:{C}@host"],
    ):
        ran = dlrun(*words, code=2)
        assert C not in ran.stdout + ran.stderr
    ran = dlrun("plan", spec, code=2, env={"DLRUN_SET_DATA__D__SOURCE": source})
    assert C not in ran.stdout + ran.stderr
    assert C.encode() not in everything_below(dlrun.place)


def test_no_new_spec_is_written_with_one(dlrun):
    command = f"python train.py --api-key {C} --from https://me:{C}@host/f"
    script = dlrun.place / "a job.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --nodes=2\nsrun {command}\n")
    for words in (
        ["init", "spec.yaml", "--run", command],
        ["import", script, "-o", "spec.yaml"],
        ["import", script],
    ):
        ran = dlrun(*words, code=2)
        assert "which would be written to disk with the job" in ran.stderr
        assert "write `$NAME` in its place, and export NAME" in ran.stderr
        assert C not in ran.stdout + ran.stderr
        assert not (dlrun.place / "spec.yaml").exists()
    script.write_text(
        script.read_text().replace(f"--api-key {C}", '--api-key "$MY_API_KEY"').replace(f"me:{C}@", "")
    )
    dlrun("import", script, "-o", "spec.yaml", code=None)
    assert "MY_API_KEY" in (dlrun.place / "spec.yaml").read_text()
    dlrun(
        "plan", "spec.yaml", "--site", "workstation", "--set", "resources.nodes=1", "--set", "framework=torch"
    )
