"""How many nodes, ranks, cores and GPUs a script uses: from its directives and its launch line."""

from __future__ import annotations

from dataclasses import dataclass

from dlrun.importing.agents import ALL_GPUS, Agent
from dlrun.importing.launch import Launch
from dlrun.schedulers.draft import Size, SpecDraft


@dataclass(frozen=True, slots=True)
class Layout:
    """Tasks of a launch on the nodes of the job. `known` is False if a number is a guess, which is recorded for the user."""

    nodes: int
    tasks: int
    tasks_per_node: int
    known: bool


def allocation(draft: SpecDraft, *, slurm: bool) -> dict[str, int | None]:
    """The counts that the scheduler's variables have in the job, as far as the directives show them; None: unknown."""
    counts = draft.counts
    nodes = nodes_of(draft)
    per_node, tasks = counts.get("tasks_per_node"), counts.get("tasks")
    slots = counts.get("slots_per_node", 1)
    if tasks is None and per_node and nodes:
        tasks = per_node * nodes
    allocated: dict[str, int | None] = {
        "nodes": nodes,
        "tasks": tasks if slurm else None,
        "tasks_per_node": per_node,
        "cpus_per_task": counts.get("cpus_per_task"),
        "gpus": gpus_per_node(draft, nodes),
        "gpus_option": counts.get("gpus"),
        "slots": counts.get("slots"),
        "lines": slots * nodes if nodes and not slurm else None,
    }
    return allocated


_SMALL = 16
"""Cores of a job that are on one node: PBS puts `-l ncpus` into one chunk, and sites that spread it do so by whole nodes."""


def nodes_of(draft: SpecDraft) -> int | None:
    """The number of nodes of the job; None if the scheduler chooses it."""
    counts = draft.counts
    if "nodes" in counts:
        return counts["nodes"]
    tasks, per_node = counts.get("tasks", 1), counts.get("tasks_per_node")
    if counts.get("cpus_of_job", 0) > _SMALL and counts.get("all_gpus") != 1:
        return None
    if counts.get("all_gpus", 1) > 8:
        return None
    if per_node:
        return -(-tasks // per_node)
    return 1 if tasks == 1 else None


def gpus_per_node(draft: SpecDraft, nodes: int | None) -> int | None:
    """GPUs on each node as requested; None if they are not requested, or the number is unknown."""
    counts = draft.counts
    if "gpus" in counts:
        return counts["gpus"]
    if "all_gpus" in counts and nodes and counts["all_gpus"] % nodes == 0:
        return counts["all_gpus"] // nodes
    if "gpus_per_task" in counts and nodes:
        tasks = counts.get("tasks_per_node") or (
            counts["tasks"] // nodes if counts.get("tasks", 1) % nodes == 0 and "tasks" in counts else 0
        )
        return counts["gpus_per_task"] * (tasks or 1)
    return None


_GPU_COUNTS = {"gpus", "all_gpus", "gpus_per_task"}


def of_launch(draft: SpecDraft, launch: Launch) -> Layout:
    """The tasks that a launch line starts, before any agent in them."""
    allocated = nodes_of(draft)
    known = allocated is not None
    counts = launch.counts
    nodes = allocated or counts.get("nodes") or 1
    if allocated is None:
        draft.check(
            launch.line,
            "",
            "the number of nodes is not in the script: the scheduler chooses it",
            "resources.nodes",
        )
    if "srun" not in launch.launchers and "flux" not in launch.launchers:
        layout = _mpi(draft, launch, nodes) if launch.launchers else (1, 1)
    else:
        layout = _step(draft, launch, nodes)
    tasks, per_node = layout
    used = -(-tasks // per_node)
    if used < nodes and known:
        draft.check(launch.line, "", _unused(launch, used, nodes, tasks), "resources.nodes")
        known = False
    elif used > nodes and known:
        draft.check(
            launch.line,
            "",
            f"{tasks} tasks with {per_node} on a node do not fit on {nodes} nodes",
            "resources.nodes",
        )
        known = False
    elif tasks != nodes * per_node and nodes > 2:
        draft.check(
            launch.line,
            "",
            f"{tasks} tasks on {nodes} nodes: which node has fewer is the launcher's choice",
            "resources.ranks",
        )
        known = False
    return Layout(nodes, tasks, per_node, known)


def _unused(launch: Launch, used: int, nodes: int, tasks: int) -> str:
    """What to do about nodes of the job on which a launch starts nothing."""
    if launch.launchers:
        return f"the launch uses {used} of {nodes} nodes: {f'{tasks} tasks' if tasks > 1 else 'one task'}"
    if launch.agent is None:
        return (
            f"the script starts it on the first of {nodes} nodes alone: set `resources.nodes`; if it starts ranks on the others "
            "itself, write what it starts there as `command:`"
        )
    return (
        f"the script starts {launch.agent.program} on the first of {nodes} nodes alone: write what it starts as `command:`, with "
        f"`framework: {launch.agent.framework}`, and dlrun starts the ranks of all nodes"
    )


def _step(draft: SpecDraft, launch: Launch, nodes: int) -> tuple[int, int]:
    """Tasks and tasks per node of srun or flux run: its own options, else the job's."""
    own, job = launch.counts, draft.counts
    used = min(own.get("nodes", nodes), nodes) if "nodes" in job else own.get("nodes", nodes)
    per_node = own.get("tasks_per_node")
    tasks = own.get("tasks")
    if (
        "srun" in launch.launchers
        and tasks is None
        and per_node
        and "tasks" in job
        and job["tasks"] != used * per_node
    ):
        draft.check(
            launch.line, "", f"srun takes {job['tasks']} tasks of the job, and {per_node} on each node"
        )
    if tasks is None:
        per_node = per_node or job.get("tasks_per_node")
        job_tasks = job.get("tasks") if "nodes" not in own or own["nodes"] == nodes else None
        of_job = job_tasks if "tasks_per_node" not in own or not per_node else None
        tasks = of_job or used * (per_node or 1)
    used = min(used, tasks)
    return tasks, per_node if per_node and -(-tasks // per_node) == used else -(-tasks // used)


def _mpi(draft: SpecDraft, launch: Launch, nodes: int) -> tuple[int, int]:
    """Tasks and tasks per node of mpirun: it fills the slots of one node after the other."""
    own, job = launch.counts, draft.counts
    per_node = own.get("tasks_per_node")
    slots = (
        job.get("slots_per_node")
        or job.get("tasks_per_node")
        or (job["tasks"] // nodes if job.get("tasks", 1) % nodes == 0 and "tasks" in job else None)
    )
    tasks = own.get("tasks")
    if "sets" in own:
        per_node = own.get("sets_per_node", -(-own["sets"] // nodes)) * own.get("tasks_per_set", 1)
        tasks = own["sets"] * own.get("tasks_per_set", 1)
    if tasks is None:
        tasks = nodes * (per_node or slots or 1)
        if not per_node and not slots and not job.get("slots") and "pbsdsh" not in launch.launchers:
            draft.check(
                launch.line,
                "",
                "the number of ranks is that of the scheduler's slots",
                "resources.ranks_per_node",
            )
    if per_node is None:
        fits = slots is not None and tasks <= slots * nodes
        per_node = min(tasks, slots) if fits and slots else -(-tasks // nodes)
        if not fits and tasks % nodes:
            draft.check(
                launch.line,
                "",
                f"{tasks} ranks on {nodes} nodes: how many on each is not in the script",
                "resources.ranks",
            )
    return tasks, min(per_node, tasks)


def agent_ranks(draft: SpecDraft, agent: Agent, layout: Layout) -> int | None:
    """Ranks on each node that an agent starts; None if dlrun cannot start the same ones itself."""
    if not agent.convertible or not layout.known:
        return None
    if agent.total is not None:
        # horovodrun is started once, and starts its processes on all nodes.
        nodes = layout.nodes
        return agent.total // nodes if layout.tasks == 1 and nodes == 1 and agent.total % nodes == 0 else None
    if layout.tasks_per_node != 1 or layout.tasks != layout.nodes or agent.nodes != layout.nodes:
        return None
    if agent.per_node == ALL_GPUS:
        return gpus_per_node(draft, layout.nodes)
    return agent.per_node


def put(
    draft: SpecDraft, layout: Layout, ranks_per_node: int | None, launch: Launch, threads_per_core: int
) -> None:
    """Write nodes, ranks, cores, GPUs and memory; `ranks_per_node`: those of an agent, None without one."""
    counts = draft.counts
    own = launch.counts
    if "cpus_per_task" in own:
        counts["cpus_per_task"] = own["cpus_per_task"]
    if not counts.keys() & _GPU_COUNTS:
        counts |= {name: own[name] for name in ("gpus", "all_gpus") if name in own}
        if "gpus_per_task" in own:
            counts["gpus"] = own["gpus_per_task"] * layout.tasks_per_node
    per_node = ranks_per_node or layout.tasks_per_node
    cpus = counts.get("cpus_per_task")
    gpus = gpus_per_node(draft, layout.nodes)
    ranks = ranks_per_node * layout.nodes if ranks_per_node else layout.tasks
    draft.sizes[""] = Size(layout.nodes, ranks, per_node, gpus)
    if cpus is None and "cpus_per_gpu" in counts and gpus:
        cpus = counts["cpus_per_gpu"] * gpus // layout.tasks_per_node
    of_node = counts.get("cpus_per_node", counts.get("cpus_of_job") if layout.nodes == 1 else None)
    if cpus is None and of_node:
        cpus = of_node // layout.tasks_per_node or None
    if cpus is None and "slots_per_node" in counts and "slots" in counts:
        cpus = counts["slots_per_node"] // layout.tasks_per_node or None
    if cpus and ranks_per_node:
        cpus = cpus * layout.tasks_per_node // ranks_per_node or None
    _put(draft, launch, "nodes", layout.nodes, "nodes")
    of_tasks = ("tasks",) if ranks_per_node or own else ("tasks_per_node", "tasks")
    _put(draft, launch, "ranks_per_node", per_node, *of_tasks)
    if not ranks_per_node and layout.tasks != layout.nodes * layout.tasks_per_node and layout.known:
        _put(draft, launch, "ranks", layout.tasks, "" if "tasks" in own else "tasks")
    kind = draft.values.get("resources", {}).pop("gpu_type", None)
    if gpus:
        of = (*sorted(_GPU_COUNTS), "gpus of a slot or host", "gpus of a slot")
        _put(draft, launch, "gpus_per_node", f"{kind}:{gpus}" if kind else gpus, *of)
    if cpus:
        of_threads = f"{cpus} hardware threads in the batch script" if threads_per_core > 1 else ""
        of = (
            "cpus_per_task", "cpus_per_gpu", "cpus_per_node", "cpus_of_job", "slots_per_node", "slots", "cores of a slot",
        )  # fmt: skip
        _put(draft, launch, "cpus_per_rank", max(1, cpus // threads_per_core), *of, comment=of_threads)
    for name, times in {"KiB mem-per-cpu": (cpus or 1) * per_node, "KiB mem-per-gpu": gpus or 1}.items():
        if name in counts:
            _put(draft, launch, "memory_per_node", f"{counts[name] * times // 1024}MiB", name)


def _put(draft: SpecDraft, launch: Launch, key: str, value: object, *counts: str, comment: str = "") -> None:
    """Write a key of `resources`; it comes from the line with one of these numbers, else from the launch line."""
    origins = [draft.origins[f"count {name}"] for name in counts if f"count {name}" in draft.origins]
    draft.put(f"resources.{key}", value, comment)
    draft.came_from(f"resources.{key}", origins[0][0] if origins else launch.line)
