"""Any text arrives at the running process as it was typed: as argument, variable, sweep value and job name.

Many texts go through one job, for a job takes a good part of a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from tests.examples import examples
from tests.making import LOCAL, plan_of, write_job

WITNESS = """\
import json, os, sys
record = {"arguments": sys.argv[2:], "variables": {k: v for k, v in os.environ.items() if k.startswith("V_")}}
with open(sys.argv[1], "w", errors="surrogatepass") as out:
    json.dump(record, out)
"""
NASTY = [
    "",
    " ",
    "'; touch {marker}; '",
    '"; touch {marker}; "',
    "$(touch {marker})",
    "`touch {marker}`",
    "${{HOME}}",
    "$HOME",
    "a\nb",
    "a\n\ntouch {marker}\n",
    "\ttab\r\n",
    "\\",
    "\\n",
    "a\\",
    "!history",
    "~",
    "~root",
    "*",
    "?[a]*",
    "{{a,b}}",
    "#no comment",
    "-n",
    "--",
    "a=b",
    "%j %x",
    "ünïcödé ✓ 𝄞",
    "\u202etfel",
    "\x01\x1b[31m\x7f\x85\u2028",
    "no",
    "010",
    "1e-4",
    "10:00:00",
    "declare -x PWD=/tmp\ndeclare -x PATH=",
    "end\ndeclare -x HOSTNAME=x",
    "EOF\n)",
    "long" * 2000,
]

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="".join(map(chr, (*range(32), 127)))),
    min_size=1,
    max_size=40,
).filter(lambda name: name.strip() == name)
FEW = settings(
    max_examples=examples(5),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def yaml(text: str) -> str:
    """A text in YAML's double quotes, every doubtful character escaped."""
    return '"' + "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08x}" for c in text) + '"'


def literal(text: str) -> str:
    """An argument that is this text also where it holds the marks of an expression."""
    return text.replace("{{", "{{ '{{' }}")


def run_job(place: Path, spec: str, site: str = LOCAL, *, path: str | None = None, **environment: str) -> str:
    """Render a job into a directory and run its script by hand; what the script printed."""
    place.mkdir(exist_ok=True)
    (place / "witness.py").write_text(WITNESS)
    job = place / "job dir"
    job.mkdir(mode=0o700, exist_ok=True)
    write_job(plan_of(place, spec, site, directory=str(place)), job)
    inherited = {name: value for name, value in os.environ.items() if name in ("HOME", "TMPDIR")}
    done = subprocess.run(
        ["bash", "job.sh"],
        cwd=job,
        env={"PATH": path or os.defpath, "LC_ALL": "C.UTF-8", **inherited, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    logs = "".join(f"\n{log}:\n{log.read_text()}" for log in sorted(job.glob("**/logs/*.log")))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return done.stdout + done.stderr


def arrived(place: Path, words: list[str], variables: list[str], site: str = LOCAL, **options):
    """What a program started by a job saw of these arguments and variables."""
    command = ", ".join(
        map(yaml, [sys.executable, "witness.py", str(place / "seen.json"), *map(literal, words)])
    )
    given = ", ".join(f"V_{i}: {yaml(literal(text))}" for i, text in enumerate(variables))
    spec = f"name: run\ncommand: [{command}]\nresources: {{ranks_per_node: 1}}\nenvironment: {{variables: {{{given}}}}}"
    run_job(place, spec, site, **options)
    seen = json.loads((place / "seen.json").read_text(errors="surrogatepass"))
    return seen["arguments"], [seen["variables"].get(f"V_{i}") for i in range(len(variables))]


@FEW
@given(st.lists(TEXTS, min_size=20, max_size=60), st.lists(TEXTS, min_size=20, max_size=60))
@example(["{{", "a{{ x }}b", "}}"], ["{{", "a{{ x }}b", "}}"])
def test_any_text(tmp_path, words, variables):
    assert arrived(tmp_path, words, variables) == (words, variables)


def test_texts_that_hurt_elsewhere(tmp_path):
    marker = tmp_path / "pwned"
    texts = [text.format(marker=marker) for text in NASTY]
    assert arrived(tmp_path, texts, texts) == (texts, texts)
    assert not marker.exists()


FAKE_SSH = """\
#!/bin/bash
# As sshd does: the words after the host are one line for a shell with an environment of its own.
shift
exec setsid --wait env -i "PATH=$PATH" LC_ALL=C.UTF-8 bash -c "$*"
"""


def test_texts_that_hurt_elsewhere_through_ssh(tmp_path):
    ssh = tmp_path / "fake ssh"
    ssh.write_text(FAKE_SSH)
    ssh.chmod(0o755)
    marker = tmp_path / "pwned"
    texts = [text.format(marker=marker) for text in NASTY]
    site = LOCAL.replace("{name: local}", f"{{name: ssh, program: {yaml(str(ssh))}}}")
    assert arrived(tmp_path, texts, texts, site) == (texts, texts)
    assert not marker.exists()


@pytest.mark.slow
@FEW
@given(NAMES)
@example("'; touch /tmp/dlrun-test-pwned; '")
@example("-rf")
@example("../../etc")
def test_any_job_name(tmp_path, name):
    spec = f"name: {yaml(name)}\ncommand: [{sys.executable}, witness.py, seen.json, '{{{{ name }}}}']"
    run_job(tmp_path, spec)
    assert json.loads((tmp_path / "seen.json").read_text())["arguments"] == [name]
    assert not Path("/tmp/dlrun-test-pwned").exists()


@settings(FEW, max_examples=examples(3))
@given(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
def test_any_sweep_value(tmp_path, values):
    listed = ", ".join(map(yaml, values))
    spec = f"name: run\ncommand: [{sys.executable}, witness.py, seen.json, 'v={{{{ v }}}}']\nsweep: {{v: [{listed}]}}"
    for index, value in enumerate(values):
        run_job(tmp_path, spec, DLRUN_LOCAL_INDEX=str(index))
        assert json.loads((tmp_path / "seen.json").read_text())["arguments"] == [f"v={value}"]


@pytest.mark.parametrize(
    "place", ["with space", "quo'te", 'dou"ble', "dol$lar", "ünï", "back\\slash", "new\nline"]
)
def test_any_directory(tmp_path, place):
    assert arrived(tmp_path / place, ["x"], ["y"]) == (["x"], ["y"])
