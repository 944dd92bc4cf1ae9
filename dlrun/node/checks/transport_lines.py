"""Which transport a communication library really chose, read from the lines that it prints when it starts.

    python3 transport_lines.py ACTION FABRIC EXPECTED ROLE PER_NODE COUNT ADVICE

As a program it follows the log of one process a node while the job runs, logs what was selected, and where that is not
expected writes a file that ends the job (ACTION fail) or only logs it (warn). EXPECTED is a comma-separated list.
SIGTERM: the job is over. What the logs contain by then is still reported.

The forms of the lines: NCCL and RCCL src/init.cc and src/transport/net_*.cc, aws-ofi-nccl, oneCCL src/atl/ofi,
Intel MPI with I_MPI_DEBUG=4, Open MPI ompi/mca/bml/r2 and ompi/mca/mtl/ofi, UCX src/ucp/core/ucp_worker.c and
src/ucp/proto/proto_debug.c, Gloo gloo/transport/tcp/context.cc; recorded ones are in tests/captured/transports.
"""

import glob
import os
import re
import signal
import sys
import time
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

PATIENCE = 900.0
"""Seconds after which a library that has logged nothing is no longer waited for."""
MOMENT = 2.0
"""Seconds in which the other nodes may still log theirs once one is known to be wrong: they start together."""
LIMIT = 4 << 20
"""Bytes at the beginning of a log in which the lines are looked for."""

TCP = "tcp"
_PROVIDERS = {"mlx": "ib", "verbs": "ib", "sockets": TCP, "tcp": TCP, "udp": TCP, "net": TCP}
"""libfabric providers under the name of what they drive; others under their own (efa, cxi, psm2, psm3, opx)."""
_LOCAL = ("shm", "sm2", "lnx")
_BTL = {"tcp": TCP, "openib": "ib"}
"""Open MPI's transports between nodes; others (uct, ofi, ugni) do not name the device."""
_DOMAINS = (
    (r"mlx\d", "ib"),
    (r"cxi\d", "cxi"),
    (r"hfi\d|psm2", "psm2"),
    (r"efa|rdmap", "efa"),
    (r"(eth|en|em|ib|bond|br|hs[in]|lo)[a-z]*\d|lo$", TCP),
)
"""How libfabric's domains begin, which Open MPI names, and what they are: a device of the fabric, or an interface of
the kernel's, which is what sockets have (systemd.net-naming-scheme(7))."""
_FIRST_ALONE = ("Intel MPI", "oneCCL")
"""Libraries of which only the first rank logs what all of them use."""
NAMES = {
    "ib": "InfiniBand verbs", "roce": "RoCE", "efa": "EFA", "cxi": "Slingshot (cxi)", "psm2": "Omni-Path (psm2)",
    "psm3": "psm3", "opx": "Omni-Path (opx)", TCP: "TCP sockets",
}  # fmt: skip

Chosen = NamedTuple("Chosen", [("library", str), ("transport", str), ("certain", bool), ("line", str)])
"""What a library chose; `certain` unless a later line may correct it."""


class TransportReader:
    """Takes the lines of one log in order; `chosen` is the result so far."""

    def __init__(self) -> None:
        self.chosen = None  # type: Optional[Chosen]
        self._provider = None  # type: Optional[str]
        self._links = None  # type: Optional[str]

    def line(self, text: str) -> None:
        """One line of the log."""
        found = (
            self._nccl(text)
            or self._libfabric(text)
            or self._openmpi(text)
            or self._ucx(text)
            or self._gloo(text)
        )
        if found is None:
            return
        before = self.chosen
        if (
            before is None
            or before.library == "Gloo"
            or (
                found.library != "Gloo" and (not before.certain or (found.certain and found.transport == TCP))
            )
        ):
            self.chosen = found

    def _nccl(self, text: str) -> Optional[Chosen]:
        _, mark, said = text.partition("NCCL INFO ")
        if not mark:
            return None
        links = re.search(r"NET/IB ?: Using (.*?)(?:;|$)", said)
        if links:
            kinds = set(re.findall(r"\[\d+\] ?[^\s/=]+/(IB|RoCE)", links.group(1)))
            self._links = "roce" if kinds == {"RoCE"} else "ib"
            return Chosen("NCCL", self._links, False, text)
        provider = re.search(r"NET/OFI Selected [Pp]rovider is ([^\s,]+)", said)
        if provider:
            self._provider = provider_of(provider.group(1))
            return Chosen("NCCL", self._provider, False, text)
        if re.search(r"NET/Socket ?: Using ", said):
            return (
                Chosen("NCCL", TCP, False, text) if self._links is None and self._provider is None else None
            )
        network = re.search(r"Using network (.+)", said) or re.search(r"via NET/([^/]+)/\d", said)
        return Chosen("NCCL", self._network(network.group(1).strip()), True, text) if network else None

    def _network(self, name: str) -> str:
        if name == "Socket":
            return TCP
        if name.startswith("IB"):  # IBext and IBext_v8 are NVIDIA's plugin
            return self._links or "ib"
        if "Libfabric" in name or name == "OFI":
            return self._provider or "libfabric"
        return name.lower()

    @staticmethod
    def _libfabric(text: str) -> Optional[Chosen]:
        found = re.search(r"MPI startup\(\): libfabric provider: (\S+)", text)
        library = "Intel MPI"
        if not found:
            found, library = re.search(r"\|CCL_INFO\|\s+provider: (\S+)", text), "oneCCL"
        if not found or found.group(1) in _LOCAL:
            return None
        return Chosen(library, provider_of(found.group(1)), True, text)

    @staticmethod
    def _openmpi(text: str) -> Optional[Chosen]:
        found = re.search(r"mca: bml: Using (\w+) btl for send to ", text)
        if found:
            way = _BTL.get(found.group(1))
            return Chosen("Open MPI", way, True, text) if way else None
        found = re.search(r"mtl:ofi:provider(?::domain)?: (\S+)", text)
        if not found:
            return None
        known = [transport for form, transport in _DOMAINS if re.match(form, found.group(1))]
        return Chosen("Open MPI", known[0], True, text) if known else None

    @staticmethod
    def _ucx(text: str) -> Optional[Chosen]:
        found = re.search(r"UCX +INFO +.*(?:inter-node cfg#|ep_cfg\[)\d+\]?:? ?(?:tag|am|rma)\((.*)", text)
        found = found or re.search(
            r"\[\S+:\d+ *:\d+\] +\|.*\| *([^|]*/[^|]*?) *\|$", text
        )  # UCX_PROTO_INFO's table
        if not found:
            return None
        ways = {word.split("/")[0] for word in found.group(1).split() if "/" in word}
        if any(re.match(r"(?:rc|dc|ud)(?:_|$)", way) for way in ways):
            return Chosen("UCX", "ib", True, text)
        if "srd" in ways:
            return Chosen("UCX", "efa", True, text)
        return Chosen("UCX", TCP, True, text) if "tcp" in ways else None

    @staticmethod
    def _gloo(text: str) -> Optional[Chosen]:
        """Gloo mostly supports only TCP; often it is only used next to another library."""
        found = re.search(
            r"\[Gloo\] Rank|Gloo connectFullMesh|gloo/transport/(\w+)/context\.cc.* is connected to", text
        )
        if not found:
            return None
        return Chosen("Gloo", "ib" if found.group(1) == "ibverbs" else TCP, False, text)


def provider_of(name: str) -> str:
    """What a libfabric provider such as `tcp;ofi_rxm` drives."""
    core = name.split(";", maxsplit=1)[0].strip("'\"`.,")
    return _PROVIDERS.get(core, core)


def chosen(lines: Iterable[str]) -> Optional[Chosen]:
    """The transport in the lines of one log; None if there is none."""
    reader = TransportReader()
    for line in lines:
        reader.line(line.rstrip("\n"))
    return reader.chosen


def said_for_all(every: Iterable[Optional[Chosen]]) -> Optional[Chosen]:
    """What the first rank has logged for all ranks; None if each rank logs its own."""
    return next((found for found in every if found is not None and found.library in _FIRST_ALONE), None)


def says(found: Chosen) -> str:
    """`NCCL uses TCP sockets`."""
    return "{} uses {}".format(found.library, NAMES.get(found.transport, found.transport))


def unexpected(found: Chosen, expected: Iterable[str]) -> bool:
    """True if this is not what the site's fabric offers; an unknown transport is accepted."""
    wanted = set(expected)
    return bool(wanted) and found.transport in NAMES and found.transport not in wanted


def log_paths(logs: str, role: str, first: int, per_node: int, count: int) -> Tuple[str, str]:
    """Where the first rank of a node writes: a log of its own, or one that all of the node write to (`logs: node`)."""
    place = os.path.join(logs, str(first // 1000)) if count > 1000 else logs
    last = min(first + per_node, count) - 1
    return (
        os.path.join(place, "{}-{}.log".format(role, first)),
        os.path.join(place, "{}-{}-{}.log".format(role, first, last)),
    )


class GrowingLog:
    """The growing log of a rank; `shared` is the one in which its lines begin with its `label`, if it writes there."""

    def __init__(self, path: str, shared: str = "", label: str = "") -> None:
        self._paths = (path, shared)
        self._label = label.encode()
        self.reader = TransportReader()
        self.since = None  # type: Optional[float]
        self._at = 0
        self._rest = b""

    def look(self) -> None:
        """Read what is new, up to the limit."""
        shared = not os.path.exists(self._paths[0])
        try:
            with open(self._paths[shared], "rb") as stream:
                stream.seek(self._at)
                new = stream.read(max(0, LIMIT - self._at))
        except OSError:
            return
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            if not shared:
                self.reader.line(line.decode("utf-8", "replace"))
            elif line.startswith(self._label):
                self.reader.line(line[len(self._label) :].decode("utf-8", "replace"))
        if self.reader.chosen is not None and self.since is None:
            self.since = time.time()

    def settled(self, alone: float) -> bool:
        """True if no later line will change it, or Gloo alone has been logged for so long."""
        found = self.reader.chosen
        if found is None or found.certain:
            return found is not None
        return found.library == "Gloo" and time.time() - (self.since or 0) >= alone


def alone_after() -> float:
    """Seconds after which Gloo is all that there is: on nodes with GPUs, NCCL may come minutes later, with the data."""
    return 300.0 if glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/kfd") else 10.0


def rest(seconds: float) -> bool:
    """Wait so long, or until the job is over; whether it is. SIGTERM must be blocked."""
    return signal.sigtimedwait((signal.SIGTERM,), seconds) is not None


def follow(logs: Dict[int, GrowingLog], expected: List[str], until: float) -> bool:
    """Until every log says for certain what was chosen, the job is over or its script gone, or the time is over.

    Once one is wrong the others have a moment left to log theirs; once one has logged for all, nothing is waited for.
    Returns whether the job is over.
    """
    parent, waiting, pause, over = os.getppid(), dict(logs), 0.5, False
    alone = alone_after()
    while waiting and not over and time.time() < until and os.getppid() == parent:
        for rank, log in list(waiting.items()):
            log.look()
            found = log.reader.chosen
            if found is not None and log.settled(alone):
                if said_for_all([found]):
                    return False
                if unexpected(found, expected):
                    until = min(until, time.time() + MOMENT)
                del waiting[rank]
        if waiting:
            over = rest(min(pause, max(0.1, until - time.time())))
            pause = min(5.0, pause * 1.2)
    for log in waiting.values():
        log.look()
    return over


def note(role: str, rank: int, host: str, detail: str) -> None:
    """Write the file that ends the job, atomically."""
    # A name of its own: what the rank notes itself must not take its place.
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], "failures", "fabric")
    text = "{} {} {} {} 1 fabric: {}\n".format(int(time.time() * 1e9), role, rank, host, detail)
    with open(path + ".new", "w") as stream:
        stream.write(text)
    os.rename(path + ".new", path)


def main(arguments: List[str]) -> int:
    """Follow the logs, log the transports, and record what is not expected."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    action, fabric, expected, role, per_node, count, advice = arguments
    run = os.environ["DLRUN_RUN_DIR"]
    with open(os.environ["DLRUN_HOSTS"]) as stream:
        hosts = stream.read().split()
    first = range(0, int(count), int(per_node))
    logs = {}
    for rank in first:
        own, shared = log_paths(os.path.join(run, "logs"), role, rank, int(per_node), int(count))
        logs[rank] = GrowingLog(own, shared, "{} {}:".format(role, rank))
    over = follow(logs, expected.split(","), time.time() + PATIENCE)
    said = {}  # type: Dict[str, List[str]]
    wrong = []
    for_all = said_for_all(log.reader.chosen for log in logs.values())
    for rank, log in logs.items():
        host = hosts[min(rank // int(per_node), len(hosts) - 1)]
        found = log.reader.chosen or for_all
        if over and found is None:
            continue  # the job ended before a library could log
        said.setdefault(says(found) if found else "no library has logged its transport", []).append(host)
        if found is not None and unexpected(found, expected.split(",")):
            wrong.append((rank, host, found))
    for what, where in said.items():
        sys.stdout.write(
            "dlrun: fabric: {} on {}\n".format(what, ", ".join(where[:8]) + (", …" if where[8:] else ""))
        )
    for rank, host, found in wrong[:1]:
        detail = "{}, but this is {}".format(says(found), fabric) + ("; " + advice if advice else "")
        sys.stdout.write("dlrun: fabric: {} {}: {}\n".format(role, rank, detail))
        sys.stdout.flush()
        if action == "fail" and not over:
            note(role, rank, host, detail)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
