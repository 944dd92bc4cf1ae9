"""Commands that submit, cancel, scale and fetch are ended at random moments, or meet a full disk; the job and its record agree.

The clients are those of a Slurm that keeps its queue in a file; the login node is this machine behind a real sshd.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.ports import free_port

from .runs import Wrong, insist

CLIENTS = {
    "sbatch": """printf '%s\\n' "$PWD" >>"$PLACE/queue"
sleep 0.0$((RANDOM % 10)); grep -c . "$PLACE/queue"
""",
    "squeue": """i=0
while read -r place; do
  i=$((i + 1))
  state=PENDING
  if grep -qx "$i" "$PLACE/cancelled"; then state=CANCELLED; fi
  if [[ " $* " == *--Format=* ]]; then
    fields=$(printf '%s' "$*" | grep -o -- '--Format=[^ ]*')
    fields=${fields#--Format=}
    for field in ${fields//,/ }; do
      case ${field%%:*} in
        JobArrayID | JobID) printf '%s|' "$i" ;;
        State) printf '%s|' "$state" ;;
        *) printf '0|' ;;
      esac
    done
    echo
  elif [[ $state == PENDING && " $* " == *'%F|%Z'* ]]; then
    printf '%s|%s\\n' "$i" "$place"
  fi
done <"$PLACE/queue"
""",
    "scancel": """for word; do if [[ $word != -* ]]; then echo "$word" >>"$PLACE/cancelled"; fi; done
""",
    "sacct": "",
    "scontrol": "",
}
SPEC = "name: train\ncommand: [./train]\nresources: {nodes: 2, walltime: 1h}\nsite: generic-slurm\n"
HURTS = ("kill", "hangup", "full")
HERE = ("submit", "resubmit", "cancel", "scale")
SSH_COMMANDS = ("submit-ssh", "resubmit-ssh", "cancel-ssh", "scale-ssh", "fetch-ssh")
COMMANDS = (*HERE, *SSH_COMMANDS)
SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {ssh}/key
AuthorizedKeysFile {ssh}/key.pub
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
PermitRootLogin prohibit-password
ForceCommand export HOME='{home}' PLACE='{home}' && exec bash -c "$SSH_ORIGINAL_COMMAND"
"""
SSH = """Host login
  HostName 127.0.0.1
  HostKeyAlias {ssh}
  Port {port}
  IdentityFile {ssh}/key
  UserKnownHostsFile {ssh}/known
  StrictHostKeyChecking yes
  ConnectTimeout 20
"""


class Ground:
    """A home with a Slurm, and, for commands over ssh, a login node that has the same."""

    def __init__(self, place: Path, disk: Path, remote: bool) -> None:
        self.place, self.jobs = place, disk / "jobs"
        self.login: subprocess.Popen[bytes] | None = None
        place.mkdir()
        (place / "bin").mkdir()
        for name, text in CLIENTS.items():
            self._program(name, text)
        for name in ("queue", "cancelled"):
            (place / name).touch()
        (place / "train").write_text("#!/bin/bash\n")
        (place / "train").chmod(0o755)
        (place / "spec.yaml").write_text(SPEC)
        (place / ".bash_profile").write_text(f"export PATH={place}/bin:$PATH\n")
        (place / ".bashrc").write_text(f"export PATH={place}/bin:$PATH\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("DLRUN", "SLURM", "XDG"))} | {
            "PATH": f"{place}/bin:/usr/bin:/bin", "PLACE": str(place), "HOME": str(place), "DLRUN_JOBS": str(self.jobs),
        }  # fmt: skip
        if remote:
            self._serve()

    def _program(self, name: str, text: str) -> None:
        (self.place / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        (self.place / "bin" / name).chmod(0o755)

    def _serve(self) -> None:
        ssh = self.place / "ssh"
        ssh.mkdir(mode=0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh / "key"], check=True)
        key = " ".join((ssh / "key.pub").read_text().split()[:2])
        (ssh / "known").write_text(f"{ssh} {key}\n")
        self._program("ssh", f'exec /usr/bin/ssh -F {ssh}/config "$@"\n')
        Path("/run/sshd").mkdir(exist_ok=True)
        while (
            self.login is None or self.login.poll() is not None
        ):  # a port that another program took meanwhile
            port = free_port()
            (ssh / "sshd").write_text(SSHD.format(port=port, ssh=ssh, home=self.place))
            (ssh / "config").write_text(SSH.format(port=port, ssh=ssh))
            words = ["/usr/sbin/sshd", "-D", "-e", "-f", ssh / "sshd"]
            self.login = subprocess.Popen(words, stderr=subprocess.DEVNULL)
            for _ in range(200):
                words = [self.place / "bin/ssh", "login", "true"]
                if subprocess.run(words, env=self.env, capture_output=True, check=False).returncode == 0:
                    return
                if self.login.poll() is not None:
                    break
                time.sleep(0.05)
        insist(False, "sshd does not answer")

    def close(self) -> None:
        """End the shared connection and the server."""
        if self.login is not None:
            subprocess.run(
                [self.place / "bin/ssh", "-O", "exit", "login"],
                env=self.env,
                capture_output=True,
                check=False,
            )
            self.login.kill()
            self.login.wait()

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """A dlrun in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", "from dlrun.cli.main import main; main()", *words], cwd=self.place, env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str, str]:
        """A dlrun to its end."""
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        clear(err, words[0])
        return process.returncode, out, err

    def rows(self) -> list[list[str]]:
        """The rows of `dlrun status --recent`, once no submission is in progress any more."""
        for _ in range(300):
            code, out, err = self.run("list")
            insist(code == 0, f"list: {err}")
            rows = [line.split() for line in out.splitlines()[1:]]
            if not any("submitting" in row for row in rows):
                return rows
            time.sleep(0.1)
        raise AssertionError("a submission stays in progress")

    def queue(self) -> list[str]:
        """The directories that jobs were submitted from, in the order of their ids."""
        return (self.place / "queue").read_text().split()


def clear(err: str, what: str) -> None:
    """One clear message: no traceback, no second error."""
    insist("Traceback" not in err and "bug in dlrun" not in err, f"{what}: {err}")
    insist(
        sum(line.startswith("error") for line in err.splitlines()) <= 1,
        f"{what}: more than one message: {err}",
    )


class Submissions:
    """Each run: one command, ended or on a full disk; then the same as its user would do it, and what is counted."""

    def __init__(self, root: Path, seed: int, disk: Path) -> None:
        self.root, self.disk, self.random = root, disk, random.Random(seed)
        self.tally: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.took: dict[str, float] = {}
        self.numbers = itertools.count()

    def run(self, count: int, commands: tuple[str, ...] = COMMANDS) -> None:
        """So many runs, of each command in turn; what must never be is printed and kept in `wrong`."""
        for number in range(count):
            try:
                self.one(commands[number % len(commands)], self.random.choice(HURTS))
            except Wrong as wrong:
                self.wrong.append(str(wrong))
                sys.stdout.write(f"run {number}: WRONG: {wrong}\n")
                sys.stdout.flush()

    def one(self, command: str, hurt: str) -> None:
        """One run in a home of its own."""
        subprocess.run(["find", self.disk, "-mindepth", "1", "-delete"], check=True)
        ground = Ground(self.root / str(next(self.numbers)), self.disk, command.endswith("-ssh"))
        try:
            words, jobs = self._begin(ground, command)
            if command not in self.took:
                began = time.monotonic()
                ground.run(*words)
                self.took[command] = time.monotonic() - began
                return
            when = self.random.uniform(0, 1.1 * self.took[command])
            self._hurt(ground, words, hurt, when)
            self._judge(
                ground, command, words, jobs, f"{command} {hurt} after {when:.3f} s in {ground.place}"
            )
        finally:
            ground.close()
        self.tally[f"{command} {hurt}"] += 1

    def _begin(self, ground: Ground, command: str) -> tuple[tuple[str, ...], int]:
        """The words of the command, and how many jobs there will be; what it needs is there."""
        at = ("--host", "login") if command.endswith("-ssh") else ()
        if command.startswith("submit"):
            return ("submit", "spec.yaml", *at), 1
        if command.startswith("scale"):
            study = ("--nodes", "1,2", "--repeat", "1", "--no-wait", "--out", str(self.disk / "study"))
            return ("scale", "run", "spec.yaml", *study, *at), 2
        code, _, err = ground.run("submit", "spec.yaml", *at)
        insist(code == 0, f"the job to {command}: {err}")
        if command.startswith("resubmit"):
            return ("resubmit", "train"), 2
        if command == "fetch-ssh":
            for number in range(30):
                (Path(ground.queue()[0]) / "logs" / f"rank-{number}.log").write_bytes(os.urandom(2000))
        return (command.partition("-")[0], "train"), 1

    def _hurt(self, ground: Ground, words: tuple[str, ...], hurt: str, when: float) -> None:
        filler = self.disk / "filler"
        if hurt == "full":
            room = self.random.choice((0, 0, 1, 4, 10, 30, 100)) * 4096
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    os.truncate(filler, max(0, filler.stat().st_size - room))
        process = ground.start(*words)
        if hurt != "full":
            try:
                process.wait(when)
                self.tally["ended before"] += 1
            except subprocess.TimeoutExpired:
                if hurt == "kill":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGHUP)
        _, err = process.communicate(timeout=300)
        filler.unlink(missing_ok=True)
        clear(err, " ".join(words))
        if process.returncode > 0 and hurt == "full":
            insist("error" in err or "warning" in err, f"{words} failed and gave no reason")
            self.tally["refused on a full disk"] += 1

    def _judge(self, ground: Ground, command: str, words: tuple[str, ...], jobs: int, when: str) -> None:
        if command.startswith("scale"):  # a study has its own records; the same command goes on with it
            for _ in range(2):
                code, _, err = ground.run(*words)
                insist(code == 0, f"again, after {when}: {err}")
            insist(len(ground.queue()) == jobs, f"{len(ground.queue())} jobs of {jobs}, {when}")
            return
        self._agree(ground, when)
        if command.startswith("submit"):
            if not ground.queue():
                code, _, err = ground.run(*words)
                insist(code == 0, f"again, after {when}: {err}")
        elif not command.startswith("resubmit") or len(ground.queue()) < jobs:
            code, _, err = ground.run(*words)
            insist(code == 0 or "already" in err or "ended" in err, f"again, after {when}: {err}")
        self._agree(ground, when)
        insist(len(ground.queue()) == jobs, f"{len(ground.queue())} jobs of {jobs}, {when}")
        if command.startswith("cancel"):
            insist(
                all("cancelled" in row for row in ground.rows()), f"not cancelled: {ground.rows()}, {when}"
            )
        if command == "fetch-ssh":
            there, (here,) = Path(ground.queue()[0]), ground.jobs.glob("[!.]*")
            for path in sorted((there / "logs").iterdir()):
                insist(
                    path.read_bytes() == (here / "logs" / path.name).read_bytes(),
                    f"{path.name} differs, {when}",
                )

    def _agree(self, ground: Ground, when: str) -> None:
        """Each job has one record, and each record with an id has its job."""
        rows = ground.rows()
        ids = [row[1] for row in rows if row[1] != "-"]
        insist(
            sorted(ids) == sorted(str(n + 1) for n in range(len(ground.queue()))),
            f"{rows}, {ground.queue()}: {when}",
        )
