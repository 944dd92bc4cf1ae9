"""Flux, where it is installed: an instance of the first user's own, its broker 0 on the login host, one on each node.

Where that user is called `flux`, it is a system instance, as a cluster has it: the others are its guests, whose jobs the
IMP of flux-security starts, with the configuration below in place of the installed one.
What a spec says about accounting, QOS, cgroups and preemption is Slurm's and is refused. Every partition is a queue;
the user's shells reach the instance by FLUX_URI, as those of a system instance do by a path that is built in.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import munge
from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true
from tests.cluster.spec import LOGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec

_RUN = "/run/flux"
_URI = f"local://{_RUN}/local"

_SYSTEM = """\
[bootstrap]
curve_cert = "{place}/curve.cert"
default_port = 8050
default_bind = "tcp://*:%p"
default_connect = "tcp://%h:%p"
hosts = [ {hosts} ]
[resource]
path = "{place}/R"
noverify = true
norestrict = true
exclude = "{login}"
[tbon]
tcp_user_timeout = "6s"
[ingest.validator]
plugins = [ "jobspec", "feasibility" ]
"""
"""A node that dies is noticed in some seconds."""

OWNER = "flux"
"""The owner of a system instance."""
_GUESTS = """\
[exec]
imp = "{imp}"
[access]
allow-guest-user = true
allow-root-owner = true
"""
_SECURITY = {
    "imp/conf.d/imp.toml": """\
[exec]
allowed-users = [ "flux" ]
allowed-shells = [ "{shell}" ]
""",
    "security/conf.d/sign.toml": """\
[sign]
max-ttl = 1209600
default-type = "munge"
allowed-types = [ "munge" ]
""",
}
"""Of flux-security, below its directory in etc."""


def why_not() -> str:
    """Why no Flux can run on this machine, or nothing."""
    if prefix():
        return ""
    return "Flux is not covered: no flux on PATH, and DLRUN_TEST_FLUX does not say where it is installed"


def prefix() -> Path | None:
    """Where Flux is installed: DLRUN_TEST_FLUX, else the place of the `flux` on PATH."""
    if named := os.environ.get("DLRUN_TEST_FLUX"):
        return Path(named) if Path(named, "bin/flux").exists() else None
    found = shutil.which("flux")
    return Path(found).resolve().parents[1] if found else None


def needed_paths() -> list[Path]:
    """What every user must be able to reach on the hosts."""
    return [_installed()]


def programs() -> tuple[str, ...]:
    """Directories that `PATH` has besides the usual ones."""
    return (f"{_installed()}/bin",)


def layers() -> tuple[str, ...]:
    """None."""
    return ()


def environment(shared: Path) -> Mapping[str, str]:
    """What a login shell has."""
    return {"FLUX_URI": _URI}


def configure(system: Path, spec: ClusterSpec) -> None:
    """Nothing before the hosts run; refuse what only Slurm can have."""
    asked = {
        "accounting": spec.accounting,
        "accounts": spec.accounts,
        "qos": spec.qos,
        "enforce": spec.enforce,
        "cgroup": spec.cgroup,
        "torque": spec.torque,
        "slurm_conf": spec.slurm_conf,
    }
    if refused := [name for name, value in asked.items() if value]:
        msg = f"only a Slurm cluster can have {', '.join(refused)}"
        raise ClusterError(msg)
    if spec.users[0] == OWNER:
        munge.configure(system, spec)


def start_server(cluster: Cluster) -> None:
    """Write the configuration, and start the first broker."""
    if cluster.spec.users[0] == OWNER and not (cluster.system / "munge-key/log").exists():
        munge.start(cluster)
    place, spec = _place(cluster), cluster.spec
    cluster.on(LOGIN, ["mkdir", "-p", f"{place}/conf.d", f"{place}/state"], check=True)
    cluster.on(LOGIN, f"flux keygen {place}/curve.cert && chmod 600 {place}/curve.cert", check=True)
    encoded = [f"flux R encode -r0 -c0 -H {LOGIN}"]
    for rank, host in enumerate(spec.nodes, 1):
        node = spec.node_type(host)
        gpus = f"-g0-{node.gpus - 1}" if node.gpus else ""
        encoded.append(f"flux R encode -r{rank} -c0-{node.sockets * node.cores - 1} {gpus} -H {host}")
    ranks = f"1-{len(spec.nodes)}" if len(spec.nodes) > 1 else "1"
    queues = " ".join(f"{partition.name}:{ranks}" for partition in spec.partitions)
    line = f"{{ {'; '.join(encoded)}; }} | flux R append | flux R set-property {queues} > {place}/R"
    cluster.on(LOGIN, line, check=True)
    cluster.on(
        LOGIN, f"mkdir -p /etc/flux/system && cp {place}/R /etc/flux/system/R", user="root", check=True
    )
    names = ", ".join(f'{{ host = "{host}" }}' for host in (LOGIN, *spec.nodes))
    text = _SYSTEM.format(place=place, hosts=names, login=LOGIN) + _queues(spec)
    if spec.users[0] == OWNER:
        text += _GUESTS.format(imp=_secure(cluster))
    cluster.on(LOGIN, ["tee", f"{place}/conf.d/system.toml"], input=text, check=True)
    _start(cluster, LOGIN)


def _secure(cluster: Cluster) -> Path:
    """Write the configuration of flux-security, and an IMP that may act as any user; the IMP's path."""
    place, installed = cluster.system / "flux-security", _installed()
    shutil.copytree(installed / "etc/flux", place / "flux", dirs_exist_ok=True)
    for name, text in _SECURITY.items():
        path = place / "flux" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(shell=installed / "libexec/flux/flux-shell"))
    shutil.copy(installed / "libexec/flux/flux-imp", place)
    (place / "flux-imp").chmod(0o4755)
    return place / "flux-imp"


def _queues(spec: ClusterSpec) -> str:
    lines = []
    for partition in spec.partitions:
        lines.append(f'[queues.{partition.name}]\nrequires = ["{partition.name}"]')
        if partition.max_time:
            limit = f"{_seconds(partition.max_time)}s"
            lines.append(f'[queues.{partition.name}.policy.limits]\nduration = "{limit}"')
    default = next(partition.name for partition in spec.partitions if partition.default)
    lines.append(f'[policy.jobspec.defaults.system]\nqueue = "{default}"\nduration = "30m"')
    return "\n".join(lines) + "\n"


def _seconds(time: str) -> int:
    """Slurm's D-HH:MM:SS."""
    days, _, rest = time.rpartition("-")
    hours, minutes, seconds = (int(word) for word in rest.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def start_node(cluster: Cluster, host: str) -> None:
    """Start the broker of a node."""
    _start(cluster, host)


def _start(cluster: Cluster, host: str) -> None:
    """A broker, as the instance's owner; it keeps no pipe of ours."""
    owner, place = cluster.spec.users[0], _place(cluster)
    cluster.on(host, f"mkdir -p {_RUN} && chown {owner}: {_RUN}", user="root", check=True)
    if owner == OWNER:  # the IMP looks for the tree of control groups, which is the machine's
        written = cluster.system / "flux-security/flux"
        line = f"mount --bind {written} {_installed()}/etc/flux && mount -t cgroup2 none /sys/fs/cgroup"
        cluster.on(host, f"mountpoint -q {_installed()}/etc/flux || {{ {line}; }}", user="root", check=True)
    settings = {
        "rundir": _RUN,
        "local-uri": _URI,
        "log-stderr-level": "6",
        "log-stderr-mode": "local",
        "broker.rc2_none": "1",
        "broker.quorum": "1",
        "broker.quorum-warn": "none",
        "broker.exit-norestart": "42",
        **({"statedir": f"{place}/state"} if host == LOGIN else {}),
    }
    words = " ".join(f"-S{name}={value}" for name, value in settings.items())
    log = f"/tmp/flux-{host}.log"
    line = (
        f"unset FLUX_URI; setsid flux broker --config-path={place}/conf.d {words} < /dev/null > {log} 2>&1 &"
    )
    cluster.on(host, line, check=True)


def await_ready(cluster: Cluster) -> None:
    """Wait until every node is free, and let the queues start jobs."""

    def free() -> bool:
        shown = cluster.on(LOGIN, ["flux", "resource", "list", "-s", "free", "-no", "{nnodes}"], timeout=20)
        return sum(int(word) for word in shown.stdout.split() if word.isdigit()) == len(cluster.spec.nodes)

    await_true(free, 90, "all nodes to be free")
    cluster.on(LOGIN, ["flux", "queue", "start", "--all", "--quiet"])


def _place(cluster: Cluster) -> str:
    return f"{cluster.home(cluster.spec.users[0])}/.flux-instance"


def _installed() -> Path:
    place = prefix()
    if place is None:
        raise ClusterError(why_not())
    return place
