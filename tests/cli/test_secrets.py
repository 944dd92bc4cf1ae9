"""Secrets reach the ranks and nothing else: no file, no output, no command line has them."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for

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
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
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
