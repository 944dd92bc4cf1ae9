"""Which roles of a job need which others, which of them end it, and when each is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from dlrun.model.nearest import nearest
from dlrun.model.program import Ready, Role
from dlrun.plan.command import expressions
from dlrun.plan.decisions import Ledger

CODE = "DLR142"


def ends(roles: Mapping[str, Role]) -> tuple[str, ...]:
    """The roles that end the job: those with `ends: true`, else those without `ends` that no other role needs."""
    needed = {name for role in roles.values() for name in role.needs}
    return tuple(name for name, role in roles.items() if role.ends) or tuple(
        name for name, role in roles.items() if name not in needed and role.ends is None
    )


def check(roles: Mapping[str, Role], ledger: Ledger) -> None:
    """Add a problem for names that are too alike, needs that cannot be met, and more than one way to be ready."""
    upper: dict[str, str] = {}
    for name, role in roles.items():
        if (other := upper.setdefault(name.upper(), name)) != name:
            ledger.problem(
                CODE,
                f"roles `{other}` and `{name}` would have the same variables",
                f"roles.{name}:",
                help="use names that differ in more than upper and lower case",
            )
        for index, needed in enumerate(role.needs):
            if needed in roles and needed != name:
                continue
            near = nearest(needed, [other for other in roles if other != name])
            others = ", ".join(f"`{other}`" for other in roles if other != name) or "none"
            ledger.problem(
                CODE,
                f"role `{name}` needs itself"
                if needed == name
                else f"role `{name}` needs `{needed}`, which is not in `roles`",
                f"roles.{name}.needs.{index}",
                help=f"the nearest is `{near}`" if near else f"the other roles are: {others}",
            )
        ways = [way for way in ("port", "http", "log", "file") if role.ready and getattr(role.ready, way)]
        if role.ready is not None and len(ways) != 1:
            present = "has none" if not ways else f"has {' and '.join(f'`{way}`' for way in ways)}"
            ledger.problem(
                CODE,
                f"`ready` of role `{name}` takes one of `port`, `http`, `log` and `file`, but {present}",
                f"roles.{name}.ready",
                f"roles.{name}.ready:",
                help="write one of them, such as `ready: {port: true}`",
            )
    if circle := _circle(roles):
        ledger.problem(
            CODE,
            f"no role of `{' → '.join([*circle, circle[0]])}` can start: each needs the next one",
            f"roles.{circle[0]}.needs",
            help="remove one of these `needs`",
        )
    if not ends(roles) and not any(problem.code == CODE for problem in ledger.problems):
        ledger.problem(CODE, "no role ends the job", "roles", help="add `ends: true` to one of them")


def _circle(roles: Mapping[str, Role]) -> Sequence[str]:
    """Roles of which each needs the next one, and the last the first; empty if there are none."""
    done: set[str] = set()
    for first in roles:
        path: list[str] = []
        waiting = [(first, 0)]
        while waiting:
            name, depth = waiting.pop()
            del path[depth:]
            if name in path:
                return path[path.index(name) :]
            if name in done or name not in roles:
                continue
            path.append(name)
            waiting += [(needed, depth + 1) for needed in roles[name].needs if needed != name]
        done.add(first)
    return ()


def ready_of(
    name: str,
    roles: Mapping[str, Role],
    directory: str,
    ledger: Ledger,
    *,
    snapshot: bool = False,
    staged: bool = False,
) -> Ready | None:
    """When a role is ready; None: once it has started. snapshot: roles run in a copy of the code; staged: on their nodes."""
    role = roles[name]
    if role.ready is not None:
        if role.ready.file is None:
            return role.ready
        if staged and not role.ready.file.startswith("/"):
            ledger.problem(
                CODE,
                f"`{role.ready.file}` is on a node of role `{name}`, as `code.stage` is set: the job cannot see it from another",
                f"roles.{name}.ready.file",
                f"roles.{name}.ready",
                help="write an absolute path on a shared file system, or use `{log: TEXT}`",
            )
        if snapshot:
            return role.ready  # role.py finds it in the copy of the code
        # roles.py has another working directory.
        return replace(role.ready, file=str(PurePosixPath(directory) / role.ready.file))
    needing = [other for other, other_role in roles.items() if name in other_role.needs]
    if not needing:
        return None
    own = {f"role.{name}.{value}" for value in ("address", "port")}
    texts = [*role.command, *(role.environment.variables.values() if role.environment else ())]
    if any(own & expressions.names(text) for text in texts):
        return Ready(port=True)
    ledger.problem(
        CODE,
        f"role `{name}` has no `ready`: `{needing[0]}` starts as soon as it has been started",
        f"roles.{name}:",
        help="add `ready: {port: true}`, `{http: /health}`, `{log: TEXT}` or `{file: PATH}`",
        warning=True,
    )
    return None
