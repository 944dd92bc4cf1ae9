"""Find the transport that a communication library selected in the lines that it logs at its start.

    python3 transport_lines.py ACTION FABRIC EXPECTED ROLE PER_NODE COUNT ADVICE

As a program it follows the log of one process per node during the job and logs the selected transports. An unexpected
one ends the job through a file (ACTION fail) or is only logged (warn). EXPECTED is a comma-separated list.
SIGTERM means that the job is over: the transports found so far are still logged.

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

TIMEOUT = 900.0
"""Seconds to wait for the library's lines."""
MOMENT = 2.0
"""Seconds to wait for the other nodes' lines after the first wrong one: all ranks start together."""
LIMIT = 4 << 20
"""Bytes at the beginning of a log that are searched."""

TCP = "tcp"
_PROVIDERS = {"mlx": "ib", "verbs": "ib", "sockets": TCP, "tcp": TCP, "udp": TCP, "net": TCP}
"""libfabric provider -> transport; other providers are their own transport (efa, cxi, psm2, psm3, opx)."""
_LOCAL = ("shm", "sm2", "lnx")
_BTL = {"tcp": TCP, "openib": "ib"}
"""Open MPI's BTL -> transport; the names of others (uct, ofi, ugni) do not determine the device."""
_DOMAINS = (
    (r"mlx\d", "ib"),
    (r"cxi\d", "cxi"),
    (r"hfi\d|psm2", "psm2"),
    (r"efa|rdmap", "efa"),
    (r"(eth|en|em|ib|bond|br|hs[in]|lo)[a-z]*\d|lo$", TCP),
)
"""(regular expression of a libfabric domain as logged by Open MPI, transport): a device of the fabric, or for sockets
a network interface (systemd.net-naming-scheme(7))."""
_FIRST_ALONE = ("Intel MPI", "oneCCL")
"""Libraries whose first rank alone logs the transport, for all ranks."""
NAMES = {
    "ib": "InfiniBand verbs", "roce": "RoCE", "efa": "EFA", "cxi": "Slingshot (cxi)", "psm2": "Omni-Path (psm2)",
    "psm3": "psm3", "opx": "Omni-Path (opx)", TCP: "TCP sockets",
}  # fmt: skip

Chosen = NamedTuple("Chosen", [("library", str), ("transport", str), ("certain", bool), ("line", str)])
"""A library's selected transport and the log line; `certain` unless a later line may correct it."""


class TransportReader:
    """Reads the lines of one log in order; `chosen` is the result so far."""

    def __init__(self) -> None:
        self.chosen = None  # type: Optional[Chosen]
        self._provider = None  # type: Optional[str]
        self._links = None  # type: Optional[str]

    def line(self, text: str) -> None:
        """Read one line of the log."""
        choice = (
            self._nccl(text)
            or self._libfabric(text)
            or self._openmpi(text)
            or self._ucx(text)
            or self._gloo(text)
        )
        if choice is None:
            return
        # Gloo often runs beside the library that moves the data, so any other library replaces it. Of two certain lines TCP
        # wins: it is the result of a fallback.
        before = self.chosen
        if (
            before is None
            or before.library == "Gloo"
            or (
                choice.library != "Gloo"
                and (not before.certain or (choice.certain and choice.transport == TCP))
            )
        ):
            self.chosen = choice

    def _nccl(self, text: str) -> Optional[Chosen]:
        _, mark, message = text.partition("NCCL INFO ")
        if not mark:
            return None
        links = re.search(r"NET/IB ?: Using (.*?)(?:;|$)", message)
        if links:
            kinds = set(re.findall(r"\[\d+\] ?[^\s/=]+/(IB|RoCE)", links.group(1)))
            self._links = "roce" if kinds == {"RoCE"} else "ib"
            return Chosen("NCCL", self._links, False, text)
        provider = re.search(r"NET/OFI Selected [Pp]rovider is ([^\s,]+)", message)
        if provider:
            self._provider = provider_of(provider.group(1))
            return Chosen("NCCL", self._provider, False, text)
        if re.search(r"NET/Socket ?: Using ", message):
            return (
                Chosen("NCCL", TCP, False, text) if self._links is None and self._provider is None else None
            )
        network = re.search(r"Using network (.+)", message) or re.search(r"via NET/([^/]+)/\d", message)
        return Chosen("NCCL", self._network(network.group(1).strip()), True, text) if network else None

    def _network(self, name: str) -> str:
        if name == "Socket":
            return TCP
        # `IBext` and `IBext_v8` are NVIDIA's plugin.
        if name.startswith("IB"):
            return self._links or "ib"
        if "Libfabric" in name or name == "OFI":
            return self._provider or "libfabric"
        return name.lower()

    @staticmethod
    def _libfabric(text: str) -> Optional[Chosen]:
        match = re.search(r"MPI startup\(\): libfabric provider: (\S+)", text)
        library = "Intel MPI"
        if not match:
            match, library = re.search(r"\|CCL_INFO\|\s+provider: (\S+)", text), "oneCCL"
        if not match or match.group(1) in _LOCAL:
            return None
        return Chosen(library, provider_of(match.group(1)), True, text)

    @staticmethod
    def _openmpi(text: str) -> Optional[Chosen]:
        match = re.search(r"mca: bml: Using (\w+) btl for send to ", text)
        if match:
            way = _BTL.get(match.group(1))
            return Chosen("Open MPI", way, True, text) if way else None
        match = re.search(r"mtl:ofi:provider(?::domain)?: (\S+)", text)
        if not match:
            return None
        known = [transport for form, transport in _DOMAINS if re.match(form, match.group(1))]
        return Chosen("Open MPI", known[0], True, text) if known else None

    @staticmethod
    def _ucx(text: str) -> Optional[Chosen]:
        match = re.search(r"UCX +INFO +.*(?:inter-node cfg#|ep_cfg\[)\d+\]?:? ?(?:tag|am|rma)\((.*)", text)
        # The table that UCX_PROTO_INFO prints.
        match = match or re.search(r"\[\S+:\d+ *:\d+\] +\|.*\| *([^|]*/[^|]*?) *\|$", text)
        if not match:
            return None
        ways = {word.split("/")[0] for word in match.group(1).split() if "/" in word}
        if any(re.match(r"(?:rc|dc|ud)(?:_|$)", way) for way in ways):
            return Chosen("UCX", "ib", True, text)
        if "srd" in ways:
            return Chosen("UCX", "efa", True, text)
        return Chosen("UCX", TCP, True, text) if "tcp" in ways else None

    @staticmethod
    def _gloo(text: str) -> Optional[Chosen]:
        """Gloo mostly supports only TCP; often it is only used next to another library."""
        match = re.search(
            r"\[Gloo\] Rank|Gloo connectFullMesh|gloo/transport/(\w+)/context\.cc.* is connected to", text
        )
        if not match:
            return None
        return Chosen("Gloo", "ib" if match.group(1) == "ibverbs" else TCP, False, text)


def provider_of(name: str) -> str:
    """The transport of a libfabric provider such as `tcp;ofi_rxm`."""
    core = name.split(";", maxsplit=1)[0].strip("'\"`.,")
    return _PROVIDERS.get(core, core)


def chosen(lines: Iterable[str]) -> Optional[Chosen]:
    """The transport in the lines of one log; None if there is none."""
    reader = TransportReader()
    for line in lines:
        reader.line(line.rstrip("\n"))
    return reader.chosen


def logged_for_all(every: Iterable[Optional[Chosen]]) -> Optional[Chosen]:
    """The transport that one rank has logged for all ranks; None if each rank logs its own."""
    return next((choice for choice in every if choice is not None and choice.library in _FIRST_ALONE), None)


def description(choice: Chosen) -> str:
    """`NCCL uses TCP sockets`."""
    return "{} uses {}".format(choice.library, NAMES.get(choice.transport, choice.transport))


def unexpected(choice: Chosen, expected: Iterable[str]) -> bool:
    """True if a known transport is not in the expected ones; unknown transports are accepted."""
    wanted = set(expected)
    return bool(wanted) and choice.transport in NAMES and choice.transport not in wanted


def log_paths(logs: str, role: str, first: int, per_node: int, count: int) -> Tuple[str, str]:
    """The paths of the log of a node's first rank, and of the log of all its ranks (`logs: node`)."""
    place = os.path.join(logs, str(first // 1000)) if count > 1000 else logs
    last = min(first + per_node, count) - 1
    return (
        os.path.join(place, "{}-{}.log".format(role, first)),
        os.path.join(place, "{}-{}-{}.log".format(role, first, last)),
    )


class GrowingLog:
    """A rank's log while it grows; in the `shared` log of a node only lines that begin with `label` are the rank's."""

    def __init__(self, path: str, shared: str = "", label: str = "") -> None:
        self._paths = (path, shared)
        self._label = label.encode()
        self.reader = TransportReader()
        self.since = None  # type: Optional[float]
        self._at = 0
        self._rest = b""

    def look(self) -> None:
        """Read the lines added since the last call, up to `LIMIT` bytes of the log."""
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
        """True if no later line can change the result, or only Gloo has been logged for `alone` seconds."""
        choice = self.reader.chosen
        if choice is None or choice.certain:
            return choice is not None
        return choice.library == "Gloo" and time.time() - (self.since or 0) >= alone


def alone_after() -> float:
    """Seconds until Gloo counts as the only library: on GPU nodes NCCL may start minutes later, with the first data."""
    return 300.0 if glob.glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/kfd") else 10.0


def rest(seconds: float) -> bool:
    """Wait for `seconds` or the end of the job (SIGTERM, which must be blocked); returns whether the job is over."""
    received = signal.sigtimedwait((signal.SIGTERM,), seconds)
    # After SIGSTOP and SIGCONT it may return a structure that nothing was written to (CPython, `signal_sigtimedwait_impl`).
    return received is not None and received.si_signo == signal.SIGTERM


def follow(logs: Dict[int, GrowingLog], expected: List[str], until: float) -> bool:
    """Follow the logs until all have a certain transport, the job is over, its script is gone, or the time `until`.

    After a wrong transport it waits `MOMENT` seconds more; after one that is valid for all ranks it returns at once.
    Returns whether the job is over.
    """
    parent, waiting, pause, over = os.getppid(), dict(logs), 0.5, False
    alone = alone_after()
    # If the parent changes, the script was killed, and there will be no SIGTERM.
    while waiting and not over and time.time() < until and os.getppid() == parent:
        for rank, log in list(waiting.items()):
            log.look()
            choice = log.reader.chosen
            if choice is not None and log.settled(alone):
                if logged_for_all([choice]):
                    return False
                if unexpected(choice, expected):
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
    # Not the name of the rank's own failure file, which would replace this one.
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
    over = follow(logs, expected.split(","), time.time() + TIMEOUT)
    hosts_by_transport = {}  # type: Dict[str, List[str]]
    wrong = []
    for_all = logged_for_all(log.reader.chosen for log in logs.values())
    for rank, log in logs.items():
        host = hosts[min(rank // int(per_node), len(hosts) - 1)]
        choice = log.reader.chosen or for_all
        if over and choice is None:
            # The job ended before this rank's library could log its transport.
            continue
        hosts_by_transport.setdefault(
            description(choice) if choice else "no library has logged its transport", []
        ).append(host)
        if choice is not None and unexpected(choice, expected.split(",")):
            wrong.append((rank, host, choice))
    for what, where in hosts_by_transport.items():
        sys.stdout.write(
            "dlrun: fabric: {} on {}\n".format(what, ", ".join(where[:8]) + (", …" if where[8:] else ""))
        )
    for rank, host, choice in wrong[:1]:
        detail = "{}, but this is {}".format(description(choice), fabric) + ("; " + advice if advice else "")
        sys.stdout.write("dlrun: fabric: {} {}: {}\n".format(role, rank, detail))
        sys.stdout.flush()
        if action == "fail" and not over:
            note(role, rank, host, detail)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
