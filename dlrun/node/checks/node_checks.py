"""Checks a node before the training, and chooses the best of those that were granted.

    python3 node_checks.py check HOST [quick]     on every node: write its report
    python3 node_checks.py choose COUNT           on the first: print the chosen hosts, note the bad ones

What to check is `node_checks` of the job's plan.json. Reports lie in `nodes/HOST/report.json` of the run's
directory; bad nodes in `bad-nodes` of the job's, one a line: host, until when (seconds since 1970), why.
"""

import contextlib
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

SKEW = 2.0
"""Seconds by which the clocks of two nodes may differ."""
PATIENCE = 30.0
"""Seconds in which every node must have started its check."""
COMMAND = 60.0
"""Seconds that one of the site's commands, or a GPU tool, may take."""
PEERS = 8
"""Number of following nodes that each node tries to reach."""
DOWN = {"down": "down", "lowerlayerdown": "down: its lower interface has no link", "notpresent": "not there"}
"""States of an interface that cannot be used (Documentation/networking/operstates.rst)."""
SLOW = 1.5
"""A node that takes so much longer than most for the same sum comes last."""

Report = Dict[str, Any]


def settings() -> Dict[str, Any]:
    """Node checks in the plan."""
    with open(os.path.join(os.environ["DLRUN_JOB_DIR"], "plan.json"), encoding="utf-8") as stream:
        plan = json.load(stream)  # type: Dict[str, Report]
    return plan["node_checks"]


def place(host: str, name: str) -> str:
    """A file of a host's check."""
    return os.path.join(os.environ["DLRUN_RUN_DIR"], "nodes", host, name)


def write(path: str, text: str) -> None:
    """Write a file atomically."""
    with open(path + ".new", "w") as stream:
        stream.write(text)
    os.rename(path + ".new", path)


# --- Checks of one node by itself -------------------------------------------------------------------------------


def memory(least: Optional[int], meminfo: str) -> List[str]:
    """Too little free memory."""
    free = [int(line.split()[1]) << 10 for line in meminfo.splitlines() if line.startswith("MemAvailable")]
    if least is None or not free or free[0] >= least:
        return []
    return ["has {} MiB of memory free, but the job needs {} MiB".format(free[0] >> 20, least >> 20)]


def disk(directory: str, least: int) -> List[str]:
    """A local directory that cannot be written, or is too full."""
    try:
        handle, path = tempfile.mkstemp(prefix="dlrun-check-", dir=directory)
        try:
            os.write(handle, b"\0" * (1 << 20))
            os.fsync(handle)
        finally:
            os.close(handle)
            os.unlink(path)
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return ["cannot write to {}: {}".format(directory, error.strerror)]
    if free < least:
        return ["has {} MiB free in {}, but the job needs {} MiB".format(free >> 20, directory, least >> 20)]
    return []


def nvidia(wanted: int, output: str) -> List[str]:
    """Too few GPUs, or memory errors that could not be corrected, from nvidia-smi's CSV: index, errors."""
    rows = [[word.strip() for word in line.split(",")] for line in output.splitlines() if line.strip()]
    rows = [row for row in rows if row[0].isdigit()]
    problems = []
    if len(rows) < wanted:
        problems.append("has {} of {} GPUs".format(len(rows), wanted))
    faulty = [row for row in rows if len(row) > 1 and row[1].isdigit() and int(row[1]) > 0]
    return problems + ["GPU {} has {} uncorrectable memory errors".format(row[0], row[1]) for row in faulty]


def amd(wanted: int, root: str = "/sys") -> List[str]:
    """The same for AMD's GPUs, from sysfs: they are nodes of the kfd with a GPU id; `ue` counts their errors."""
    count, problems = 0, []
    base = os.path.join(root, "class/kfd/kfd/topology/nodes")
    for node in sorted(os.listdir(base)):
        count += read(os.path.join(base, node, "gpu_id")) not in ("", "0")
    if count < wanted:
        problems.append("has {} of {} GPUs".format(count, wanted))
    cards = os.path.join(root, "class/drm")
    for card in sorted(os.listdir(cards)) if os.path.isdir(cards) else []:
        said = read(os.path.join(cards, card, "device/ras/umc_err_count"))
        errors = [line.split()[1] for line in said.splitlines() if line.startswith("ue:")]
        if errors and errors[0] != "0":
            problems.append("GPU {} has {} uncorrectable memory errors".format(card, errors[0]))
    return problems


def gpus(wanted: int) -> List[str]:
    """Output of the tools that are installed; nothing where there are none."""
    if not wanted:
        return []
    if shutil.which("nvidia-smi"):
        query = [
            "nvidia-smi",
            "--query-gpu=index,ecc.errors.uncorrected.volatile.total",
            "--format=csv,noheader",
        ]
        code, output = run(query)
        return nvidia(wanted, output) if code == 0 else ["nvidia-smi fails: " + last(output)]
    if os.path.isdir("/sys/class/kfd/kfd/topology/nodes"):
        return amd(wanted)
    return []


def active_ports(root: str = "/sys") -> int:
    """InfiniBand, RoCE and Omni-Path ports that are up."""
    base, count = os.path.join(root, "class/infiniband"), 0
    for device in os.listdir(base) if os.path.isdir(base) else []:
        ports = os.path.join(base, device, "ports")
        for port in os.listdir(ports) if os.path.isdir(ports) else []:
            count += read(os.path.join(ports, port, "state")).startswith("4:")
    return count


def interfaces(names: List[str], root: str = "/sys") -> Dict[str, str]:
    """The state of each of the fabric's IP interfaces, as the kernel calls it; empty where there is none."""
    return {name: read(os.path.join(root, "class/net", name, "operstate")) for name in names}


def links(states: Dict[str, str]) -> List[str]:
    """Interfaces that are down."""
    return [
        "its interface {} is {}".format(name, DOWN[state]) for name, state in states.items() if state in DOWN
    ]


def commands(lines: List[str]) -> List[str]:
    """The site's own checks that fail, with the last line of their output."""
    problems = []
    for line in lines:
        code, output = run(["bash", "-c", line])
        if code:
            problems.append(
                "`{}` fails: {}".format(line if len(line) < 60 else line[:59] + "…", last(output) or code)
            )
    return problems


def read(path: str) -> str:
    """A small file of the kernel; empty if there is none."""
    try:
        with open(path) as stream:
            return stream.read().strip()
    except OSError:
        return ""


def run(words: List[str]) -> Tuple[int, str]:
    """Exit code and output of a command, which has a time limit."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, "no answer in {:.0f} s".format(COMMAND)
    except OSError as error:
        return 127, str(error.strerror)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def last(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip()[:160] for line in reversed(text.splitlines()) if line.strip()), "")


def pace() -> float:
    """Seconds for a fixed sum: the best of three."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        sum(range(1_000_000))
        times.append(time.perf_counter() - begun)
    return min(times)


# --- Checks between nodes ---------------------------------------------------------------------------------------


def answer(server: socket.socket) -> None:
    """Send the time to each caller; a connection that breaks is ignored."""
    while server.fileno() >= 0:
        try:
            connection, _ = server.accept()
        except OSError:  # the caller has disconnected, or there is no free descriptor now
            time.sleep(0.05)
            continue
        with connection, contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send("{:32.6f}".format(time.time()).encode())


def reach(host: str, port: int) -> Optional[float]:
    """How far a peer's clock is ahead of ours, in seconds; None if it cannot be reached."""
    try:
        with socket.create_connection((host, port), timeout=5.0) as connection:
            deadline, said = time.monotonic() + 5.0, b""
            while len(said) < 32:
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                part = connection.recv(32 - len(said))
                if not part:
                    return None
                said += part
        ahead = float(said) - time.time()
    except (OSError, ValueError):
        return None
    return ahead if math.isfinite(ahead) else None


def peers(host: str, suffix: str) -> Dict[str, Optional[float]]:
    """The clocks of the nodes after this one, by name."""
    with open(os.path.join(os.environ["DLRUN_RUN_DIR"], "nodes", "hosts")) as stream:
        hosts = stream.read().split()
    server = socket.socket()
    server.bind(("", 0))
    server.listen(1024)
    threading.Thread(target=answer, args=(server,), daemon=True).start()
    write(place(host, "port"), str(server.getsockname()[1]))
    at = hosts.index(host)
    following = (hosts[at + 1 :] + hosts[:at])[:PEERS]
    deadline, found = time.time() + PATIENCE, {}  # type: float, Dict[str, Optional[float]]
    while len(found) < len(following) and time.time() < deadline:
        for name in following:
            port = read(place(name, "port"))
            if name not in found and port:
                found[name] = reach(name + suffix, int(port))
        time.sleep(0.1)
    while time.time() < deadline and not all(
        os.path.exists(place(name, "done")) for name in hosts if read(place(name, "port"))
    ):
        write(place(host, "done"), "")
        time.sleep(0.1)  # others may still want to reach this one
    return found


def check(host: str, quick: bool) -> None:
    """Everything, or with `quick` only whether the node answers and its disk and GPUs work; then write the report."""
    wanted = settings()
    problems = memory(wanted["memory"], read("/proc/meminfo"))
    problems += disk(os.path.expandvars(wanted["directory"]), wanted["space"] or 64 << 20)
    states = interfaces(wanted["interfaces"])
    problems += gpus(wanted["gpus"]) + links(states) + commands(wanted["commands"])
    report = {
        "problems": problems, "ports": active_ports(), "clocks": {},
        "absent": [name for name, state in states.items() if not state],
    }  # type: Report  # fmt: skip
    if not quick:
        report["pace"] = pace()
        report["clocks"] = peers(host, wanted["suffix"])
    write(place(host, "report.json"), json.dumps(report))


# --- Which to take ---------------------------------------------------------------------------------------------


def judge(hosts: List[str], reports: Dict[str, Report]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """The bad nodes with the reason, and remarks on others."""
    bad = {host: "did not answer" for host in hosts if host not in reports}
    bad.update({h: "; ".join(report["problems"]) for h, report in reports.items() if report["problems"]})
    slow = "got staged data at {:.0%} of the others' rate"
    remarks = {h: slow.format(report["staged"]) for h, report in reports.items() if "staged" in report}
    usual = Counter(report["ports"] for report in reports.values()).most_common(1)
    for host, report in reports.items():
        if usual and report["ports"] < usual[0][0]:
            bad.setdefault(host, "{} of {} fabric ports are active".format(report["ports"], usual[0][0]))
    nowhere = lacking(reports)
    for host, report in reports.items():
        lacks = ", ".join(name for name in report.get("absent", []) if name not in nowhere)
        if lacks:
            bad.setdefault(host, "has no interface {}, but others have".format(lacks))
    for host, why in [*_unreached(reports, bad).items(), *_astray(reports, bad, remarks).items()]:
        bad.setdefault(host, why)
    paces = sorted(report["pace"] for host, report in reports.items() if host not in bad and "pace" in report)
    for host, report in reports.items():
        if host not in bad and paces and report.get("pace", 0.0) > SLOW * paces[len(paces) // 2]:
            remarks[host] = "is {:.1f} times slower than most".format(report["pace"] / paces[len(paces) // 2])
    return bad, remarks


def staged_slowly() -> Dict[str, Report]:
    """For reports: the nodes that an earlier run found slow when they got their data, by the part of the others' rate."""
    found = {}
    for line in read(os.path.join(os.environ["DLRUN_RUN_DIR"], "logs", "stage-0.jsonl")).splitlines():
        with contextlib.suppress(ValueError, KeyError):  # cut off where that run was killed
            event = json.loads(line)
            if event["event"] == "slow":
                found[event["host"]] = {"staged": event["rate"] / max(1, event["others"])}
    return found


def lacking(reports: Dict[str, Report]) -> List[str]:
    """Interfaces of the profile that no node has: an error of the profile, not of the nodes."""
    absent = [set(report.get("absent", [])) for report in reports.values()]
    return sorted(set.intersection(*absent)) if absent else []


def _unreached(reports: Dict[str, Report], bad: Dict[str, str]) -> Dict[str, str]:
    """The fewest nodes, as far as that is easily found, without which every node reaches every other."""
    pairs = {
        (min(host, peer), max(host, peer))
        for host, report in reports.items()
        for peer, ahead in report["clocks"].items()
        if ahead is None
    }
    pairs = {pair for pair in pairs if not set(pair) & set(bad)}
    found = {}  # type: Dict[str, str]
    while pairs:
        worst, count = Counter(host for pair in pairs for host in pair).most_common(1)[0]
        other = next(host for pair in sorted(pairs) if worst in pair for host in pair if host != worst)
        found[worst] = "no connection between it and {}".format(
            other if count == 1 else "{} others".format(count)
        )
        pairs = {pair for pair in pairs if worst not in pair}
    return found


def _astray(reports: Dict[str, Report], bad: Dict[str, str], remarks: Dict[str, str]) -> Dict[str, str]:
    """Nodes whose clock agrees with no other's; if that is half of them, it is unknown which are right, and none is reported."""
    seen = {}  # type: Dict[str, List[float]]
    for host, report in reports.items():
        for peer, ahead in report["clocks"].items():
            if ahead is not None and host not in bad and peer not in bad:
                seen.setdefault(peer, []).append(ahead)
                seen.setdefault(host, []).append(-ahead)
    nearest = {host: min(all_, key=abs) for host, all_ in seen.items()}
    found = {
        host: "its clock is {:+.1f} s from the others'".format(off)
        for host, off in nearest.items()
        if abs(off) > SKEW
    }
    if 2 * len(found) < len(seen):
        return found
    remarks.update(found)
    return {}


def choose(
    hosts: List[str], reports: Dict[str, Report], count: int
) -> Tuple[List[str], Dict[str, str], Dict[str, str]]:
    """The best `count` in their order (fewer if there are not as many), the bad ones, and remarks."""
    bad, remarks = judge(hosts, reports)
    good = sorted((host for host in hosts if host not in bad), key=lambda host: host in remarks)[:count]
    return [host for host in hosts if host in good], bad, remarks


def main(arguments: List[str]) -> int:
    """Check this node, or choose among all."""
    if arguments[0] == "check":
        check(arguments[1], "quick" in arguments[2:])
        sys.stdout.flush()
        os._exit(0)  # whatever still waits for a connection
    hosts = read(os.path.join(os.environ["DLRUN_RUN_DIR"], "nodes", "hosts")).split()
    reports, slow = {}, staged_slowly()  # type: Tuple[Dict[str, Report], Dict[str, Report]]
    for host in hosts:
        with contextlib.suppress(ValueError):
            reports[host] = dict(json.loads(read(place(host, "report.json"))), **slow.get(host, {}))
    chosen, bad, remarks = choose(hosts, reports, int(arguments[1]))
    until = int(time.time() + settings()["keep_out"])
    with open(os.path.join(os.environ["DLRUN_JOB_DIR"], "bad-nodes"), "a") as stream:
        stream.writelines("{} {} {}\n".format(host, until, why) for host, why in bad.items())
    for name in lacking(reports):
        sys.stderr.write("dlrun: no node has the interface {} that the profile names\n".format(name))
    for host, why in [*bad.items(), *remarks.items()]:
        sys.stderr.write("dlrun: node {}: {}{}\n".format(host, why, "" if host in bad else " (still good)"))
    sys.stdout.write("".join(host + "\n" for host in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
