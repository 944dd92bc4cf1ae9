"""The cost of starting dlrun: CPU time, imported modules and file-system calls, compared with its peers.

    python benchmarks/startup.py [--rounds N] [--no-peers]

CPU time is the minimum of N rounds, in which the programs take turns, so that a busy machine disturbs all alike.
File-system calls are counted by `strace -e trace=%file`: on the shared file system of a cluster each is a request to a
server. Every program is installed with pip into an environment of its own below `.cache/`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "startup"
SPEC = ROOT / "examples" / "digits" / "spec.yaml"


@dataclass
class Subject:
    """A command line, its environment, and the budgets of dlrun: CPU time as a multiple of another subject's."""

    label: str
    package: str
    command: list
    cpu_budget: float = 0
    compared_with: str = ""
    calls_budget: int = 0
    cpu: list = field(default_factory=list)
    modules: int = 0
    calls: int | None = None
    processes: int | None = None

    def argv(self, *python_options):
        """The whole command line, through the interpreter so that options can be given to it."""
        home = CACHE / self.package / "bin"
        words = [str(home / self.command[0]), *self.command[1:]] if self.command[0] != "-c" else self.command
        return [str(home / "python"), *python_options, *words]


DLRUN = [
    Subject("python", "dlrun", ["-c", "pass"]),
    Subject("import jinja2, yaml", "dlrun", ["-c", "import jinja2, yaml"]),
    Subject("dlrun --help", "dlrun", ["dlrun", "--help"], 3, "python", 400),
    Subject(
        "dlrun submit --dry-run",
        "dlrun",
        ["dlrun", "submit", str(SPEC), "--site", "generic-slurm", "--dry-run"],
        1.3,
        "import jinja2, yaml",
        1300,
    ),
]
PEERS = [
    Subject("HPC-launcher: launch --help", "hpc-launcher", ["launch", "--help"]),
    Subject("submitit: import", "submitit", ["-c", "import submitit"]),
    Subject("torchx --help", "torchx", ["torchx", "--help"]),
]


def install(package):
    """Make the environment of a package; True if it exists. dlrun itself is reinstalled each time."""
    home = CACHE / package
    python = home / "bin" / "python"
    source = str(ROOT) if package == "dlrun" else package
    try:
        if not python.exists():
            print(f"installing {package} …", file=sys.stderr)
            make_venv(home)
        elif package != "dlrun":
            return True
        run_quietly([str(python), "-m", "pip", "install", "--quiet", source])
        if package == "dlrun":
            run_quietly(
                [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", source]
            )
    except subprocess.CalledProcessError as error:
        print(f"skipped {package}: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        return False
    return True


def make_venv(home):
    """An empty environment with pip; if Debian's python3 lacks ensurepip, pip is installed separately."""
    python = str(home / "bin" / "python")
    try:
        run_quietly([sys.executable, "-m", "venv", str(home)])
    except subprocess.CalledProcessError:
        run_quietly([sys.executable, "-m", "venv", "--without-pip", str(home)])
        run_quietly([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pip"])
    # Before Python 3.12 an environment has setuptools, with a hook that runs at every start and belongs to no program.
    run_quietly([python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"])


def run_quietly(argv):
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(argv, check=True, capture_output=True, text=True, env=environment)


def environment():
    """The environment of a new shell, without variables that change how Python starts."""
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home)}


def cpu_ms(argv):
    """User and system time of one run, in milliseconds."""
    with subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"`{' '.join(argv)}` failed with exit code {process.returncode}")
    return 1000 * (usage.ru_utime + usage.ru_stime)


def modules(subject):
    """Number of modules that a run imports, as the interpreter counts them."""
    done = subprocess.run(
        subject.argv("-X", "importtime"), capture_output=True, text=True, check=True, env=environment()
    )
    return sum(line.startswith("import time:") for line in done.stderr.splitlines()) - 1


def file_calls(subject):
    """Number of file-system calls and of processes of a run."""
    with tempfile.NamedTemporaryFile() as log:
        tracer = ["strace", "-f", "-c", "-e", "trace=%file", "-o", log.name]
        subprocess.run([*tracer, *subject.argv()], capture_output=True, check=True, env=environment())
        rows = [line.split() for line in Path(log.name).read_text().splitlines()]
    calls = {row[-1]: int(row[3]) for row in rows if len(row) > 4 and row[3].isdigit()}
    return calls["total"], calls["execve"]


def measure(subjects, rounds):
    """Measure everything; the first run of each is not counted, because it warms the caches."""
    for subject in subjects:
        cpu_ms(subject.argv())
        subject.modules = modules(subject)
        if shutil.which("strace"):
            subject.calls, subject.processes = file_calls(subject)
    for _ in range(rounds):
        for subject in subjects:
            subject.cpu.append(cpu_ms(subject.argv()))


def report(subjects):
    """Print the table, the budgets, and the ratio of each peer to dlrun."""
    print(f"{'':34} {'CPU ms':>7} {'modules':>8} {'file calls':>11} {'processes':>10}")
    for s in subjects:
        print(f"{s.label:34} {min(s.cpu):7.1f} {s.modules:8} {s.calls or '-':>11} {s.processes or '-':>10}")
    print()
    for s in subjects:
        if s.cpu_budget:
            ratio = min(s.cpu) / min(next(other for other in subjects if other.label == s.compared_with).cpu)
            print(
                f"{s.label}: {ratio:.2f} × the CPU time of {s.compared_with}, of {s.cpu_budget}: {verdict(ratio, s.cpu_budget)}"
            )
        if s.calls_budget and s.calls:
            print(f"{s.label}: {s.calls} of {s.calls_budget} file calls: {verdict(s.calls, s.calls_budget)}")
    print()
    base = next(s for s in subjects if s.label == "dlrun --help")
    for s in subjects:
        if s.package != "dlrun":
            calls = f", {s.calls / base.calls:.1f} × the file calls" if s.calls and base.calls else ""
            print(f"{s.label} / {base.label}: {min(s.cpu) / min(base.cpu):.1f} × the CPU time{calls}")
    if not shutil.which("strace"):
        print("skipped: file-system calls, because strace is not installed")


def verdict(value, budget):
    return "within" if value <= budget else f"over by {100 * (value / budget - 1):.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="timed runs of each program")
    parser.add_argument("--no-peers", action="store_true", help="dlrun alone")
    options = parser.parse_args()
    if not install("dlrun"):
        raise SystemExit(1)
    subjects = [*DLRUN, *(s for s in PEERS if not options.no_peers and install(s.package))]
    measure(subjects, options.rounds)
    report(subjects)


if __name__ == "__main__":
    main()
