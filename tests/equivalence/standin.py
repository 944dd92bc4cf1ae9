"""A stand-in for each program that a batch script may start: launchers and agents start processes, programs record themselves.

It knows nothing of dlrun: srun, mpirun, torchrun and the others start as many processes as their manuals say. Runs inside the
sandbox under the name of the program, with the standard library alone.
"""

import hashlib
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

NAME = Path(sys.argv[0]).name
ARGS = sys.argv[1:]
NODES = os.environ["STAND_NODES"].split()
PYTHON = sys.executable


def name_set(text):
    return set(text.split())


VALUES = {
    "srun": name_set("N n c G t p A q C w x J o e i m D W r L B"),
    "mpirun": name_set(
        "np n c N ppn perhost npernode npersocket map-by bind-to rank-by x H host hosts hostfile machinefile "
        "f genvlist wdir wd o pmi cpu-bind depth d mem-bind gpu-bind cc j S iface bootstrap launcher "
        "output-filename timeout env-file prefix"
    ),
}
PAIRS = {"mca", "genv", "env", "gmca"}
SRUN_FLAGS = name_set(
    "label unbuffered exclusive exact overlap pty no-kill verbose quiet overcommit oversubscribe "
    "kill-on-bad-exit multi-prog disable-status no-container-mount-home container-writable "
    "container-mount-home container-remap-root contiguous"
)


def main() -> int:
    if NAME == "srun":
        return srun()
    if NAME in {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "ibrun", "aprun"}:
        return mpirun()
    if NAME == "jsrun":
        return jsrun()
    if NAME == "flux":
        return flux()
    if NAME in {"torchrun", "accelerate", "deepspeed", "horovodrun"}:
        return agent(NAME, ARGS)
    if re.fullmatch(r"python[\d.]*", NAME):
        return python()
    if NAME in {"apptainer", "singularity"}:
        return container()
    if NAME in {"uv", "poetry", "pipenv", "pdm"} and ARGS[:1] == ["run"]:
        return execute(ARGS[1:])
    if NAME == "numactl" and ARGS and not ARGS[-1].startswith("-"):
        rest = list(ARGS)
        while rest and rest[0].startswith("-"):
            rest.pop(0)
        return execute(rest)
    if NAME == "scontrol":
        return scontrol()
    if NAME == "rsync":
        source, target = [word for word in ARGS if not word.startswith("-")]
        if target.endswith("/") or Path(source).is_dir():
            Path(target).mkdir(parents=True, exist_ok=True)
        return execute(["cp", "-a", f"{source}." if source.endswith("/") else source, target])
    if NAME == "nvidia-smi":
        for index in range(int(os.environ.get("STAND_GPUS", "0") or 0)):
            print(
                f"GPU {index}: NVIDIA (UUID: GPU-{index})" if ARGS[:1] in (["-L"], ["--list-gpus"]) else index
            )
        return 0
    if NAME == "hostname":
        print(f"10.0.0.{node().removeprefix('node')}" if {"-i", "-I", "--ip-address"} & set(ARGS) else node())
        return 0
    if NAME in QUIET:
        return 0
    return record([NAME, *ARGS])  # any other program is one that a script starts


QUIET = name_set(
    "sbatch qsub squeue sacct seff wget curl pip pip3 git sleep nvcc rocm-smi qstat clear sinfo wandb huggingface-cli pbsdsh ssh scp "
    "pkill killall activate free nc"
)


def node() -> str:
    return os.environ.get("STAND_NODE") or NODES[0]


def execute(words) -> int:
    if not words:
        return 0
    return subprocess.run(words, check=False).returncode


# ---- launchers ----------------------------------------------------------------------------------------------


def start(words, layout, variables, nodes=None) -> int:
    """Start the words once for each (node index, local rank), at the same time."""
    processes = []

    def end(*_):
        """A server that is ended has recorded itself, however soon that is."""
        while any(p.poll() is None and path.exists() for p, path in processes):
            time.sleep(0.02)
        for process, _path in processes:
            process.terminate()

    signal.signal(signal.SIGTERM, end)
    for rank, (at, local) in enumerate(layout):
        pending = Path("/stand/pending", f"{os.getpid()}-{rank}")
        env = {
            **os.environ,
            **variables(rank, at, local, len(layout)),
            "STAND_NODE": (nodes or NODES)[at],
            "STAND_RANK": str(rank),
            "STAND_PENDING": str(pending),
        }
        pending.write_text("")
        try:
            processes.append((subprocess.Popen(words(rank) if callable(words) else words, env=env), pending))
        except OSError as error:
            print(f"{words}: {error}", file=sys.stderr)
            return 127
    code = max((process.wait() for process, _ in processes), default=0)
    for _, path in processes:
        path.unlink(missing_ok=True)
    return code


def spread(tasks, nodes):
    """Tasks over nodes in blocks, as even as possible (srun(1), distribution block)."""
    return [(at, local) for at in range(nodes) for local in range(tasks // nodes + (at < tasks % nodes))]


def number(text):
    return int(re.sub(r"^.*:", "", text))


def hosts_of(options, nodes, job):
    """How many nodes a step has, and the names of the job's nodes in the order in which it has them."""
    named = options.get("nodelist") or options.get("w")
    first = number(options.get("relative") or options.get("r") or "0")
    hosts = NODES[first:]
    if named:  # without --nodes the list is completed
        hosts = [*named.split(","), *(n for n in NODES if n not in named.split(","))]
        nodes = (
            nodes
            if options.keys() & {"nodes", "N"}
            else max(len(named.split(",")), nodes if "n" in options or "ntasks" in options else job)
        )
    return nodes, hosts


def srun() -> int:
    options, words = {}, list(ARGS)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in SRUN_FLAGS:
                value = words.pop(0)
            options[name] = value
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in VALUES["srun"] or (letter == "K" and letters):
                options[letter] = letters or words.pop(0)
                letters = ""
            else:
                options[letter] = ""
    if ":" in words:
        words = words[: words.index(":")]
    e = os.environ
    job = int(e["SLURM_NNODES"])
    nodes = min(number(options.get("nodes") or options.get("N") or str(job)), job)
    nodes, hosts = hosts_of(options, nodes, job)
    tasks = options.get("ntasks") or options.get("n")
    per_node = options.get("ntasks-per-node")
    if tasks is None and per_node is None:
        tasks = e.get("SLURM_NTASKS") if nodes == job else None
        per_node = e.get("SLURM_NTASKS_PER_NODE")
    if tasks is None:
        tasks = nodes * int(per_node or 1)
    tasks = number(str(tasks))
    layout = spread(tasks, min(nodes, tasks))
    given = {}
    for part in re.split(r",(?=[A-Za-z_]\w*(?:=|$))", options.get("export", "")):
        if "=" in part:
            given.update([part.split("=", 1)])
    cpus = options.get("cpus-per-task") or options.get("c") or e.get("SLURM_CPUS_PER_TASK")
    if options.keys() & {"nodelist", "w", "relative", "r"}:
        given["STAND_PLACED"] = "1"
    if options.get("container-image"):
        given["STAND_IMAGE"] = options["container-image"]

    def variables(rank, at, local, size):
        made = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_NODEID": str(at), "SLURM_STEP_ID": "0",
                "SLURM_NTASKS": str(size), "SLURM_NPROCS": str(size), "SLURMD_NODENAME": hosts[at], **given}  # fmt: skip
        return made | ({"SLURM_CPUS_PER_TASK": cpus} if cpus else {})

    if options.get("chdir") or options.get("D"):
        os.chdir(options.get("chdir") or options["D"])
    if "multi-prog" in options:
        words = configured(Path(words[0]).read_text(), len(layout))
    return start(words, layout, variables, hosts)


def configured(text, tasks):
    """The words of each rank by a configuration of `srun --multi-prog`."""
    programs = {}
    for line in (one for one in map(str.strip, text.splitlines()) if one and not one.startswith("#")):
        ranks, *words = line.split()
        numbers = range(tasks) if ranks == "*" else []
        for part in ranks.split(",") if ranks != "*" else ():
            first, _, last = part.partition("-")
            numbers = [*numbers, *range(int(first), int(last or first) + 1)]
        for offset, rank in enumerate(numbers):
            programs.setdefault(rank, [w.replace("%t", str(rank)).replace("%o", str(offset)) for w in words])
    return programs.__getitem__


def mpirun() -> int:
    counts, given, words = {}, {}, list(ARGS)
    while words and words[0].startswith("-"):
        word = words.pop(0).lstrip("-")
        name, equals, value = word.partition("=")
        if name in PAIRS:
            first = words.pop(0)
            if "=" in first and name in {"env", "genv"}:
                given.update([first.split("=", 1)])
            else:
                second = words.pop(0)
                if name in {"env", "genv"}:
                    given[first] = second
        elif name in VALUES["mpirun"]:
            value = value if equals else words.pop(0)
            counts[name] = value
            if name == "x" and "=" in value:
                given.update([value.split("=", 1)])
        else:
            counts[name] = ""
    more = []
    while ":" in words:
        at = len(words) - words[::-1].index(":")
        size, *program = words[at + 1 :]  # `-np 3 PROGRAM`
        more.insert(0, (int(size), program))
        words = words[: at - 1]
    per_node = counts.get("ppn") or counts.get("npernode") or counts.get("N") or counts.get("perhost")
    if match := re.match(r"ppr:(\d+):node", counts.get("map-by", "")):
        per_node = match[1]
    nodes = len(NODES)
    slots = int(os.environ.get("STAND_SLOTS", "1"))
    tasks = int(
        counts.get("np")
        or counts.get("n")
        or counts.get("c")
        or (int(per_node) if per_node else slots) * nodes
    )
    if more:
        each = [(tasks, words), *more]
        every = [program for size, program in each for _ in range(size)]
        tasks, words = len(every), every.__getitem__
    if per_node:
        layout = [(i // int(per_node), i % int(per_node)) for i in range(tasks)]
    elif tasks <= slots * nodes:
        layout = [(i // slots, i % slots) for i in range(tasks)]
    else:
        layout = spread(tasks, nodes)
    if layout[-1][0] >= nodes:
        print("not enough slots", file=sys.stderr)
        return 1

    def variables(rank, at, local, size):
        return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_RANK": str(local), "OMPI_COMM_WORLD_SIZE": str(size),
                "PMI_RANK": str(rank), "PMI_SIZE": str(size), **given}  # fmt: skip

    return start(words, layout, variables)


def jsrun() -> int:
    options, words = {}, list(ARGS)
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).lstrip("-").partition("=")
        options[name] = value if equals else words.pop(0)
    sets = int(options.get("n") or options.get("nrs") or len(NODES))
    tasks = sets * int(options.get("tasks_per_rs") or options.get("a") or 1)
    return start(
        words, spread(tasks, len(NODES)), lambda rank, at, local, size: {"OMPI_COMM_WORLD_RANK": str(rank)}
    )


def flux() -> int:
    words = ARGS[1:] if ARGS[:1] == ["mini"] else ARGS
    if words[:1] not in (["run"], ["submit"]):
        if words[:2] == ["getattr", "jobid"]:
            print("f1")
        elif words[:1] in (["hostlist"], ["resource"]):
            print("\n".join(NODES))
        return 0
    options, words, given = {}, words[1:], {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in {"exclusive", "unbuffered", "label-io", "verbose"}:
                value = words.pop(0)
        else:
            name, value = word[1], word[2:]
            if not value and name not in "xuvl":
                value = words.pop(0)
        options[name] = value
        if name == "env" and "=" in value:
            given.update([value.split("=", 1)])
    nodes = int(options.get("nodes") or options.get("N") or len(NODES))
    per_node = options.get("tasks-per-node")
    tasks = int(options.get("ntasks") or options.get("n") or nodes * int(per_node or 1))

    def variables(rank, at, local, size):
        return {
            "FLUX_TASK_RANK": str(rank),
            "FLUX_TASK_LOCAL_ID": str(local),
            "FLUX_JOB_SIZE": str(size),
            **given,
        }

    return start(words, spread(tasks, min(nodes, tasks)), variables)


# ---- agents -------------------------------------------------------------------------------------------------


def agent(name, arguments) -> int:
    words = list(arguments)
    if name == "accelerate" and words.pop(0) != "launch":
        return 0
    flags = name_set(
        "standalone no-python module m use-env multi-gpu use-deepspeed use-fsdp cpu same-network "
        "no-local-rank gloo mpi verbose debug run-path force-multi"
    )
    options = {}
    while words and words[0].startswith("-"):
        key, equals, value = words.pop(0).lstrip("-").partition("=")
        key = key.replace("_", "-")
        if not equals and key not in flags:
            value = words.pop(0)
        options[key] = value
    gpus = int(os.environ.get("STAND_GPUS", "1") or 1)
    nodes = number(options.get("nnodes") or options.get("num-machines") or "1")
    per = options.get("nproc-per-node") or options.get("num-gpus")
    per_node = gpus if per in {"gpu", "auto"} or (per is None and name == "deepspeed") else int(per or 1)
    if name == "accelerate":
        per_node = int(options.get("num-processes") or gpus) // nodes
    if name == "horovodrun":
        per_node = int(options.get("np") or options.get("num-proc") or 1)
    at = int(os.environ.get("SLURM_NODEID") or NODES.index(node())) if nodes > 1 else 0
    is_module = {"m", "module"} & options.keys()
    if name == "horovodrun" or "no-python" in options:
        program = words
    else:
        program = ["python", *(["-m"] if is_module else []), *words[:1]]
        program += ["--local_rank=%d"] if name == "deepspeed" and "no-local-rank" not in options else []
        program += words[1:]

    def variables(rank, _at, local, size):
        return {"RANK": str(at * per_node + local), "LOCAL_RANK": str(local), "WORLD_SIZE": str(per_node * nodes),
                "LOCAL_WORLD_SIZE": str(per_node), "GROUP_RANK": str(at), "MASTER_ADDR": "x", "MASTER_PORT": "1",
                "STAND_RANK": str(at * per_node + local)}  # fmt: skip

    codes = []
    for local in range(per_node):
        env = {**os.environ, **variables(local, at, local, per_node)}
        env["STAND_AGENT"] = name
        codes.append(
            subprocess.run(
                [w.replace("%d", str(local)) if w == "--local_rank=%d" else w for w in program],
                env=env,
                check=False,
            ).returncode
        )
    return max(codes, default=0)


MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
           "accelerate.commands.launch": "accelerate",
           "deepspeed.launcher.runner": "deepspeed"}  # fmt: skip


def python() -> int:
    words = list(ARGS)
    while words and words[0] in {"-u", "-O", "-B", "-s", "-I", "-E"}:
        words.pop(0)
    if words[:1] == ["-m"] and words[1] in MODULES:
        rest = words[2:]
        return agent(MODULES[words[1]], (["launch", *rest] if MODULES[words[1]] == "accelerate" else rest))
    if words[:1] == ["-c"] or words[:1] in (["--version"], ["-V"]):
        if "torch" in "".join(words[1:2]) or "import" in "".join(words[1:2]):
            return record(["python", *words])
        return subprocess.run([PYTHON, *words], check=False).returncode
    if words[:2] in (["-m", "pip"], ["-m", "venv"]):
        return 0
    # Whether output is buffered is no part of a training.
    return record(["python", *words])


def container() -> int:
    words = list(ARGS)
    kind = words.pop(0) if words else ""
    if kind not in {"exec", "run"}:
        return 0
    flags = name_set("nv rocm cleanenv contain containall writable-tmpfs writable no-home fakeroot e c C w f")
    binds, env = [], {}
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).lstrip("-").partition("=")
        if name not in flags and not equals:
            value = words.pop(0) if not (name.startswith("B") and len(name) > 1) else name[1:]
        if name == "env":
            env.update(pair.split("=", 1) for pair in value.split(","))
        if name in {"B", "bind"}:
            binds += value.split(",")
    os.environ.update(env)
    image = words.pop(0) if words else ""
    os.environ["STAND_IMAGE"] = f"{kind} {image}"
    os.environ["STAND_BINDS"] = ",".join(
        sorted(
            b
            for b in binds
            if "dlrun" not in b and "/jobs/" not in b and b != os.environ.get("STAND_HOME_DIR")
        )
    )
    return execute(words) if words else record([f"{kind}:{image}"])


def scontrol() -> int:
    if ARGS[:2] == ["show", "hostnames"] or ARGS[:2] == ["show", "hostname"]:
        print("\n".join(NODES))
    elif ARGS[:2] == ["show", "job"]:
        print("JobId=1 Command=/x NodeList=n")
    return 0


# ---- programs -----------------------------------------------------------------------------------------------


def files():
    """Files of the user, with a digest of each."""
    found = {}
    for place in ("/home/me", "/scratch", "/tmp/job"):
        for path in sorted(Path(place).rglob("*")):
            if path.is_file() and "/jobs/" not in str(path) and not path.is_symlink():
                found[str(path)] = hashlib.sha1(path.read_bytes()).hexdigest()[:12]
    return found


def trees(words):
    """Paths on node-local storage in the words, with a digest of what is there: copies are the same wherever they are."""
    out = output(words)
    found = {out: "out"} if out else {}  # other ranks write there at the same time
    for path in re.findall(r"/tmp/(?:job|nodes)/[^\s,:;'\"]*", " ".join([*words, *os.environ.values()])):
        below = sorted(p for p in Path(path).rglob("*") if p.is_file()) if Path(path).is_dir() else []
        parts = [f"{p.relative_to(path)} {hashlib.sha1(p.read_bytes()).hexdigest()}" for p in below]
        if Path(path).is_file():
            parts = [hashlib.sha1(Path(path).read_bytes()).hexdigest()]
        if Path(path).exists() and path != out:
            found[path] = hashlib.sha1("\n".join(parts).encode()).hexdigest()[:12]
    return found


def output(words):
    """The directory of the option `--out`, if it is on the node."""
    out = words[words.index("--out") + 1] if "--out" in words[:-1] else ""
    return out if out.startswith(("/tmp/job/", "/tmp/nodes/")) else ""


def write_results(words):
    """What the program leaves in its directory for output."""
    if out := output(words):
        Path(out).mkdir(parents=True, exist_ok=True)
        Path(out, f"model-{os.environ.get('STAND_RANK', '0').replace('script', '0')}.pt").write_text(
            "trained"
        )


def record(words) -> int:
    if (
        "dlrun" in os.environ.get("STAND_PART", "")
        and words[:1] == ["python"]
        and words[1:2]
        and "/jobs/" in words[1]
    ):
        return subprocess.run([PYTHON, *words[1:]], check=False).returncode
    hidden = {"STAND_PART", "STAND_NODES", "STAND_AGENT", "STAND_PLACED"}
    entry = {
        "rank": os.environ.get("STAND_RANK", "script"),
        "node": node(),
        "argv": words,
        "cwd": str(Path.cwd()),
        "env": {k: v for k, v in os.environ.items() if k not in hidden},
        "files": files(),
        "trees": trees(words),
        "placed": "STAND_PLACED" in os.environ,
        "pid": os.getpid(),
    }
    with Path(f"/stand/out/{os.environ['STAND_PART']}.jsonl").open("a") as out:
        out.write(json.dumps(entry) + "\n")
    write_results(words)
    if os.environ.get("STAND_PENDING"):
        Path(os.environ["STAND_PENDING"]).unlink(missing_ok=True)
    text = " ".join(words)
    port = re.search(r"--?[\w-]*port[= ](\d+)", text)
    if port and re.search(r"serve|judge\.py|vllm", text):
        serve(int(port[1]))
    return 0


def serve(port):
    """Answer requests until the end of the job, as a server does."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    http.server.ThreadingHTTPServer(("", port), Answer).serve_forever()


if __name__ == "__main__":
    sys.exit(main())
