"""Bring a cluster up, run commands on its hosts, break it, take it down."""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.cluster import cgroups, hosts, image, init, module_systems, sshd, topology
from tests.cluster.errors import ClusterError
from tests.cluster.install import install, packages, why_not
from tests.cluster.owner import Owner, abandoned
from tests.cluster.scheduler import SCHEDULERS
from tests.cluster.spec import LOGIN, ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

BASE = Path("/srv")
"""Where clusters keep their files: a short path, because Unix sockets have names of 107 bytes at most."""


class Cluster:
    """A cluster called `name`; several of different names do not meet.

    `with Cluster(spec) as cluster:` brings it up and takes it down. It is taken down too when this process dies.
    """

    def __init__(self, spec: ClusterSpec | None = None, name: str = "default") -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
            msg = f"not a cluster name: {name!r}"
            raise ClusterError(msg)
        self.spec = spec if spec is not None else ClusterSpec()
        self.name = name
        self.root = BASE / f"dlrun-{name}"
        self.system = image.system(self.root)
        self._scheduler = SCHEDULERS[self.spec.scheduler]
        self._record = self.system / "spec.pickle"
        self._owner: Owner | None = None

    @classmethod
    def attach(cls, name: str = "default") -> Cluster:
        """The cluster `name` that is up already, maybe brought up by another process."""
        try:
            return cls(pickle.loads(cls(name=name)._record.read_bytes()), name)
        except FileNotFoundError:
            msg = f"no cluster {name!r} is up"
            raise ClusterError(msg) from None

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def shared(self) -> Path:
        """The directory that all hosts of the cluster and this machine see at the same path."""
        return self.root / "shared"

    def home(self, user: str) -> Path:
        """Home directory of `user`, below `shared`."""
        return image.home(self.root, user)

    def own_path(self, host: str, path: str) -> Path:
        """Where this machine sees `host`'s own `/tmp`, `/var/tmp`, `/run`, `/var/log` or `/var/spool`."""
        return image.own_path(self.root, host, path)

    def status(self) -> dict[str, bool]:
        """Which hosts are running."""
        alive = hosts.running(self.system)
        return {host: host in alive for host in self.spec.hosts}

    def up(self, *, stay: bool = False) -> None:
        """Bring the cluster up and wait until all nodes are idle; nothing to do when it is up already.

        Installs what is missing, and clears clusters whose owner is dead. With `stay` the cluster outlives this
        process. Raises ClusterError when it cannot, or when `name` is up with another spec.
        """
        if reason := why_not() or self._scheduler.why_not():
            raise ClusterError(reason)
        install(packages(self.spec))
        with _locked():
            _clear_abandoned()
            if self._is_up():
                return
            self._remove()
            self._owner = Owner(self.root)
            try:
                self._build()
                self._start()
            except ClusterError as error:
                msg = f"{error}\n{self._last_words()}"
                raise ClusterError(msg) from error
            finally:
                if not self._record.exists():
                    self._remove()
                elif stay:
                    self._disown()

    def down(self) -> None:
        """End every process of the cluster and delete its files; nothing to do when it is down."""
        with _locked():
            self._remove()

    def on(
        self,
        host: str,
        argv: Sequence[str] | str,
        *,
        user: str | None = None,
        timeout: float = 120,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        input: str | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host (a plain string through bash) as `user`, by default the first ordinary one.

        It starts in the user's home, with a login's few variables and `env`. When `timeout` seconds have
        passed it is killed and subprocess.TimeoutExpired raised. With `check`, a command that fails raises
        ClusterError with its output.
        """
        process = self.popen(
            host,
            argv,
            user=user,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        )
        with process:
            try:
                out, err = process.communicate(input, timeout=timeout)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        done = subprocess.CompletedProcess(argv, process.returncode, out, err)
        if check and done.returncode != 0:
            msg = f"`{argv}` on {host} ended with {done.returncode}: {done.stdout}{done.stderr}"
            raise ClusterError(msg)
        return done

    def popen(
        self,
        host: str,
        argv: Sequence[str] | str,
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        own_group: bool = True,
    ) -> subprocess.Popen[str]:
        """Start a command on a host and return at once.

        With `own_group` it leads a process group, to be ended with os.killpg: nsenter forwards no signals.
        """
        user = user or self.spec.users[0]
        words = ["bash", "-c", argv] if isinstance(argv, str) else argv
        place = self._home_on_host(user)
        variables = {
            "HOME": place,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "PATH": ":".join((*self._scheduler.programs(), hosts.PATH)),
            "LANG": "C.UTF-8",
            **self._scheduler.environment(self.shared),
            **(env or {}),
        }
        line = hosts.enter(self._pid(host), words, user=user, cwd=os.fspath(cwd or place))
        return subprocess.Popen(
            line,
            env=variables,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=own_group,
        )

    def kill_node(self, host: str) -> None:
        """Cut a node's power."""
        self.spec.node_type(host)
        hosts.kill(self.system, [host])
        with suppress(ClusterError):  # its cable may be gone already
            hosts.network(self._pid(LOGIN), [f"link delete {self._port(host)}"])

    def start_node(self, host: str) -> None:
        """Switch a killed node on; the scheduler takes a second or two to see it."""
        self.spec.node_type(host)
        if host in hosts.running(self.system):
            return
        self._boot(host)
        self._scheduler.start_node(self, host)

    def cut(self, host: str) -> None:
        """Unplug a host's network cable."""
        hosts.network(self._pid(LOGIN), [f"link set {self._port(host)} down"])

    def join(self, host: str) -> None:
        """Plug a host's network cable in again."""
        hosts.network(self._pid(LOGIN), [f"link set {self._port(host)} up"])

    def _build(self) -> None:
        image.build(self.root, self.spec)
        topology.build(self.system, self.spec)
        module_systems.unpack(self.system, (*self.spec.module_systems, *self._scheduler.layers()))
        if self.spec.cgroup:
            cgroups.build(self.root.name, self.spec)
        self._scheduler.configure(self.system, self.spec)
        if self.spec.sshd:
            sshd.configure(self.root, self.spec)
        image.copy_homes(self.root, self.spec)
        for host in self.spec.hosts:
            init.write(self.root, self.spec, host, self._scheduler.needed_paths(), self._scheduler.layers())

    def _start(self) -> None:
        for host in self.spec.hosts:
            self._boot(host)
        self._scheduler.start_server(self)
        for host in self.spec.nodes:
            self._scheduler.start_node(self, host)
        self._scheduler.await_ready(self)
        self._record.write_bytes(pickle.dumps(self.spec))

    def _boot(self, host: str) -> None:
        pid = hosts.boot(self.system, host)
        address = self.spec.address(host)
        if host == LOGIN:
            hosts.make_switch(pid, address)
        else:
            mbit = self.spec.node_type(host).link_mbit if host in self.spec.nodes else 0
            hosts.connect(self._pid(LOGIN), pid, self._port(host), address, mbit)
        if self.spec.sshd:
            sshd.start(self, host)

    def _is_up(self) -> bool:
        """Whether all hosts run; raises ClusterError when they are those of another spec."""
        if not self._record.exists():
            return False
        if pickle.loads(self._record.read_bytes()) != self.spec:
            msg = f"cluster {self.name!r} is up with another spec: take it down first"
            raise ClusterError(msg)
        return all(self.status().values())

    def _last_words(self) -> str:
        """The ends of all hosts' logs, for the message of a cluster that does not come up."""
        logs = sorted(self.system.glob("hosts/*/var-log/*.log"))
        return "\n".join(
            f"{log}: {log.read_text(errors='replace')[-800:]}" for log in logs if log.stat().st_size
        )

    def _remove(self) -> None:
        cgroups.thaw(self.root.name)
        hosts.kill_all(self.system)
        image.remove(self.root)
        cgroups.remove(self.root.name)
        self._disown()

    def _disown(self) -> None:
        if self._owner is not None:
            self._owner.release()
            self._owner = None

    def _pid(self, host: str) -> int:
        try:
            return hosts.running(self.system)[host]
        except KeyError:
            msg = f"host {host!r} of cluster {self.name!r} is not running"
            raise ClusterError(msg) from None

    def _port(self, host: str) -> str:
        """The bridge's end of a host's cable (names of interfaces have 15 characters at most)."""
        return f"port{self.spec.hosts.index(host)}"

    def _home_on_host(self, user: str) -> str:
        if user in self.spec.users:
            return str(self.home(user))
        return "/root" if user == "root" else "/"


def clear() -> None:
    """Take down every cluster whose owner is dead."""
    with _locked():
        _clear_abandoned()


def _clear_abandoned() -> None:
    for root in abandoned(BASE):
        Cluster(name=root.name.removeprefix("dlrun-"))._remove()


@contextmanager
def _locked() -> Iterator[None]:
    """One cluster goes up or down at a time; the lock is on a directory, so no file is left."""
    BASE.mkdir(exist_ok=True)
    handle = os.open(BASE, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
