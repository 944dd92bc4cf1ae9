"""Prediction of whether PBS would accept a job: qsub has no test mode, but server, queues, nodes and reservations can be
queried for their limits. Hooks, projects and limits on the number of jobs show only at submission.

Sources: qstat(1B), pbsnodes(8), pbs_rstat(1B) and pbs_queue_attributes(7B) of OpenPBS 23.06; pbsnodes(8) of Torque 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dlrun.model.nearest import nearest
from dlrun.model.plan import Request
from dlrun.model.units import many
from dlrun.schedulers.dates import seconds
from dlrun.schedulers.pbs.amounts import size
from dlrun.schedulers.pbs.qstat import stanzas
from dlrun.schedulers.protocol import Judgement

Stanza = Mapping[str, str]

_GONE = ("down", "offline", "unknown", "stale", "maintenance")
"""Node states in which no job starts."""
UNSEEN = "hooks, projects and limits on the number of jobs are checked only at submission"


def questions(request: Request) -> Sequence[Sequence[str]]:
    """The queries: server, queues, nodes, and the reservation if one is requested; to another server than the default one
    for a queue `NAME@SERVER`."""
    _, at, server = (request.partition or "").partition("@")
    asked = [("qstat", "-B", "-f"), ("qstat", "-Q", "-f"), ("pbsnodes", "-a")]
    if at and not request.reservation:
        asked = [
            ("qstat", "-B", "-f", server),
            ("qstat", "-Q", "-f", f"@{server}"),
            ("pbsnodes", "-a", "-s", server),
        ]
    if request.reservation:
        asked.append(("pbs_rstat", "-f", request.reservation))
    return asked


def judge(request: Request, answers: Sequence[str], user: str, groups: Sequence[str]) -> Judgement:
    """The verdict on a job of `user`, from the outputs in the order of `questions`; the output of a failed client is empty."""
    servers, queues, nodes = (stanzas(answer) for answer in answers[:3])
    server = next(iter(servers.values()), {})
    named = (request.partition or "").partition("@")[0]
    name = request.reservation or named or server.get("default_queue")
    # The queue of reservation `R12.server` is named `R12`.
    queue = queues.get((name or "").partition(".")[0], {})
    problems = (
        [*_about_queue(request, name, queue=queue, queues=queues, user=user, groups=groups)]
        if name or server
        else []
    )
    place = f"queue `{name}`" if name else "its default queue"
    if request.reservation and len(answers) > 3:
        problems += _about_reservation(request.reservation, answers[3], user)
    for what, limits in ((place, queue), ("the server", server)):
        problems += _exceeded(request, what, limits)
    fitting, up = _fitting(request, nodes, name)
    if nodes and fitting < request.nodes:
        problems.append(
            f"{fitting} of {many(len(nodes), 'node')} satisfy the request for a node, but the job needs {request.nodes}"
        )
    waits = f"; it would wait, because only {up} of them are up" if nodes and up < request.nodes else ""
    waits += "" if queue.get("started", "True") == "True" else f"; it would wait, because {place} is stopped"
    fits = f", {fitting} of {many(len(nodes), 'node')} fit" if nodes else ""
    return Judgement(
        problems=problems,
        accepted=f"unknown: PBS does not predict it; no conflict with {place} was found{fits}{waits}; {UNSEEN}",
    )


def _about_queue(
    request: Request,
    name: str | None,
    queue: Stanza,
    queues: Mapping[str, Stanza],
    user: str,
    groups: Sequence[str],
) -> Iterator[str]:
    if name is None:
        yield "the server has no default queue: name one under resources.partition"
    elif not queue and queues and not request.reservation:
        near = nearest(name, queues)
        yield f"the server has no queue `{name}`" + (f"; the nearest is `{near}`" if near else "")
    if queue.get("enabled", "True") != "True":
        yield f"queue `{name}` does not accept jobs now (enabled = False)"
    if queue.get("from_route_only") == "True":
        yield f"queue `{name}` accepts jobs only from routing queues"
    for kind, mine in (("user", [user]), ("group", list(groups))):
        listed = queue.get(f"acl_{kind}s", "")
        if queue.get(f"acl_{kind}_enable") == "True" and not _listed(mine, listed):
            yield f"queue `{name}` is restricted to the {kind}s {listed or 'that its administrators list'}"


def _listed(names: Sequence[str], listed: str) -> bool:
    """True if an access list such as `bob@*,-eve,+` admits one of the names; the first matching entry counts."""
    for word in (word.strip() for word in listed.split(",") if word.strip()):
        name = word.lstrip("+-").partition("@")[0]
        if name in ("", "*") or name in names:
            return not word.startswith("-")
    return False


def _about_reservation(name: str, answer: str, user: str) -> Iterator[str]:
    known = dict(re.findall(r"^\s*(\w[\w ]*?)\s*[=:]\s*(.*)$", answer, re.MULTILINE))
    if not known:
        yield f"PBS has no reservation `{name}`: `pbs_rstat` lists those that you may use"
        return
    users = known.get("Authorized_Users")
    if users is not None and not _listed([user], users):
        yield f"the reservation `{name}` is restricted to {users}"
    state = known.get("reserve_state", "")
    if state and not re.search(r"RESV_(?:CONFIRMED|RUNNING)", state):
        yield f"the reservation `{name}` is not confirmed ({state.split()[0]})"


def _exceeded(request: Request, place: str, limits: Stanza) -> Iterator[str]:
    """Requested amounts outside the limits of a queue or server."""
    nodes = request.nodes + request.spare_nodes
    cpus = request.cpus_per_node or (request.cpus_per_rank or 0) * request.ranks_per_node
    asked = {
        "walltime": (int(request.walltime or 0), "resources.walltime"),
        "nodect": (nodes, "resources.nodes"),
        "ncpus": (cpus * request.nodes, "the CPUs of the job"),
        "ngpus": ((request.gpus_per_node or 0) * nodes, "the GPUs of the job"),
    }
    if isinstance(request.memory_per_node, int):
        asked["mem"] = (int(request.memory_per_node) * nodes, "resources.memory_per_node")
    for resource, (amount, what) in asked.items():
        most, least = (limits.get(f"resources_{end}.{resource}") for end in ("max", "min"))
        # A limit in an unknown form must not lead to a rejection, so the requested amount itself is used in its place.
        if amount and most is not None and amount > _amount(most, amount):
            yield f"{place} allows at most {resource} {most}, but {what} exceeds it"
        if amount and least is not None and amount < _amount(least, 0):
            yield f"{place} requires at least {resource} {least}, but {what} is less"
    points = limits.get("max_array_size")
    if request.array and points is not None and request.array > _amount(points, request.array):
        yield f"{place} allows arrays of at most {points} tasks, but the sweep has {many(request.array, 'point')}"


def _fitting(request: Request, nodes: Mapping[str, Stanza], queue: str | None) -> tuple[int, int]:
    """Number of nodes that satisfy the request for a node, and how many of them are up; nodes of other queues do not count."""
    cpus = request.cpus_per_node or (request.cpus_per_rank or 0) * request.ranks_per_node
    memory = request.memory_per_node if isinstance(request.memory_per_node, int) else 0
    needs = {"ncpus": cpus, "ngpus": request.gpus_per_node or 0, "mem": int(memory)}
    fit = [
        node
        for node in nodes.values()
        if node.get("queue", queue) == queue
        and all(_amount(_resource(node, name), 0) >= amount for name, amount in needs.items() if amount)
        and _has_properties(node, request.constraint)
    ]
    up = [node for node in fit if not any(word in node.get("state", "") for word in _GONE)]
    return len(fit), len(up)


def _resource(node: Stanza, resource: str) -> str:
    """A node's amount of a resource, from OpenPBS's `resources_available` or from Torque's `np`, `gpus` and `status`."""
    if "np" not in node:
        return node.get(f"resources_available.{resource}", "0")
    if resource == "mem":
        known = re.search(r"(?:^|,)physmem=(\w+)", node.get("status", ""))
        return known[1] if known else "1024pb"  # a node that is down reports no memory, but may have enough
    return node.get({"ncpus": "np", "ngpus": "gpus"}[resource], "0")


def _has_properties(node: Stanza, constraint: str | None) -> bool:
    """True if a Torque node has the properties of a constraint (`fast:gpu`); OpenPBS's are resources and not checked."""
    if "np" not in node or not constraint:
        return True
    return set(constraint.split(":")) <= set(re.split(r"[,\s]+", node.get("properties", "")))


def _amount(text: str, otherwise: int) -> int:
    """`24:00:00` in seconds, `16gb` in bytes, `8` as 8; `otherwise` for any other text."""
    amount = seconds(text) if ":" in text else size(text)
    return otherwise if amount is None else amount
