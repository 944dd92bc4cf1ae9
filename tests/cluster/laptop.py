"""Drives dlrun on a host outside the cluster, as somebody whose scheduler is behind ssh."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess, Popen
from typing import Any

import yaml

from tests.cluster import Cluster
from tests.cluster.hosts import rest
from tests.cluster.sshd import SECOND_FACTOR

PROGRAMS = Path(sys.executable).parent

SSH = """\
Host strict
  HostName login
  Port 2222
  HostKeyAlias login
Host both
  HostName login
  Port 2223
  HostKeyAlias login
Host inner
  HostName login
  ProxyJump gate
Host impostor
  HostName login
  HostKeyAlias impostor
Host stranger
  HostName login
  HostKeyAlias stranger
Host *
  ConnectTimeout 5
  ServerAliveInterval 1
  ServerAliveCountMax 3
"""

BREAKING = """\
#!/bin/bash
# Stands before a program on PATH and breaks once, if it is told to.
name=${0##*/}
real=$(PATH=${PATH//"$HOME/break:"/} type -P "$name")
# Not on a node, where the scripts of a job find it too: they would meet a fault that is meant for the login host.
told() { [[ $(</proc/sys/kernel/hostname) == login ]] && rm "$HOME/told/$1" 2>/dev/null; }
die() { # as if the machine had lost its power: the connection and the script that called us
  pkill -KILL -u "$(id -un)" -f "^sshd: $(id -un)"
  local caller=$PPID
  if [[ $(ps -o comm= -p "$caller") == timeout ]]; then caller=$(ps -o ppid= -p "$caller"); fi
  kill -KILL $caller
  exit 1
}
case $name in
tar)
  if told tar; then
    head -c 3000 | "$real" "$@"
    die
  fi
  ;;
mv)
  last=${*: -1}
  if [[ $* == *.submission/new* ]]; then when=record; else when=rename; fi
  if [[ ${last##*/} == .* || $last == */ ]]; then when=part; fi # of a directory that is not complete yet
  if told "before-$when"; then die; fi
  if told "after-$when"; then
    "$real" "$@"
    die
  fi
  ;;
sbatch | qsub)
  if told before-submit; then die; fi
  if told after-submit; then
    "$real" "$@"
    die
  fi
  if told busy-submit; then
    "$real" "$@" >/dev/null
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
  fi
  if told slow-submit; then until told go; do sleep 0.1; done; fi # its caller gives it 150 s
  ;;
tail)
  printf '%s\n' "$*" >>"$HOME/tails"
  if told tail; then
    "$real" "$@" | head -c 9000000
    die
  fi
  ;;
esac
exec "$real" "$@"
"""


class Laptop:
    """A machine with OpenSSH and no scheduler; `alice` works on it and has an account on the cluster."""

    def __init__(self, cluster: Cluster, site: dict[str, Any]) -> None:
        self.cluster = cluster
        self.site = site["name"]
        self.home = cluster.home("alice")
        self.serial = 0
        self.run("mkdir work bin none && ln -s /usr/bin/ssh bin/")
        self.write(".ssh/config", SSH)
        self.write("ask", f'#!/bin/sh\necho "$*" >>~/asked\necho {SECOND_FACTOR}\n')
        self.run("chmod +x ask && mkdir -p .config/dlrun/sites")
        self.write(".config/dlrun/sites/far.yaml", yaml.safe_dump(site))
        cluster.on("login", "cat > hub && chmod +x hub && mkdir break told", input=BREAKING, check=True)
        cluster.on("login", "for p in tar mv sbatch qsub tail; do ln -s ../hub break/$p; done", check=True)
        client = "sbatch" if site["scheduler"]["type"] == "slurm" else "qsub"
        clients = self.there(f"dirname $(type -P {client})").strip()
        noise = "echo 'Welcome!'; echo 'Maintenance on Monday' >&2"
        noise = f"{noise}; PATH=$HOME/break:{clients}:$PATH\n"
        cluster.on("login", "tee .bashrc > .bash_profile", input=noise, check=True)

    def run(self, command: str) -> str:
        """A command line of the user's on the laptop; what it prints."""
        return self.cluster.on("laptop", command, check=True).stdout

    def there(self, command: str) -> str:
        """A command line of the user's on the login host."""
        return self.cluster.on("login", command, check=True).stdout

    def write(self, name: str, text: str) -> None:
        """A file in the laptop's home."""
        self.cluster.on("laptop", ["tee", name], input=text, check=True)

    def spec(self, script: str, **more: Any) -> str:
        """Write a training spec whose command is bash code, with a name of its own; its file name. None: without that key."""
        self.serial += 1
        spec = {
            "name": f"far{self.serial}",
            "framework": "torch",
            "command": ["bash", "-c", script],
            "resources": {"ranks_per_node": 1, "walltime": "5m"},
            "site": self.site,
            **more,
        }
        spec = {key: value for key, value in spec.items() if value is not None}
        self.write(f"work/{self.serial}.yaml", yaml.safe_dump(spec))
        return f"{self.serial}.yaml"

    def start(
        self, *words: str, env: dict[str, str] | None = None, stdin: int = subprocess.DEVNULL
    ) -> Popen[str]:
        """Start a program on the laptop, in the user's working tree."""
        return self.cluster.popen(
            "laptop", [*words], env={"PATH": f"{PROGRAMS}:{self.home}/bin", **(env or {})},
            cwd=str(self.home / "work"), stdin=stdin,
        )  # fmt: skip

    def dlrun(
        self, *words: str, code: int | None = 0, env: dict[str, str] | None = None, timeout: float = 180
    ) -> CompletedProcess[str]:
        """Run dlrun on the laptop; `code` is the exit code that must come, None for any."""
        process = self.start("dlrun", *words, env=env)
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            kill(process)
            raise
        done = CompletedProcess(words, process.returncode, out, err)
        assert code in (None, done.returncode), f"dlrun {' '.join(words)}: {done}"
        return done

    def at_terminal(self, answer: str, *words: str, times: int = 1, timeout: float = 120) -> tuple[int, str]:
        """Run dlrun with a terminal, and type `answer` each time it asks: exit code, and what was on the screen."""
        line = f"PATH={shlex.quote(f'{PROGRAMS}:{self.home}/bin')} exec {shlex.join(['dlrun', *words])}"
        process = self.start("/usr/bin/script", "-qec", line, "/dev/null", stdin=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        screen, deadline = "", time.monotonic() + timeout
        for _ in range(times):
            seen = ""
            while not seen.rstrip().endswith(":") and time.monotonic() < deadline:
                if not (letter := process.stdout.read(1)):
                    break
                seen += letter
            screen += seen
            process.stdin.write(f"{answer}\n")
            process.stdin.flush()
        out, _ = process.communicate(timeout=timeout)
        return process.returncode, screen + out

    def submit(self, spec: str, *words: str, **how: Any) -> str:
        """Submit to the login host; the job's id."""
        return self.dlrun("submit", spec, "--host", "login", "--parsable", *words, **how).stdout.strip()

    def break_at(self, stage: str) -> None:
        """Let the login host break the next time it gets to a stage."""
        self.there(f"touch told/{stage}")

    def job(self, job: str) -> dict[str, Any]:
        """What `dlrun status --json` says of a job."""
        (found,) = json.loads(self.dlrun("status", job, "--json").stdout)["jobs"]
        return dict(found)

    def ended(self, job: str, within: float = 120) -> dict[str, Any]:
        """Wait for a job's end; what is known of its first run then."""
        deadline = time.monotonic() + within
        while True:
            began = time.monotonic()
            run = self.job(job)["runs"][0]
            if run["state"] not in ("pending", "running", "ending", "unknown"):
                return dict(run)
            assert time.monotonic() < deadline, run
            rest(began, 0.5)

    def jobs_called(self, name: str) -> list[str]:
        """The ids of all jobs of a name that Slurm has ever heard of."""
        return self.there(f"squeue --noheader --states=all --name={name} --format=%A").split()

    def directories_of(self, name: str) -> list[str]:
        """What is on the login host of all job directories of a name, hidden and unfinished ones too."""
        return self.there(
            f"cd .local/state/dlrun/jobs 2>/dev/null && ls -A | grep -E '^\\.?{name}-' || true"
        ).split()

    def records_of(self, name: str) -> list[str]:
        """The records of jobs of a name on the laptop."""
        return self.run(f"cd .local/state/dlrun/jobs 2>/dev/null && ls -A | grep '^{name}-' || true").split()


def kill(process: Popen[str]) -> None:
    """End a program on the laptop with all that it started, as a closed lid would."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
