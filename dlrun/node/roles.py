"""Run the roles of a job, each a job of its own on its part of the nodes: in order, with addresses, checks and one end.

    python3 roles.py HOST,... [START...]

The roles are in `roles.json` of the job's directory, and each has `roles/NAME/job.sh`, which gets the number of its earlier
starts. START runs a program on a host, `{host}`, where a free port is looked for. A role starts once all that it `needs` are
ready (`ready.py`). One that fails is started up to `restarts` times again, and then the job ends. The job is done when all
roles with `ends` are; the others are services, which then get SIGTERM, and SIGKILL after the grace period.

`roles/NAME/role.json` has the state of a role, `state.json` that of the job and its first cause. The exit code is that of the one
that failed first. SIGTERM, or a file `.cancel` in the directory of the job or of a role, ends all of them. `before` seconds
before the end of the walltime those that have a `signal` get it. If a role that may not start again by itself asks for another
start (`.again`), or time was short and `requeue_on` has `timed_out`, `requeue` starts the job again, up to `requeues` times.

With `spare`, more hosts are given than the roles need, and role_nodes.py chooses, before they start and after a failure.
"""

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING or __package__:
    from . import coordinator
    from .role import Role
    from .role_nodes import Nodes
    from .role_ports import Addresses
else:  # in a job directory they are files side by side, and Python's -I does not look there
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import coordinator
    from role import Role
    from role_nodes import Nodes
    from role_ports import Addresses

    del sys.path[0]


class Roles(coordinator.Coordinator):
    """The job: its roles, and how it ends."""

    def __init__(self, directory: str, hosts: List[str], start: List[str]) -> None:
        with open(os.path.join(directory, "roles.json")) as stream:
            plan = json.load(stream)
        super().__init__(directory, float(plan.get("walltime") or 0), start)
        self.granted = hosts
        grace = float(os.environ.get("DLRUN_GRACE") or plan.get("grace") or 10.0)
        self.environment = dict(os.environ, DLRUN_GRACE="{:g}".format(grace))
        self.plan: Dict[str, Any] = plan
        # Its own job ends its ranks within the grace period, and then writes its records.
        self.roles = [Role(directory, entry, grace + 5.0) for entry in plan["roles"]]
        self.before = float(plan.get("before") or 0)
        self.requeues, self.requeue = int(plan.get("requeues") or 0), str(plan.get("requeue") or "")
        self.requeue_on = frozenset(plan.get("requeue_on", ()))
        self.ending = False
        self.restart = False  # a role has asked for another start of the job
        self.failed: Optional[Role] = None
        self.cause = ""
        self.fault = ""  # why it ends, where that is neither a role's nor a request
        self.nodes = Nodes(directory, plan["spare"], hosts, self.words) if plan.get("spare") else None
        self.begun -= self.nodes.used if self.nodes is not None else 0
        self.addresses = Addresses(directory, plan, self.words)

    def run(self) -> int:
        """Run the roles to the end of the job; returns its exit code."""
        self.record("running")
        self.cause = self.choose() or self.divide() or self.addresses.find(self.roles, self.is_asked)
        if self.cause:
            coordinator.log_line("dlrun: the job ends: {}".format(self.cause))
            self.code = 1
        else:
            for role in self.roles:
                role.record()
            self.work()
        self.addresses.release()
        self.end_watcher()
        return self.end()

    def is_asked(self) -> bool:
        """Whether the job was asked to end."""
        return bool(self.reason)

    def choose(self) -> str:
        """Where more nodes are granted than needed: leave the good ones for the roles; a text for the log if they are too few."""
        if self.nodes is None:
            return ""
        self.nodes.begin_notes()
        cause = self.nodes.choose(self.is_asked)
        if cause:
            self.fault = coordinator.LOST
            return cause
        self.granted = self.nodes.chosen or self.granted
        self.hosts = self.nodes.watchers()
        self.show_life()
        return ""

    def replace_nodes(self) -> None:
        """After a failure: was it a node's? Then, if enough others are left, start again on those, and do not return."""
        failed = self.failed is not None or self.restart
        if (
            self.nodes is None
            or not failed
            or self.reason
            or self.closing
            or self.nodes.are_good(self.is_asked)
        ):
            return
        self.fault = coordinator.LOST
        left = len(self.nodes.good())
        if not self.nodes.restarts:
            return
        if left < self.nodes.count:
            text = "dlrun: only {} good nodes are left, and the job needs {}"
            coordinator.log_line(text.format(left, self.nodes.count))
            return
        self.record("requeued")
        text = "dlrun: {} good nodes are left: starting again on {} of them"
        coordinator.log_line(text.format(left, self.nodes.count))
        self.nodes.restart(time.monotonic() - self.begun)

    def divide(self) -> str:
        """Give each role its nodes, in the order of both; a text for the log if they are too few, else an empty one."""
        own = [role for role in self.roles if not role.beside]
        wanted = sum(role.nodes for role in own)
        if wanted > len(self.granted):
            return "the roles need {} nodes, and the job has {}".format(wanted, len(self.granted))
        first = 0
        for role in own:
            role.hosts = self.granted[first : first + role.nodes]
            first += role.nodes
        for role in self.roles:
            if role.beside:
                role.hosts = self.named(role.beside).hosts[: role.nodes]
            role.host = role.hosts[0]
        return ""

    def work(self) -> None:
        """Start the roles in order, watch them, and end them."""
        for role in self.roles:
            self.environment.update(role.variables())
        while True:
            self.look_around()
            self.show_life()
            self.ending = self.ending or bool(self.reason)
            for role in self.roles:
                if not self.ending and role.state == "waiting" and self.may_start(role):
                    self.begin(role)
            running = [role for role in self.roles if role.is_running()]
            if not running:
                break
            if self.ending or self.is_done():
                self.ending = True
                for role in running:
                    role.stop()
            coordinator.wait(0.2 if self.ending else coordinator.PAUSE)
            for role in running:
                self.watch(role)

    def may_start(self, role: Role) -> bool:
        """True if all that a role needs are up."""
        return all(self.named(name).is_up() for name in role.needs)

    def begin(self, role: Role) -> None:
        """Start a role, or start it again."""
        coordinator.log_line("dlrun: role {} starts on {}".format(role.name, ", ".join(role.hosts)))
        role.begin(self.environment, self.earlier + role.restarts)

    def is_done(self) -> bool:
        """True once all roles that the job's end follows have ended."""
        main = [role for role in self.roles if role.ends] or self.roles
        return all(role.state == "ended" for role in main)

    def watch(self, role: Role) -> None:
        """Notice the changes of a role that was running."""
        late = role.look() if role.process.poll() is None and not role.stopped else ""
        if late:
            self.fail(role, 1, late)
        code = role.collect()
        if code is not None:
            self.over(role, code)

    def over(self, role: Role, code: int) -> None:
        """A role has ended: by request, with the job, or is it to start again?"""
        was_up, reason = role.is_up(), role.reason()
        if reason == "asked to end" and not role.stopped:
            self.await_signal()
        if role.stopped or self.reason:
            role.change("ended")
            coordinator.log_line("dlrun: role {} was ended: exit code {}".format(role.name, code))
            return
        may_restart = role.restarts < role.most_restarts and not (self.ending or self.closing)
        if role.takes_request() and not may_restart and self.earlier < self.requeues:
            self.restart = self.ending = True
            role.cause = "asks for another start of the job"
            role.change("ended")
            coordinator.log_line("dlrun: role {} {} after exit code {}".format(role.name, role.cause, code))
            return
        users = [user.name for user in self.roles if role.name in user.needs and user.state != "ended"]
        if code == 0 and not (users and not (role.ends and was_up)):
            role.change("ended")
            coordinator.log_line("dlrun: role {} ended with exit code 0".format(role.name))
            return
        cause = "role {} ended with exit code {}".format(role.name, code)
        cause += "" if was_up else " before it was ready"
        cause += ", and {} needs it".format(" and ".join(users)) if code == 0 and was_up else ""
        cause += ": " + reason if reason and code else ""
        if may_restart:
            role.restarts += 1
            coordinator.log_line(
                "dlrun: {}; it starts again ({} of {})".format(cause, role.restarts, role.most_restarts)
            )
            self.begin(role)
            return
        if role.restarts:
            cause += " (it was started {} times)".format(role.restarts + 1)
        role.change("ended")
        self.fail(role, code or 1, cause)

    def fail(self, role: Role, code: int, cause: str) -> None:
        """End the job, for this role has failed."""
        role.cause = cause
        role.record()
        self.ending = True
        coordinator.log_line("dlrun: the job ends: {}".format(cause))
        if self.failed is None:
            self.failed, self.code, self.cause = role, code, cause

    def look_around(self) -> None:
        """End the job or warn its roles where the walltime, or a user, demands it."""
        is_news = self.look_at_time()
        places = [self.directory] + [role.directory for role in self.roles]
        if any(os.path.exists(os.path.join(place, ".cancel")) for place in places):
            self.reason = self.reason or "cancelled"
        if not is_news:
            return
        concerned = [role for role in self.roles if role.signal and role.is_running()]
        if not concerned:
            self.reason = self.reason or "timed out"
        for role in concerned:
            self.warn(role.signal, "role {}".format(role.name), [role.process])

    # --- The end ----------------------------------------------------------------------------------------------

    def end(self) -> int:
        """Record the end, and start the job again if that is due; returns the exit code."""
        self.find_first_failure()
        self.replace_nodes()
        self.restart = self.restart or (bool(self.fault) and "node_failed" in self.requeue_on)
        for role in self.roles:
            if role.state == "waiting" and role.hosts:
                role.change("ended")
        if self.reason:
            coordinator.log_line("dlrun: asked to end ({})".format(self.reason))
            self.code = 128 + signal.SIGTERM
        elif self.restart or (self.closing and self.code):
            self.reason, self.code = "timed out" if self.closing else "", self.code or 124
        if (
            self.restart or (self.reason == "timed out" and "timed_out" in self.requeue_on)
        ) and self.request_restart():
            return 124
        self.record("ended")
        coordinator.log_line(
            "dlrun: job {} ended with exit code {}".format(os.environ["DLRUN_JOB_ID"], self.code)
        )
        return self.code

    def find_first_failure(self) -> None:
        """By the times of processes: the end of a role is seen later than that of others that it has made fail."""
        if self.failed is None or self.reason:
            return
        last = self.failed.first_failure()
        failures = [(role.first_failure(), role) for role in self.roles if role is not self.failed]
        earlier = [
            (note, role) for note, role in failures if note is not None and last is not None and note < last
        ]
        if not earlier:
            return
        note, role = min(earlier, key=lambda pair: pair[0])
        role.cause = self.cause = "role {} failed first: {}".format(role.name, note.text)
        self.failed, self.code = role, note.code or 1
        role.record()
        coordinator.log_line("dlrun: the job ends: {}".format(self.cause))

    def named(self, name: str) -> Role:
        """The role of a name."""
        return next(role for role in self.roles if role.name == name)

    def details(self) -> Dict[str, Any]:
        """The role that failed, with the reason that its own job gives, and the cause."""
        reason = self.reason or self.fault or (self.failed.reason() if self.failed is not None else "")
        name = self.failed.name if self.failed is not None else None
        return {"reason": reason or None, "role": name, "cause": self.cause or None}


def main(arguments: List[str]) -> int:
    """Run the roles on these hosts."""
    roles = Roles(os.environ["DLRUN_JOB_DIR"], arguments[0].split(","), arguments[1:])
    roles.listen()
    return roles.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
