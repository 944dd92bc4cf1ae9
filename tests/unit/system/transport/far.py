"""A login node that is this machine: a fake Slurm behind the local transport, and a wire that can be cut."""

from __future__ import annotations

from pathlib import Path

from dlrun.jobs.remote import submit as remote
from dlrun.jobs.remote.destination import Destination
from dlrun.jobs.submission.prepare import read_inputs
from dlrun.system.transport.local import LocalTransport
from dlrun.system.transport.protocol import TransportFailed

SBATCH = """\
#!/bin/bash
if [[ -e $HOME/refuse ]]; then echo "sbatch: error: invalid partition specified: x" >&2; exit 1; fi
printf '%s\\n' "$PWD" >>"$HOME/calls"
if [[ -e $HOME/secret ]]; then printenv TOKEN >>"$HOME/seen"; fi
wc -l <"$HOME/calls"
"""
SQUEUE = """\
#!/bin/bash
if [[ -e $HOME/deaf ]]; then exit 1; fi
i=0
while read -r place; do i=$((i + 1)); printf '%s|%s\\n' "$i" "$place"; done <"$HOME/calls"
"""
SPEC = """\
name: job
framework: torch
command: [bash, train.sh]
site: generic-slurm
"""


class Far:
    """The home directory of somebody who works here and has an account there (which is here too)."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobs = home / ".local/state/dlrun/jobs"
        programs = home / "programs"
        programs.mkdir()
        for name, text in {"sbatch": SBATCH, "squeue": SQUEUE}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (home / ".bash_profile").write_text(f"PATH={programs}:$PATH\nexport SBATCH_ACCOUNT=theirs\n")
        (home / "calls").touch()
        self.tree = home / "tree"
        self.tree.mkdir()
        (self.tree / "spec.yaml").write_text(SPEC)
        (self.tree / "train.sh").write_text("echo train\n")
        self.said: list[str] = []

    def submit(self, **how):
        """Submit the spec from the working tree."""
        to = Destination(host="there", transport="local", directory=how.pop("directory", None))
        return remote.submit(read_inputs(Path("spec.yaml"), **how), to, notice=self.said.append)

    def calls(self) -> list[str]:
        """The directories that jobs were submitted from."""
        return (self.home / "calls").read_text().split()

    def directories(self) -> list[Path]:
        """Job directories on the login node."""
        return [path for path in self.jobs.glob("[!.]*") if "@" not in path.name]

    def records(self) -> list[Path]:
        """Records of jobs here."""
        return list(self.jobs.glob("*@there"))


class Wire:
    """A transport whose connection breaks at the `count`th time that something goes over it."""

    def __init__(self, count: int) -> None:
        self.host = "there"
        self.left = count
        self.cut = False

    def start(self, command, *, timeout=120.0):
        self.pass_on()
        return _End(LocalTransport(self.host).start(command, timeout=timeout), self)

    def close(self) -> None:
        pass

    def pass_on(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.cut = True
            raise TransportFailed("the wire is cut")


class _End:
    def __init__(self, stream, wire: Wire) -> None:
        self.stream = stream
        self.wire = wire

    def write(self, data: bytes) -> None:
        self.pass_on()
        self.stream.write(data)

    def read(self) -> bytes:
        self.pass_on()
        return self.stream.read()

    def finish(self):
        self.pass_on()
        return self.stream.finish()

    def end(self) -> None:
        self.stream.end()

    def close(self) -> None:
        self.stream.close()

    def pass_on(self) -> None:
        try:
            self.wire.pass_on()
        except TransportFailed:
            self.stream.close()
            raise
