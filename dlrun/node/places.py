"""The places of a job where the points of its sweep run: a part of a host, or several hosts. Used by pool.py."""

import time
from typing import Any, List


class Place:
    """A place, and the point that runs there; number: that of the place on its host."""

    def __init__(self, hosts: List[str], number: int) -> None:
        self.hosts = hosts
        self.host = hosts[0]
        self.name = ",".join(hosts)
        self.is_wide = len(hosts) > 1
        self.number = number
        self.failures = 0
        self.point = -1
        self.process = None  # type: Any
        self.log = None  # type: Any
        self.before = b""
        self.reason = ""
        self.deadline = 0.0
        self.begun = 0.0
        self.asked_after = -1  # the exit code of a point, once its hosts are asked whether they are there
        self.to_ask = []  # type: List[str] # the first of them is asked now
        self.silent = []  # type: List[str] # those that did not answer

    def take(self, point: int) -> None:
        """Note the start of a point."""
        self.point, self.reason, self.begun = point, "", time.monotonic()
        self.asked_after, self.to_ask, self.silent = -1, [], []


class Places:
    """The places of these hosts: `each` on every host, or with `nodes` above 1 one on so many hosts."""

    def __init__(self, hosts: List[str], nodes: int, each: int) -> None:
        self.nodes = nodes
        self.granted = list(hosts)
        self.spare = list(hosts) if nodes > 1 else []  # hosts without a place
        # All first places come before all second ones, so that few points spread over the nodes.
        self.first = self.form() if nodes > 1 else [Place([host], n) for n in range(each) for host in hosts]

    def form(self, broken: Any = None) -> List[Place]:
        """As many places as the spare hosts allow, and those of a broken place that have answered."""
        if broken is not None and broken.is_wide:
            self.spare += [host for host in broken.hosts if host not in broken.silent]
            self.spare.sort(key=self.granted.index)  # the order in which a scheduler numbers ranks
        made = []
        while self.nodes > 1 and len(self.spare) >= self.nodes:
            made.append(Place(self.spare[: self.nodes], 0))
            del self.spare[: self.nodes]
        return made
