"""Runs inside the sandbox: prepares a small cluster's files, then runs the batch script and the job made of it.

    python sandbox.py SCRIPT SITE OUT [ARGUMENT...]

Writes OUT/result.json: exit code and text of the import, and what each side's programs recorded.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = Path("/home/me/project")
PROGRAMS = [
    "srun",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "ibrun",
    "aprun",
    "jsrun",
    "flux",
    "torchrun",
    "accelerate",
    "deepspeed",
    "horovodrun",
    "python",
    "python3",
    "apptainer",
    "singularity",
    "uv",
    "poetry",
    "pipenv",
    "pdm",
    "scontrol",
    "nvidia-smi",
    "hostname",
    "sbatch",
    "qsub",
    "squeue",
    "sacct",
    "seff",
    "wget",
    "curl",
    "pip",
    "pip3",
    "git",
    "sleep",
    "nvcc",
    "rocm-smi",
    "qstat",
    "clear",
    "sinfo",
    "wandb",
    "huggingface-cli",
    "pbsdsh",
    "ssh",
    "scp",
    "pkill",
    "killall",
    "julia",
    "nsys",
    "ncu",
    "kernprof",
    "Rscript",
    "composer",
    "lightning",
    "activate",
    "numactl",
    "node-health",
    "gssr-record",
    "matlab",
    "perun",
    "rsync",
    "free",
    "nc",
    "vllm",
]
FUNCTIONS = {
    "module": '() { case $1 in load|add) export LOADED="$LOADED ${*:2}";; purge|unload|swap|use) export LOADED="$LOADED $*";; esac; }',
    "ml": '() { case $1 in load|add) export LOADED="$LOADED ${*:2}";; purge|use|swap|unload) export LOADED="$LOADED $*";; *) export LOADED="$LOADED $*";; esac; }',
    "conda": "() { case $1 in activate) export CONDA_DEFAULT_ENV=$2;; shell.bash) :;; esac; }",
    "mamba": "() { case $1 in activate) export CONDA_DEFAULT_ENV=$2;; esac; }",
}


def main(script: str, site: str, out: str, *arguments: str) -> None:
    text = Path(script).read_text("utf-8", "replace")
    prepare(" ".join([text, *arguments]))
    result: dict = {}
    original = PROJECT / "batch-script.sh"
    original.write_text(text)
    scheduler = scheduler_of(text)
    base = {"HOME": "/home/me", "USER": "me", "LOGNAME": "me", "SCRATCH": "/scratch/me", "WORK": "/scratch/me/work", "TMPDIR": "/tmp/job",
            "PATH": "/stand/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "SHELL": "/bin/bash", "LOADED": "", "TERM": "dumb", "GROUP": "lab",
            **{f"BASH_FUNC_{name}%%": body for name, body in FUNCTIONS.items()}}  # fmt: skip
    before = snapshot()
    for _ in range(5):
        Path("/stand/out/original.jsonl").unlink(missing_ok=True)
        for task in tasks_of(text, scheduler):
            run(
                ["bash", str(original), *arguments],
                base | environment(text, scheduler, PROJECT) | task,
                "original",
                start_of(text, scheduler),
            )
        result["results"] = {"original": left_in_home()}
        restore(before)
        if not provide_missing(text, Path("/stand/out/original.log").read_text("utf-8", "replace")):
            break
        before = snapshot()
    original.unlink()
    (Path("/tmp") / "script.sh").write_text(text)
    python = os.environ["DLRUN_PYTHON_HERE"]
    env = base | {
        "PATH": "/usr/bin:/bin",
        "DLRUN_SITE_PATH": "/stand/sites",
        "PYTHONPATH": os.environ["PYTHONPATH"],
    }
    done = subprocess.run(
        [python, "-m", "dlrun", "import", "/tmp/script.sh", "-o", "/tmp/spec.yaml", "--site", site,
         *(("--", *arguments) if arguments else ())],
        cwd=PROJECT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    result["import"] = {"code": done.returncode, "stderr": done.stderr}
    if Path("/tmp/spec.yaml").exists():
        result["spec"] = Path("/tmp/spec.yaml").read_text()
        spec = PROJECT / "spec.yaml"
        spec.write_text(result["spec"])
        made = subprocess.run(
            [python, "-m", "dlrun", "render", "spec.yaml", "--set", "usage=false", "-o", "/home/me/jobs/1"],
            cwd=PROJECT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        spec.unlink()
        result["render"] = {"code": made.returncode, "stderr": made.stderr}
        if made.returncode == 0:
            job = Path("/home/me/jobs/1/job.sh").read_text()
            decided = json.loads(Path("/home/me/jobs/1/plan.json").read_text())["decisions"]
            result["caches"] = [
                d["key"].removeprefix("caches.") for d in decided if d["rule"].startswith("cache-of-")
            ]
            code = 0
            for point in tasks_of(job, scheduler):
                code = run(
                    ["bash", "job.sh"],
                    base | environment(job, scheduler, Path("/home/me/jobs/1")) | point,
                    "dlrun",
                    Path("/home/me/jobs/1"),
                )
            result["results"]["dlrun"] = left_in_home()
            result["job"] = {"code": code, "log": tail("/home/me/jobs/1/logs"), "text": job}
    for part in ("original", "dlrun"):
        path = Path(f"/stand/out/{part}.jsonl")
        result[part] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        result[f"{part}_log"] = (
            Path(f"/stand/out/{part}.log").read_text("utf-8", "replace")[-3000:]
            if Path(f"/stand/out/{part}.log").exists()
            else ""
        )
    Path(out, "result.json").write_text(json.dumps(result))


def tail(folder: str) -> str:
    return "\n".join(
        f"{p.name}: {p.read_text('utf-8', 'replace')[-1500:]}" for p in sorted(Path(folder).rglob("*.log"))
    )[-4000:]


def tasks_of(text: str, scheduler: str) -> list[dict[str, str]]:
    """The variables of each task of a job array; one task without variables if it is none."""
    if scheduler == "slurm":
        array, names = options_of(text, "#SBATCH").get("array"), ("SLURM_ARRAY_TASK_ID",)
    else:
        prefix = "#PBS" if scheduler == "pbs" else "#\\$"
        match = re.search(rf"^{prefix}\s+-[Jt]\s+(\S+)", text, re.MULTILINE)
        array, names = (
            match[1] if match else None,
            ("PBS_ARRAY_INDEX",) if scheduler == "pbs" else ("SGE_TASK_ID",),
        )
    if not array:
        return [{}]
    tasks: list[int] = []
    for part in array.partition("%")[0].split(","):
        if match := re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part):
            tasks += range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1))
    more = {"SLURM_ARRAY_JOB_ID": "1"} if scheduler == "slurm" else {}
    return [{**dict.fromkeys(names, str(t)), **more} for t in tasks[:8]]


def run(command: list[str], env: dict[str, str], part: str, cwd: Path) -> int:
    """Run one side to the end of the job: programs that it leaves behind are ended once they have recorded themselves."""
    code = started(command, env, part, cwd)
    patience = time.monotonic() + 60
    while time.monotonic() < patience and any(map(is_alive, Path("/stand/pending").iterdir())):
        time.sleep(0.02)
    for path in Path("/stand/pending").iterdir():
        path.unlink()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"/stand/" in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)
    return code


def is_alive(pending: Path) -> bool:
    """True if the stand-in of the launcher that waits for a program's record runs."""
    return Path("/proc", pending.name.partition("-")[0]).exists() and pending.exists()


def started(command: list[str], env: dict[str, str], part: str, cwd: Path) -> int:
    with Path(f"/stand/out/{part}.log").open("wb") as log:
        try:
            return subprocess.run(
                command,
                cwd=cwd,
                env=env | {"STAND_PART": part},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=120,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return 124


def snapshot() -> dict[Path, bytes | None]:
    """Content of each file; None for a directory."""
    return {
        p: None if p.is_dir() else p.read_bytes()
        for place in ("/home/me", "/scratch", "/tmp/job")
        for p in Path(place).rglob("*")
        if (p.is_file() or p.is_dir()) and not p.is_symlink()
    }


def left_in_home() -> dict[str, str]:
    """The user's files at the end, and what is in them."""
    found = (p for place in ("/home/me", "/scratch") for p in sorted(Path(place).rglob("*")))
    return {
        str(p): p.read_text("utf-8", "replace")[:200] for p in found if p.is_file() and "/jobs/" not in str(p)
    }


def restore(files: dict[Path, bytes | None]) -> None:
    """Both sides begin with the same files."""
    for place in ("/home/me", "/scratch", "/tmp/job"):
        for path in sorted(Path(place).rglob("*"), reverse=True):
            if path.is_file() and not path.is_symlink() and path not in files:
                path.unlink()
            elif path.is_dir() and not path.is_symlink() and path not in files:
                with contextlib.suppress(OSError):  # it may have programs of the sandbox
                    path.rmdir()
    for path, content in files.items():
        (path if content is None else path.parent).mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content)


# ---- files --------------------------------------------------------------------------------------------------


def prepare(text: str) -> None:
    for folder in (
        "/stand/bin",
        "/stand/out",
        "/stand/pending",
        "/stand/sites",
        "/home/me/project",
        "/home/me/jobs",
        "/scratch/me/work",
        "/tmp/job",
        "/tmp/nodes",
    ):
        Path(folder).mkdir(parents=True, exist_ok=True)
    program = f"#!{sys.executable} -SE\n" + (HERE / "standin.py").read_text()
    Path("/stand/standin.py").write_text(program)
    Path("/stand/standin.py").chmod(0o755)
    for name in PROGRAMS:
        link = Path("/stand/bin", name)
        link.symlink_to("/stand/standin.py")
    for site in (HERE / "sites").glob("*.yaml"):
        Path("/stand/sites", site.name).write_text(site.read_text())
    for path in expanded_paths(text, r"(?:\bcat|<)\s+(\"?[^\s;&|\"<>)`]+(?:key|token|keys/\w+))\b"):
        touch(path, f"content of {path.name}\n")
        path.chmod(0o600)
    for path in expanded_paths(text, r"(?:source|\.)\s+([^\s;&|\"]*(?:\.env|\.secrets))\b"):
        touch(path, "HF_TOKEN=sourced\nexport WANDB_API_KEY=sourced\n")
    for path in expanded_paths(text, r"(?:source|\.)\s+(\"?[^\s;&|\"]+\"?)"):
        touch(path, "")
    for path in expanded_paths(text, r"([\w./~${}-]+\.(?:py|sqsh|sif|simg|img))\b"):
        touch(path, "")
    for path in expanded_paths(text, r"(?:cd|pushd|#SBATCH.* -D)\s+(\"?[^\s;&|\"]+\"?)"):
        make(path)
        for name in re.findall(r"(?<![\w./$}-])[\w-][\w./-]*\.py\b", text):
            touch(path / name, "")
    for path in expanded_paths(text, r"(?:cp -\w*r\w*|rsync -\w+)\s+(\"?[^\s;&|\"*]+)"):
        if not str(path).startswith("/tmp"):
            touch(path if path.suffix else path / "train" / "a", "1")
    for path in expanded_paths(text, r"(?<=[\s\"'])([\w./~${}-]+\.(?:tar(?:\.\w+)?|tgz|zip))\b"):
        if not str(path).startswith("/tmp"):
            pack(path)
    for path in expanded_paths(text, r"(?:bash|sh|zsh|srun(?:\s+-\S+)*)\s+(\"?[^\s;&|\"-]+\.sh\"?)"):
        touch(path, 'exec python "script:$0" "$@"\n')
    for path in expanded_paths(text, r"((?:\./|\$\w+/|/)[^\s;&|\"'()$=:,]*[^\s;&|\"'()$=:,/])"):
        if (
            re.search(r"/(?:bin|usr|etc|proc|dev|lib|sys)(?:/|$)", str(path)) is None
            and not path.suffix
            and not path.exists()
            and str(path).startswith(str(PROJECT))
        ):
            make(path.parent)
            link_program(path)
    for path in expanded_paths(text, r"((?:\$\{?\w+\}?|/|~)[^\s;&|\"'()=:,]*/bin/python[\d.]*)"):
        if not str(path).startswith("/usr"):
            make(path.parent)
            link_program(path)


def provide_missing(text: str, log: str) -> bool:
    """Make the programs and files that the script's output says are missing; False if there is none."""
    made = False
    for name in re.findall(r"cd: (/?[\w./+-]+): No such file or directory", log):
        if not (PROJECT / name).exists():
            make(PROJECT / name)
            made |= (PROJECT / name).exists()
    for name in re.findall(r"([\w./+-]+): command not found", log):
        path = Path("/stand/bin", name) if "/" not in name else PROJECT / name
        made |= _new_program(path)
    programs = r"(?:line \d+: |bash: |directory: ')(/?[\w./+-]+)(?:: No such file or directory|'$)"
    for name in re.findall(programs, log, re.MULTILINE):
        path = PROJECT / name if "/" in name or "." in name else Path("/stand/bin", name)
        last = re.escape(path.name)
        if re.search(rf"(?<![\w.])(?:source|\.|bash|sh)[ \t]+\S*{last}", text) and not path.exists():
            touch(path, f'[[ $0 != *{path.name} ]] || exec python "script:$0" "$@"\n')
            made |= path.exists()
        else:
            made |= _new_program(path)
    for name in re.findall(r"(?:cannot stat|can't read|cannot open) '?(/?[\w./+-]+)", log):
        if not (PROJECT / name).exists():
            touch(PROJECT / name, "")
            made |= (PROJECT / name).exists()
    return made


def _new_program(path: Path) -> bool:
    if path.exists() or str(path).startswith("/etc"):
        return False
    make(path.parent)
    link_program(path)
    return path.exists()


def link_program(path: Path) -> None:
    try:
        path.symlink_to("/stand/standin.py")
    except OSError:
        return


def expanded_paths(text: str, pattern: str) -> list[Path]:
    values = {"HOME": "/home/me", "SCRATCH": "/scratch/me", "USER": "me", "WORK": "/scratch/me/work", "TMPDIR": "/tmp/job",
              "SLURM_SUBMIT_DIR": str(PROJECT), "PBS_O_WORKDIR": str(PROJECT), "PWD": str(PROJECT)}  # fmt: skip
    values |= {
        m[1]: m[2].strip("\"'")
        for m in re.finditer(r"^\s*(?:export\s+)?(\w+)=(\S+)$", text, re.MULTILINE)
        if m[1] not in values
    }
    found = []
    for match in re.finditer(pattern, text):
        path = match[1].strip("\"'")
        for _ in range(4):
            path = re.sub(r"\$\{?(\w+)\}?", lambda m: values.get(m[1], m[0]), path)
        path = re.sub(r"^~(?=/|$)", "/home/me", path)
        if "$" not in path and "\x00" not in path and "`" not in path and "*" not in path:
            found.append(PROJECT / path)
    return found


def touch(path: Path, text: str) -> None:
    make(path.parent)
    try:
        if not path.exists():
            path.write_text(text)
    except OSError:
        return


def pack(path: Path) -> None:
    """Make an archive with a file, in the format that its name says."""
    make(path.parent)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("train/a", path.stem)
        return
    kind = {".gz": "gz", ".tgz": "gz", ".bz2": "bz2", ".xz": "xz"}.get(path.suffix, "")
    with tarfile.open(path, f"w:{kind}") as made:
        entry = tarfile.TarInfo("train/a")
        entry.size = len(path.stem)
        made.addfile(entry, io.BytesIO(path.stem.encode()))


def make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return


# ---- the scheduler ------------------------------------------------------------------------------------------


def scheduler_of(text: str) -> str:
    for mark, name in (
        ("#SBATCH", "slurm"),
        ("#PBS", "pbs"),
        ("#$ -", "sge"),
        ("flux:", "flux"),
        ("FLUX:", "flux"),
        ("#BSUB", "lsf"),
    ):
        if re.search(rf"^#?[^\n]{{0,2}}{re.escape(mark)}", text, re.MULTILINE):
            return name
    return "slurm"


def start_of(text: str, scheduler: str) -> Path:
    """Where the scheduler starts a script."""
    if scheduler == "pbs":
        return PROJECT if re.search(r"^#PBS\s+-l\s+wd", text, re.MULTILINE) else Path("/home/me")
    if scheduler == "sge":
        return PROJECT if re.search(r"^#\$.*-cwd", text, re.MULTILINE) else Path("/home/me")
    return PROJECT / options_of(text, "#SBATCH").get("chdir", "") if scheduler == "slurm" else PROJECT


def options_of(text: str, prefix: str) -> dict[str, str]:
    """Options of a script's directives, by long name, without those after the first command."""
    short = {
        "N": "nodes",
        "n": "ntasks",
        "c": "cpus-per-task",
        "G": "gpus",
        "J": "job-name",
        "p": "partition",
        "a": "array",
        "A": "account",
        "D": "chdir",
    }
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if not line.startswith(prefix):
            continue
        try:
            words = shlex.split(line[len(prefix) :], comments=True)
        except ValueError:
            words = line[len(prefix) :].split()
        while words:
            word = words.pop(0)
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
            else:
                name, value, equals = short.get(word[1:2], word[1:2]), word[2:], word[2:]
            if not equals and words and not words[0].startswith("-"):
                value = words.pop(0)
            found[name] = value
    return found


def count(text: str | None) -> int | None:
    digits = re.sub(r"^.*:", "", text or "").partition("-")[0]
    return int(digits) if digits.isdigit() else None


def environment(text: str, scheduler: str, submit: Path) -> dict[str, str]:
    """Variables of the scheduler in a job with these directives, and what the stand-ins know of it."""
    if scheduler == "slurm":
        return slurm(options_of(text, "#SBATCH"), submit)
    if scheduler == "pbs":
        return pbs(text, submit)
    if scheduler == "sge":
        return sge(text, submit)
    if scheduler == "flux":
        return fluxes(text, submit)
    return hosts(2) | {"LSB_JOBID": "1"}


def hosts(nodes: int, gpus: int = 0, slots: int = 1) -> dict[str, str]:
    names = " ".join(f"node{i}" for i in range(1, nodes + 1))
    return {"STAND_NODES": names, "STAND_GPUS": str(gpus), "STAND_SLOTS": str(slots)}


def slurm(o: dict[str, str], submit: Path) -> dict[str, str]:
    nodes, tasks = count(o.get("nodes")), count(o.get("ntasks"))
    per_node = count(o.get("ntasks-per-node") or o.get("tasks-per-node"))
    if nodes is None:
        nodes = -(-(tasks or 1) // per_node) if per_node else 2 if (tasks or 1) > 1 else 1
    if tasks is None and per_node:
        tasks = nodes * per_node
    asked = [
        re.sub(r"^gres[:/]|\(.*", "", p) for p in (o.get("gres") or o.get("tres-per-node") or "").split(",")
    ]
    gres = next((part.replace("=", ":") for part in asked if part.startswith("gpu")), None)
    if of_task := re.fullmatch(r"gres[:/]gpu[:=](.*)", o.get("tres-per-task") or ""):
        o["gpus-per-task"] = of_task[1]
    gpus = count(o.get("gpus-per-node")) or (count(gres) if gres and ":" in gres else 1 if gres else None)
    if gpus is None and "gpus" in o:
        gpus = (count(o["gpus"]) or 1) // nodes
    if gpus is None and "gpus-per-task" in o:
        gpus = (count(o["gpus-per-task"]) or 1) * (per_node or max(1, (tasks or 1) // nodes))
    env = {"SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_NNODES": str(nodes), "SLURM_JOB_NUM_NODES": str(nodes),
           "SLURM_JOB_NODELIST": f"node[1-{nodes}]", "SLURM_NODELIST": f"node[1-{nodes}]", "SLURM_SUBMIT_DIR": str(submit),
           "SLURM_JOB_NAME": o.get("job-name") or "batch-script.sh", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
           "SLURM_RESTART_COUNT": "0", "SLURMD_NODENAME": "node1", "SLURM_TASK_PID": "7"}  # fmt: skip
    env |= dict(part.split("=", 1) for part in (o.get("export") or "").split(",") if "=" in part)
    if tasks is not None:
        env |= {"SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks)}
    if per_node:
        env["SLURM_NTASKS_PER_NODE"] = str(per_node)
    if "cpus-per-task" in o:
        env["SLURM_CPUS_PER_TASK"] = str(count(o["cpus-per-task"]))
    if gpus:
        env |= {"SLURM_GPUS_ON_NODE": str(gpus), "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
    if "gpus-per-node" in o:
        env["SLURM_GPUS_PER_NODE"] = o["gpus-per-node"]
    if "array" in o:
        first = re.match(r"\d+", o["array"])
        env |= {"SLURM_ARRAY_TASK_ID": first[0] if first else "0", "SLURM_ARRAY_JOB_ID": "1"}
    slots = per_node or max(1, -(-(tasks or nodes) // nodes))
    return env | hosts(nodes, gpus or 0, slots)


def pbs(text: str, submit: Path) -> dict[str, str]:
    lines = "\n".join(m[1] for m in re.finditer(r"^#PBS\s+(.*)", text, re.MULTILINE))
    select = re.search(r"(?:select|nodes)=(\d+)?([^\s,]*)", lines)
    nodes = int(select[1] or 1) if select else 1
    if not select and (cpus := re.search(r"ncpus=(\d+)", lines)):
        nodes = max(1, int(cpus[1]) // 48)
    detail = select[2] if select else ""
    slots = re.search(r"(?:mpiprocs|ppn)=(\d+)", detail)
    gpus = re.search(r"n?gpus=(\d+)", detail if select else lines)
    each = int(slots[1]) if slots else 1
    name = re.search(r"-N\s+(\S+)", lines)
    Path("/tmp/nodefile").write_text("".join(f"node{i}\n" * each for i in range(1, nodes + 1)))
    env = {"PBS_JOBID": "1.pbs", "PBS_O_WORKDIR": str(submit), "PBS_NODEFILE": "/tmp/nodefile", "PBS_JOBNAME": name[1] if name else "x",
           "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBFS": "/tmp/job", "PBS_O_HOST": "login"}  # fmt: skip
    if re.search(r"-J\s+(\d+)", lines):
        env["PBS_ARRAY_INDEX"] = re.search(r"-J\s+(\d+)", lines)[1]
    return env | hosts(nodes, int(gpus[1]) if gpus else 0, each)


def sge(text: str, submit: Path) -> dict[str, str]:
    lines = "\n".join(m[1] for m in re.finditer(r"^#\$\s*(-.*)", text, re.MULTILINE))
    environment = re.search(r"-pe\s+(\S+)\s+(\d+)", lines)
    slots = int(environment[2]) if environment else 1
    whole = re.search(r"(?:node_f|rt_A?F)=(\d+)", lines)
    each = re.search(r"\d+", environment[1]) if environment else None
    nodes = int(whole[1]) if whole else slots // int(each[0]) if each else 1
    gpus = re.search(r"\bn?gpus?=(\d+)", lines)
    Path("/tmp/pe_hostfile").write_text(
        "".join(f"node{i} {slots // nodes} q@n UNDEFINED\n" for i in range(1, nodes + 1))
    )
    return {"JOB_ID": "1", "NSLOTS": str(slots), "NHOSTS": str(nodes), "PE_HOSTFILE": "/tmp/pe_hostfile", "SGE_O_WORKDIR": str(submit),
            "JOB_NAME": "x", "SGE_TASK_ID": "undefined", "QUEUE": "q", "RESTARTED": "0"} | hosts(nodes, int(gpus[1]) if gpus else 0, max(1, slots // nodes))  # fmt: skip


def fluxes(text: str, submit: Path) -> dict[str, str]:
    lines = " ".join(m[1] for m in re.finditer(r"^#[^A-Za-z0-9]*(?:flux|FLUX):\s+(.*)", text, re.MULTILINE))
    nodes = re.search(r"(?:-N\s*|--nodes=)(\d+)", lines)
    return {"FLUX_JOB_ID": "f1", "FLUX_URI": "local:///tmp/f", "FLUX_ENCLOSING_ID": "f1"} | hosts(
        int(nodes[1]) if nodes else 1
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
