"""bsub, bjobs, bkill, bhist, bstop, bresume, lsid, bqueues and bhosts as IBM documents them, for jobs on this machine.

State is in `$LSF_STAND_IN`. With a file `forget` there, bjobs no longer knows ended jobs, as after CLEAN_PERIOD.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path


def _place() -> Path:
    return Path(os.environ["LSF_STAND_IN"])


def _record(number: str, **known: object) -> None:
    path = _place() / f"{number}.json"
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    new = path.with_name(f"{number}.{os.getpid()}.new")
    new.write_text(json.dumps({**before, **known}), encoding="utf-8")
    new.rename(path)


def _known(number: str) -> dict[str, str]:
    path = _place() / f"{number}.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else None
    if known is None or (known["stat"] in {"DONE", "EXIT"} and (_place() / "forget").exists()):
        return {}
    return known


def bsub() -> int:
    """Read a script from standard input, start it unless it is held, print its number."""
    script = sys.stdin.read()
    options = [
        word for line in script.splitlines() if line.startswith("#BSUB ") for word in shlex.split(line[6:])
    ]
    number = str(len(list(_place().glob("*.json"))) + 100)
    log = options[options.index("-o") + 1]
    hours, _, minutes = options[options.index("-W") + 1].rpartition(":")
    limit = (int(hours or 0) * 60 + int(minutes)) * 60
    (_place() / f"{number}.sh").write_text(script, encoding="utf-8")
    held = "-H" in options
    _record(
        number, stat="PSUSP" if held else "PEND", cwd=str(Path.cwd()), log=log, limit=limit, options=options
    )
    if not held:
        _start(number)
    print(f"Job <{number}> is submitted to default queue <normal>.")
    return 0


def _start(number: str) -> None:
    known = _known(number)
    hosts = _place() / f"{number}.hosts"
    hosts.write_text(f"{os.uname().nodename}\n" * 2, encoding="utf-8")
    subprocess.Popen(
        [sys.executable, "-c", "import lsf_stand_ins as l; l.run()", number],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        cwd=str(known["cwd"]), env={**os.environ, "LSB_JOBID": number, "LSB_DJOB_HOSTFILE": str(hosts), "LSB_JOBINDEX": "0"},
    )  # fmt: skip


def run() -> None:
    """What sbatchd does: run the script with its limit, and record how it ended."""
    number = sys.argv[1]
    known = _known(number)
    _record(number, stat="RUN", pid=os.getpid(), host=os.uname().nodename)
    reason = "-"
    with Path(str(known["log"])).open("ab") as log:
        job = subprocess.Popen(["bash", str(_place() / f"{number}.sh")], stdout=log, stderr=log)
        try:
            code = job.wait(int(known["limit"]))
        except subprocess.TimeoutExpired:
            job.kill()
            code, reason = job.wait(), "TERM_RUNLIMIT: job killed after reaching LSF run time limit"
    _record(
        number,
        stat="DONE" if code == 0 else "EXIT",
        code=str(code if code >= 0 else 128 - code),
        reason=reason,
    )


def bjobs() -> int:
    """`bjobs -a -noheader -o FORMAT [ID…]`."""
    words = sys.argv[1:]
    fields = words[words.index("-o") + 1].partition(" delimiter=")[0].split()
    numbers = words[words.index("-o") + 2 :] or [path.stem for path in _place().glob("*.json")]
    names = {"exit_code": "code", "exit_reason": "reason", "exec_host": "host", "sub_cwd": "cwd"}
    for number in numbers:
        if known := _known(number):
            values = {"jobid": number, **known}
            print("^".join(str(values.get(names.get(field, field), "-")) for field in fields))
        else:
            print(f"Job <{number}> is not found", file=sys.stderr)
    return 0 if all(_known(number) for number in numbers) else 255


def bhist() -> int:
    """`bhist -l -n 0 ID…`, with the lines of IBM's examples."""
    for number in sys.argv[4:]:
        known = json.loads((_place() / f"{number}.json").read_text("utf-8"))
        print(f"\nJob <{number}>, User <me>, Project <default>, Command <#!/bin/bash;# job>")
        print(f"Fri Feb  1 10:52:20: Submitted from host <here>, to Queue <normal>, CWD <{known['cwd']}>;")
        print("Fri Feb  1 10:52:22: Dispatched to <here>;\nFri Feb  1 10:52:22: Starting (Pid 31390);")
        if known["stat"] == "DONE":
            print("Fri Feb  1 10:52:23: Done successfully. The CPU time used is 0.1 seconds;")
        elif known["stat"] == "EXIT":
            print(f"Fri Feb  1 10:52:23: Exited with exit code {known['code']}. The CPU time used is 0.1\n"
                  f"                     seconds;\nFri Feb  1 10:52:23: Completed <exit>; {known['reason']}.")  # fmt: skip
    return 0


def bkill() -> int:
    """End each job with all that it started."""
    for number in sys.argv[1:]:
        known = _known(number)
        if not known or known["stat"] in {"DONE", "EXIT"}:
            print(f"Job <{number}>: Job has already finished", file=sys.stderr)
            return 255
        while known["stat"] == "PEND":
            time.sleep(0.05)
            known = _known(number)
        if known["stat"] == "RUN":
            os.killpg(int(known["pid"]), signal.SIGTERM)
        _record(number, stat="EXIT", code="130", reason="TERM_OWNER: job killed by owner")
        print(f"Job <{number}> is being terminated")
    return 0


def bresume() -> int:
    """Start held jobs."""
    for number in sys.argv[1:]:
        _record(number, stat="PEND")
        _start(number)
        print(f"Job <{number}> is being resumed")
    return 0


def lsid() -> int:
    """The version and the cluster's name."""
    print("IBM Spectrum LSF Standard 10.1.0.13\n\nMy cluster name is orchid\nMy master name is here")
    return 0


def bqueues() -> int:
    """Two queues, of which one is closed."""
    print("normal^Open:Active\nold^Closed:Inact")
    return 0


def bhosts() -> int:
    """Three hosts of two kinds."""
    print("gpu01^32\ngpu02^32\nfat01^64")
    return 0
