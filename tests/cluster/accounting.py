"""Slurm's accounting: a private MariaDB, slurmdbd, and the accounts, users and QOS that the spec asks for."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.cluster.hosts import await_true
from tests.cluster.spec import LOGIN, Account

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec

_SLURMDBD_CONF = """\
DbdHost=login
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""

# small and quick rather than safe: the data base dies with the cluster
_MARIADB_OPTIONS = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=32M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-lock-wait-timeout=900",
)

_SQL = """\
CREATE DATABASE slurm_acct;
CREATE USER slurm@localhost IDENTIFIED BY '';
GRANT ALL ON slurm_acct.* TO slurm@localhost;
"""

SLURM_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=login
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
"""
"""The lines of slurm.conf that accounting needs."""


def configure(system: Path) -> None:
    """Write slurmdbd.conf, which only Slurm may read, and what MariaDB runs when it starts."""
    conf = system / "slurm/slurmdbd.conf"
    conf.write_text(_SLURMDBD_CONF)
    conf.chmod(0o600)
    shutil.chown(conf, "slurm", "slurm")
    log = system / "hosts" / LOGIN / "var-log/slurmdbd.log"
    log.touch()
    shutil.chown(log, "slurm", "slurm")
    (system / "db").mkdir(mode=0o700)
    shutil.chown(system / "db", "mysql", "mysql")
    (system / "db/first.sql").write_text(_SQL)


def start(cluster: Cluster) -> None:
    """Start MariaDB and slurmdbd on the login host and fill in the accounts."""
    data = f"{cluster.system}/db/data"
    base = ["--no-defaults", "--user=mysql", f"--datadir={data}", *_MARIADB_OPTIONS]
    install = ["mariadb-install-db", *base, "--auth-root-authentication-method=socket", "--skip-test-db"]
    cluster.on(LOGIN, install, user="root", check=True)
    (cluster.own_path(LOGIN, "/run") / "mysqld").mkdir()
    shutil.chown(cluster.own_path(LOGIN, "/run") / "mysqld", "mysql", "mysql")
    server = ["mariadbd", *base, "--skip-networking", "--performance-schema=OFF"]
    server += ["--socket=/run/mysqld/mysqld.sock", f"--init-file={cluster.system}/db/first.sql"]
    cluster.on(
        LOGIN, f"setsid {' '.join(server)} < /dev/null > /var/log/mariadb.log 2>&1 &", user="root", check=True
    )
    socket = cluster.own_path(LOGIN, "/run") / "mysqld/mysqld.sock"
    await_true(socket.exists, 120, "MariaDB")
    cluster.on(LOGIN, ["/usr/sbin/slurmdbd"], user="root", check=True)
    probe = "exec 3<> /dev/tcp/login/6819"
    await_true(lambda: cluster.on(LOGIN, probe, user="root").returncode == 0, 120, "slurmdbd")
    cluster.on(LOGIN, ["sacctmgr", "-i"], user="root", input=_definitions(cluster.spec), check=True)


def _definitions(spec: ClusterSpec) -> str:
    """What sacctmgr reads: QOS first, because accounts name them."""
    lines = [f"add cluster {spec.cluster_name}"]
    lines += [f"add qos {' '.join((qos.name, *qos.limits))}" for qos in spec.qos]
    for account in spec.accounts or (Account(name="project", users=spec.users),):
        lines.append(f"add account {account.name} description=test organization=test")
        qos = f"qos={','.join(account.qos)} defaultqos={account.qos[0]}"
        lines.append(f"add user {','.join(account.users)} account={account.name} {qos}")
    return "\n".join([*lines, "quit"]) + "\n"
