"""Free ports and addresses for the roles of a job: one search on the first node of each role. Used by roles.py.

python3 role_ports.py COUNT PORT...   print the first of these PORTs from which COUNT in a row are free on this host
"""

import contextlib
import os
import socket
import sys
import tempfile
import time
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

if TYPE_CHECKING or __package__:
    from . import coordinator, role
elif __name__ != "__main__":
    import coordinator
    import role

SEARCH = 60.0
"""Maximum seconds of a search on a host."""
TRIES, CANDIDATES = 3, 16
FIND = """\
DLRUN_JOB_DIR=$0 DLRUN_FIRST_HOST=$1 DLRUN_NODE_PYTHON=$2
export DLRUN_JOB_DIR DLRUN_FIRST_HOST DLRUN_NODE_PYTHON
shift 2
{address}exec bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/role_ports.py" "$@"
"""
ADDRESS = 'source "$DLRUN_JOB_DIR/lib/addresses.sh"\nprintf "address %s\\n" "{}"\n'


class Addresses:
    """The search for ports and addresses, and the ports that this job has reserved on this node."""

    def __init__(self, directory: str, plan: Dict[str, Any], words: Callable[[str, str], List[str]]) -> None:
        self.directory, self.words = directory, words
        span = plan.get("ports") or (20000, 29999)
        self.first, self.last = int(span[0]), int(span[1])
        self.address = plan.get("address")
        self.locks: List[str] = []
        self.shelf = shelf()

    def find(self, roles: "List[role.Role]", is_over: Callable[[], bool]) -> str:
        """Set `port` and `host` of these roles; a text for the log if there are none, else an empty one."""
        wanted = [requester for requester in roles if requester.ports or self.address]
        for number in range(TRIES):
            searches = [(requester, self.search(requester, number)) for requester in wanted]
            deadline = time.monotonic() + SEARCH
            while any(search.process.poll() is None for _, search in searches):
                if is_over() or time.monotonic() > deadline:
                    break
                coordinator.wait(0.5)
            for requester, search in searches:
                self.take(requester, search)
            wanted = [requester for requester, search in searches if not search.is_complete]
            if not wanted or is_over():
                return ""
            for requester, search in searches:
                if requester in wanted:
                    coordinator.log_line(
                        "dlrun: search for a free port for role {} on {}: exit code {}".format(
                            requester.name, requester.hosts[0], search.process.returncode
                        )
                    )
        return "no free port was found for role {} on {}".format(wanted[0].name, wanted[0].hosts[0])

    def search(self, requester: "role.Role", number: int) -> "Search":
        """Start the search for a role on its first node, among ports that are not reserved here."""
        blocks, count = [], max(1, requester.ports)
        span = max(1, (self.last - self.first + 1) // count)
        name = "{} {} {}".format(os.environ["DLRUN_JOB_ID"], requester.name, number)
        seed = zlib.crc32(name.encode("utf-8"))  # jobs begin their search in different places
        search = Search()
        for step in range(span):
            block = self.first + (seed + step) % span * count
            held: List[str] = []
            if all(self.reserve(port, held) for port in range(block, block + requester.ports)):
                blocks.append(block)
                search.locks += held
            else:
                self.release(held)
            if len(blocks) == CANDIDATES:
                break
        find = FIND.format(address=ADDRESS.format(self.address) if self.address else "")
        words = self.words(requester.hosts[0], requester.component)
        words += [
            "bash",
            "-p",
            "-c",
            find,
            self.directory,
            requester.hosts[0],
            os.environ.get("DLRUN_NODE_PYTHON", ""),
        ]
        search.process = role.child([*words, str(requester.ports), *map(str, blocks)], stdout=search.output)
        return search

    def take(self, requester: "role.Role", search: "Search") -> None:
        """Read what a search has printed, between other lines, and give back what it did not choose."""
        if search.process.poll() is None:
            search.process.kill()
        search.process.wait()
        search.output.seek(0)
        port, address = 0, ""
        for line in search.output.read(1 << 16).decode("utf-8", "replace").splitlines():
            kind, _, value = line.partition(" ")
            if kind == "port" and value.isdigit() and requester.ports:
                port = int(value)
            elif kind == "address":
                address = value.strip()
        search.output.close()
        search.is_complete = bool((port or not requester.ports) and (address or not self.address))
        if search.is_complete:
            requester.port, requester.host = port, address or requester.host
            own = {str(number) for number in range(port, port + requester.ports)}
            search.locks = [path for path in search.locks if os.path.basename(path) not in own]
        self.release(search.locks)

    def reserve(self, port: int, held: List[str]) -> bool:
        """Reserve a port against other jobs of this user, as lib/ports.sh does; False if it is taken."""
        if not self.shelf:
            return True
        path = os.path.join(self.shelf, str(port))
        if not take_lock(path):
            return False
        self.locks.append(path)
        held.append(path)
        return True

    def release(self, locks: Optional[List[str]] = None) -> None:
        """Give these ports back; by default all."""
        for path in list(self.locks if locks is None else locks):
            with contextlib.suppress(OSError):
                os.unlink(path)
            self.locks.remove(path)


class Search:
    """A search on one node."""

    def __init__(self) -> None:
        self.process: Any = None
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - until it has been read
        self.locks: List[str] = []
        self.is_complete = False


def shelf() -> str:
    """The directory of the locks, which this user's jobs share on this node; empty if there can be none."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not (base.startswith("/") and is_own(base)):
        base = "/tmp"  # noqa: S108 - a directory of its own below
    path = os.path.join(base, "dlrun-ports-{}".format(os.getuid()))
    with contextlib.suppress(OSError):
        os.mkdir(path, 0o700)
    return path if is_own(path) and not os.path.islink(path) else ""


def take_lock(path: str) -> bool:
    """Make a lock of this process; False if it is another's. That of a process that is gone does not count."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _take_over(path)
    except OSError:
        return False
    with contextlib.suppress(OSError), os.fdopen(descriptor, "w") as stream:
        stream.write("{}\n".format(os.getpid()))
    return True


def _take_over(path: str) -> bool:
    owner = _owner(path)
    if not owner or _is_own_process(int(owner)):
        return False
    claim = "{}-{}".format(path, owner)
    if not take_lock(claim):  # of those who see that it is gone, one alone takes its place
        return False
    still = _owner(path) == owner
    with contextlib.suppress(OSError):
        if still:
            with open(path, "w") as stream:
                stream.write("{}\n".format(os.getpid()))
        os.unlink(claim)
    return still


def _is_own_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):  # there is none, or another user's
        return False
    return True


def _owner(path: str) -> str:
    """The process that holds a lock; empty while it is being written, or given back."""
    try:
        with open(path) as stream:
            word = stream.read().strip()
    except OSError:
        return ""
    return word if word.isdigit() else ""


def is_own(path: str) -> bool:
    """True for a directory of this user's in which files can be made."""
    try:
        return os.path.isdir(path) and os.stat(path).st_uid == os.getuid() and os.access(path, os.W_OK)
    except OSError:
        return False


def is_free(port: int) -> bool:
    """True if no socket of this host has the port."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 - looks, does not listen
        try:
            link = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # a kernel without IPv6
            continue
        with link:
            try:
                if family == socket.AF_INET6:
                    link.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                link.bind((address, port))
            except OSError:
                if family == socket.AF_INET:
                    return False
                return not is_taken(port)
    return True


def is_taken(port: int) -> bool:
    """True if a socket of IPv6 has the port, rather than IPv6 being switched off."""
    try:
        with open("/proc/net/tcp6") as stream:
            return any(line.split()[1].endswith(":{:04X}".format(port)) for line in stream.readlines()[1:])
    except OSError:
        return False


def main(arguments: List[str]) -> int:
    """Print the first block of ports that is free."""
    count = int(arguments[0])
    for first in map(int, arguments[1:]):
        if all(is_free(port) for port in range(first, first + count)):
            sys.stdout.write("port {}\n".format(first))
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
