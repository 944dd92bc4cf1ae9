"""Runs a script and its import in the sandbox, and compares what each rank of both was."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests import programs
from tests.equivalence.sandbox import scheduler_of

ROOT = Path(__file__).parents[2]
SITES = {"slurm": "eq-slurm", "pbs": "eq-pbs", "sge": "eq-sge", "flux": "eq-flux", "lsf": "eq-slurm"}
OF_PROCESS = re.compile(
    r"DLRUN_.*|PWD|OLDPWD|SHLVL|_|STAND_(?:RANK|NODE|PART|SLOTS|PENDING)|SLURM_(?:OVERLAP|MEM_PER_NODE|PROCID|LOCALID|NODEID|STEP_ID|NTASKS.*|NPROCS|CPUS_PER_TASK|"
    r"SUBMIT_DIR|GPUS_PER_NODE|JOB_NAME|TASK_PID)|SLURMD_NODENAME|OMP_NUM_THREADS|OMP_PROC_BIND|OMP_PLACES|PYTHONUNBUFFERED|"
    r"OMPI_.*|PMI_.*|PMIX_.*|PRTE_.*|SLURM_CPU_BIND|SRUN_CPUS_PER_TASK|KMP_AFFINITY|MKL_NUM_THREADS|GOMP_CPU_AFFINITY|FLUX_TASK.*|FLUX_JOB.*|"
    r"CUDA_DEVICE_ORDER|BASH_FUNC_.*|STAND_BINDS|APPTAINERENV_.*|SINGULARITYENV_.*|HOROVOD_.*|PBS_O_WORKDIR|SGE_O_WORKDIR|LS_COLORS|"
    r"SLURM_ARRAY_(?:JOB_ID|TASK_M\w+|TASK_COUNT)|CONDA_EXE|NV.*_DEVICES|PBS_JOBNAME|JOB_NAME"
)
"""Variables that launchers and dlrun set, each in its own way."""
RENDEZVOUS = re.compile(
    r"MASTER_ADDR|MASTER_PORT|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|CROSS_.*|NODE_RANK"
)
SAME_VALUES = re.compile(r"RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE")


@dataclass
class Comparison:
    """The outcome for one script: `verdict` is equal, check, differs, refused or unfit (the script itself starts nothing)."""

    verdict: str
    differences: list[str] = field(default_factory=list)
    result: dict = field(default_factory=dict)


def works() -> bool:
    """True if bubblewrap can make a sandbox here."""
    return programs.works("bwrap")


def compare(text: str, *arguments: str) -> Comparison:
    """Run a script and the job of its import, both with the same arguments."""
    with tempfile.TemporaryDirectory(prefix="equivalence") as place:
        Path(place, "script.sh").write_text(text, "utf-8")
        names = " ".join(f"node{number}" for number in range(1, 65))
        Path(place, "hosts").write_text(f"127.0.0.1 localhost {names}\n")
        done = subprocess.run(
            [*_sandbox(place), sys.executable, "-B", str(ROOT / "tests/equivalence/sandbox.py"), f"{place}/script.sh",
             SITES[scheduler_of(text)], place, *arguments],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        path = Path(place, "result.json")
        if not path.exists():
            raise RuntimeError(done.stderr[-3000:])
        return judge(json.loads(path.read_text()))


def _sandbox(place: str) -> Iterator[str]:
    words = ["bwrap", "--unshare-pid", "--unshare-net", "--die-with-parent", "--tmpfs", "/"]
    # Scripts name directories in /usr, which the sandbox makes.
    inside = [str(path) for path in sorted(Path("/usr").iterdir())]
    for path in (*inside, "/bin", "/sbin", "/lib", "/lib64", "/etc"):
        real = Path(path)
        if real.is_symlink():
            words += ["--symlink", str(real.readlink()), path]
        elif real.exists():
            words += ["--ro-bind", path, path]
    bound = {str(ROOT), sys.base_prefix, sys.prefix, str(Path(sys.executable).resolve().parents[1])}
    import click  # the packages may be those of another environment

    bound.add(str(Path(click.__file__).parents[1]))
    words += [
        "--ro-bind",
        "/dev/null",
        "/etc/profile",
        "--ro-bind",
        f"{place}/hosts",
        "/etc/hosts",
        "--proc",
        "/proc",
        "--ro-bind",
        "/sys",
        "/sys",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    for path in sorted(bound):
        words += ["--ro-bind", path, path]
    words += ["--bind", place, place, "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "DLRUN_PYTHON_HERE", sys.executable,
              "--setenv", "PYTHONPATH", str(ROOT), "--setenv", "HOME", "/home/me"]  # fmt: skip
    return iter(words)


def judge(result: dict) -> Comparison:
    """The verdict about both sides."""
    code = result["import"]["code"]
    if code not in {0, 5}:
        return Comparison("refused", [result["import"]["stderr"]], result)
    differences = list(_differences(result))
    if code == 5:
        return Comparison("check", differences, result)
    if not result["original"]:
        return Comparison(
            "unfit" if not result["dlrun"] else "differs", ["the script itself started nothing"], result
        )
    return Comparison("differs" if differences else "equal", differences, result)


def _differences(result: dict) -> Iterator[str]:
    if result.get("render", {}).get("code") != 0:
        yield f"the spec has no plan: {result.get('render', {}).get('stderr', '')[-600:]}"
        return
    if "rank 0 has WANDB_RUN_ID" in result.get("spec", ""):
        for entry in result["dlrun"]:
            entry["env"] = {
                k: v for k, v in entry["env"].items() if k not in {"WANDB_RUN_ID", "WANDB_RESUME"}
            }
    if "\nroles:" in result["spec"]:
        left, right = _of_roles(result)
    else:
        left, right = _ranks(result["original"]), _ranks(_aligned(result["original"], result["dlrun"]))
    if sorted(left) != sorted(right):
        yield f"processes: {sorted(left)} and {sorted(right)}; {result.get('job')}"[:1500]
        return
    logs = set(re.findall(r"line \d+: (?:\d|&)?>+\s*(\S+): each rank's output", result["import"]["stderr"]))
    logs |= set(re.findall(r": \d?>+\s*(\S+?): each rank's", result["import"]["stderr"]))
    logs |= set(re.findall(r"\| ?tee (?:-a )?(\S+): each rank's output", result["import"]["stderr"]))
    logs |= set(
        re.findall(
            r"line \d+: exec .*?([^\s()]+)\)?(?: 2>&1)?: each rank's output", result["import"]["stderr"]
        )
    )
    for key in left:
        mine, other = _by_content(left[key]), _by_content(right[key])
        if mine.get("placed") and mine["node"] != other["node"]:
            yield f"{key}: on {mine['node']} and {other['node']}"
        if mine["argv"] != other["argv"]:
            yield f"{key}: argv {mine['argv']} and {other['argv']}"
        if mine["cwd"] != other["cwd"]:
            yield f"{key}: directory {mine['cwd']} and {other['cwd']}"
        yield from _environment(str(key), mine["env"], other["env"], result["caches"])
        written = {
            path: digest
            for path, digest in mine["files"].items()
            if Path(path).name not in {Path(log).name for log in logs}
            and not any(path == tree or path.startswith(f"{tree}/") for tree in mine["trees"])
        }
        yield from _files(str(key), written, other["files"])
    if re.search(r"^results:", result.get("spec", ""), re.MULTILINE):
        ends = result["results"]
        yield from (f"at the end: {p} is {t!r} and {ends['dlrun'].get(p)!r}" for p, t in ends["original"].items()
                    if ends["dlrun"].get(p) != t and not p.endswith("batch-script.sh"))  # fmt: skip


_TIME = re.compile(r"\d{4}-\d\d-\d\d[-_T ]\d\d[:-]\d\d[:-]\d\d")
"""A time of day in words, such as `$(date +%F-%T)`: the two sides run one after the other."""


def _by_content(entry: dict) -> dict:
    """The entry with digests in place of paths on node-local storage, where both sides have the same files elsewhere."""

    def named(text: str) -> str:
        for path, digest in sorted(entry["trees"].items(), key=lambda item: -len(item[0])):
            text = text.replace(path, f"<files {digest}>")
        return _TIME.sub("<time>", text)

    env = {k: named(v) if k not in {"TMPDIR", "TMP"} else v for k, v in entry["env"].items()}
    if search := re.sub(r"(?:^|:)/home/me/jobs/\d+/python$", "", env.get("PYTHONPATH", "")):
        env["PYTHONPATH"] = search
    else:
        env.pop("PYTHONPATH", None)  # dlrun's own, with the program that waits for data
    return {**entry, "argv": [named(word) for word in entry["argv"]], "env": env}


def _ranks(entries: list[dict]) -> dict[tuple[str, int], dict]:
    """(rank, how many-th program of it) -> the entry; the only process of a script is rank 0."""
    made: dict[tuple[str, int], dict] = {}
    seen: dict[str, int] = {}
    for entry in entries:
        rank = "0" if entry["rank"] == "script" else entry["rank"]
        made[rank, seen.get(rank, 0)] = entry
        seen[rank] = seen.get(rank, 0) + 1
    return made


def _of_roles(result: dict) -> tuple[dict[tuple[str, str], dict], dict[tuple[str, str], dict]]:
    """(rank, words) -> the entry, with the ports of dlrun's servers as in the script, and addresses as names."""
    ports = {f"DLRUN_ROLE_{role.upper()}_PORT": port for port, role in
             re.findall(r"port (\d+): `\{\{ role\.(\w+)\.port", result["import"]["stderr"])}  # fmt: skip

    def made(entries: list[dict]) -> dict[tuple[str, str], dict]:
        found: dict[tuple[str, str], dict] = {}
        for entry in sorted(entries, key=lambda entry: entry["node"]):
            given = {entry["env"][name]: port for name, port in ports.items() if name in entry["env"]}

            def named(text: str, given: dict[str, str] = given) -> str:
                text = re.sub(r"(?<![\d.])10\.0\.0\.(\d+)", r"node\1", text)
                return re.sub(r"(?<![\w.])\d{4,5}(?![\w.])", lambda m: given.get(m[0], m[0]), text)

            entry["argv"] = [named(word) for word in entry["argv"]]
            entry["env"] = {k: named(v) for k, v in entry["env"].items()}
            key = (entry["rank"], " ".join(entry["argv"]))
            while key in found:
                key = (key[0], f"{key[1]} again")
            found[key] = entry
        return found

    return made(result["original"]), made(result["dlrun"])


def _aligned(mine: list[dict], other: list[dict]) -> list[dict]:
    """The other entries in the order of the first, if they are the same programs: those in the background start in any order."""
    order = [entry["argv"] for entry in mine]
    if any("rank" in e and e["rank"] not in {"script", "0"} for e in mine) or sorted(order) != sorted(
        e["argv"] for e in other
    ):
        return other
    left = list(other)
    return [left.pop(next(i for i, e in enumerate(left) if e["argv"] == argv)) for argv in order]


def _environment(key: str, mine: dict, other: dict, caches: list[str]) -> Iterator[str]:
    """What differs; a script that names no directory for a compiler's cache gets those that the plan has, with their reasons."""
    names = {n for n in mine if not OF_PROCESS.fullmatch(n) and not RENDEZVOUS.fullmatch(n)}
    for name in sorted(names):
        if name not in other:
            yield f"{key}: {name} is not set"
        elif mine[name] != other[name] and name != "CUDA_VISIBLE_DEVICES":
            yield f"{key}: {name} is {mine[name]!r} and {other[name]!r}"
    for name in sorted(mine):
        if RENDEZVOUS.fullmatch(name) and (
            name not in other or (SAME_VALUES.fullmatch(name) and mine[name] != other[name])
        ):
            yield f"{key}: {name} is {mine[name]!r} and {other.get(name)!r}"
    more = {
        n
        for n in other
        if n not in mine
        and n not in caches
        and not n.startswith(("SLURM_ARRAY_", "PBS_ARRAY", "SGE_TASK_ID"))
        and not OF_PROCESS.fullmatch(n)
        and not RENDEZVOUS.fullmatch(n)
    }
    for name in sorted(more):
        yield f"{key}: {name} is set to {other[name]!r}, and was not"
    if {"RANK", "WORLD_SIZE"} & (other.keys() - mine.keys()) and "MASTER_ADDR" not in mine:
        yield f"{key}: RANK and WORLD_SIZE are set, and were not"


def _files(key: str, mine: dict, other: dict) -> Iterator[str]:
    for path, digest in mine.items():
        if digest == "da39a3ee5e6b" and path not in other:
            continue  # an empty file is the log that the launch line writes
        if other.get(path) != digest and not path.endswith("batch-script.sh"):
            yield f"{key}: file {path} is {'different' if path in other else 'not there'}"


def main() -> None:
    """Compare the scripts that are named on the command line."""
    for name in sys.argv[1:]:
        made = compare(Path(name).read_text("utf-8", "replace"))
        print(f"{made.verdict:8} {name}", *made.differences[:6], sep="\n    " if made.differences else " ")


if __name__ == "__main__":
    main()
