"""Root's look at one host: every port that a program of the victim listens on, other than the scheduler's own.

`observer.py PLACE HOST`: a line `PROTOCOL PORT PROGRAM...` in PLACE/ports-HOST for each, once; PROGRAM is the command line.
"""

# ruff: noqa: PTH115, PTH116, PTH123, PTH208

import os
import sys
import time

PLACE, HOST = sys.argv[1:]
VICTIM = 7001
OPEN = {"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"}
"""The state of a socket that takes what anyone sends, in each table of /proc/net."""
OF_THE_SCHEDULER = ("srun", "slurmstepd", "sshd")


def sockets():
    """Protocol, port and inode of what is open, on whichever address."""
    for table, state in OPEN.items():
        with open("/proc/net/" + table) as lines:
            for row in list(lines)[1:]:
                words = row.split()
                if words[3] == state and int(words[7]) == VICTIM:
                    yield table[:3], int(words[1].rpartition(":")[2], 16), words[9]


def holder(inode):
    """The command line of the process that has a socket; None if it is gone."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + name).st_uid != VICTIM:
                continue
            for descriptor in os.listdir(f"/proc/{name}/fd"):
                if os.readlink(f"/proc/{name}/fd/{descriptor}") == f"socket:[{inode}]":
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        return (
                            file.read()
                            .decode("utf-8", "replace")
                            .replace("\0", " ")
                            .replace("\n", " ")
                            .strip()
                        )
        except OSError:
            continue
    return None


known = set()
while True:
    for protocol, port, inode in list(sockets()):
        if inode in known:
            continue
        program = holder(inode)
        if not program:  # gone, or at a moment at which it has no arguments: it is looked at again
            continue
        known.add(inode)
        if os.path.basename(program.split()[0]) not in OF_THE_SCHEDULER:  # noqa: PTH119
            with open(PLACE + "/ports-" + HOST, "a") as file:
                file.write(f"{protocol} {port} {program}\n")
    time.sleep(0.02)
