"""Check the granted nodes before the training, and choose the best of them.

    python3 node_checks.py check HOST [quick]     on every node: write its report
    python3 node_checks.py choose COUNT           on the first node: print the chosen hosts, record the bad ones

The checks are in `node_checks` of the job's plan.json. Reports go to `nodes/HOST/report.json` in the run's directory,
bad nodes to `bad-nodes` in the job's directory, one per line: host, expiry (seconds since 1970), reason.
"""

import contextlib
import json
import math
import os
import re
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
"""Tolerated difference of two nodes' clocks in seconds."""
TIMEOUT = 30.0
"""Seconds within which every node must have started its check."""
COMMAND_TIMEOUT = 60.0
"""Time limit in seconds of a command of the site, or a GPU tool."""
PEERS = 8
"""Number of following nodes (in the list, cyclic) that each node connects to."""
DOWN = {
    "down": "down",
    "lowerlayerdown": "down: its lower interface has no link",
    "notpresent": "not present",
}
"""States of an interface that cannot be used (Documentation/networking/operstates.rst)."""
SLOW = 1.5
"""A node whose reference computation takes this many times the median is used last."""

Report = Dict[str, Any]


def plan_settings() -> Dict[str, Any]:
    """The plan's `node_checks`."""
    with open(os.path.join(os.environ["DLRUN_JOB_DIR"], "plan.json"), encoding="utf-8") as stream:
        plan = json.load(stream)  # type: Dict[str, Report]
    return plan["node_checks"]


def report_path(host: str, name: str) -> str:
    """The path of a file of a host's check."""
    return os.path.join(os.environ["DLRUN_RUN_DIR"], "nodes", host, name)


def write(path: str, text: str) -> None:
    """Write a file atomically."""
    with open(path + ".new", "w") as stream:
        stream.write(text)
    os.rename(path + ".new", path)


# --- Checks of one node by itself -------------------------------------------------------------------------------


def check_memory(least: Optional[int], meminfo: str) -> List[str]:
    """Problem: less than `least` bytes of memory available."""
    free = [int(line.split()[1]) << 10 for line in meminfo.splitlines() if line.startswith("MemAvailable")]
    if least is None or not free or free[0] >= least:
        return []
    return ["has {} MiB of memory free, but the job needs {} MiB".format(free[0] >> 20, least >> 20)]


def check_disk(directory: str, least: int) -> List[str]:
    """Problem: a directory that is not writable or has less than `least` bytes free."""
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


def check_nvidia(wanted: int, output: str) -> List[str]:
    """Problems: too few GPUs, uncorrectable memory errors. `output`: CSV of nvidia-smi with index and errors."""
    rows = [[word.strip() for word in line.split(",")] for line in output.splitlines() if line.strip()]
    rows = [row for row in rows if row[0].isdigit()]
    problems = []
    if len(rows) < wanted:
        problems.append("has {} of {} GPUs".format(len(rows), wanted))
    faulty = [row for row in rows if len(row) > 1 and row[1].isdigit() and int(row[1]) > 0]
    return problems + ["GPU {} has {} uncorrectable memory errors".format(row[0], row[1]) for row in faulty]


def check_amd(wanted: int, root: str = "/sys") -> List[str]:
    """The same for AMD GPUs, from sysfs: GPUs are kfd nodes with a `gpu_id`; `ue` counts uncorrectable errors."""
    count, problems = 0, []
    base = os.path.join(root, "class/kfd/kfd/topology/nodes")
    for node in sorted(os.listdir(base)):
        count += read(os.path.join(base, node, "gpu_id")) not in ("", "0")
    if count < wanted:
        problems.append("has {} of {} GPUs".format(count, wanted))
    cards = os.path.join(root, "class/drm")
    for card in sorted(os.listdir(cards)) if os.path.isdir(cards) else []:
        counts = read(os.path.join(cards, card, "device/ras/umc_err_count"))
        errors = [line.split()[1] for line in counts.splitlines() if line.startswith("ue:")]
        if errors and errors[0] != "0":
            problems.append("GPU {} has {} uncorrectable memory errors".format(card, errors[0]))
    return problems


def check_gpus(wanted: int) -> List[str]:
    """Problems of the GPUs, from nvidia-smi or kfd; none if neither is installed."""
    if not wanted:
        return []
    if shutil.which("nvidia-smi"):
        query = "--query-gpu=index,ecc.errors.uncorrected.volatile.total"
        done = run(["nvidia-smi", query, "--format=csv,noheader"])
        if done.returncode:
            return ["nvidia-smi fails: " + last_line(done.stdout)]
        return check_nvidia(wanted, done.stdout)
    if os.path.isdir("/sys/class/kfd/kfd/topology/nodes"):
        return check_amd(wanted)
    return []


def active_ports(root: str = "/sys") -> int:
    """InfiniBand, RoCE and Omni-Path ports that are up."""
    base, count = os.path.join(root, "class/infiniband"), 0
    for device in os.listdir(base) if os.path.isdir(base) else []:
        ports = os.path.join(base, device, "ports")
        for port in os.listdir(ports) if os.path.isdir(ports) else []:
            count += read(os.path.join(ports, port, "state")).startswith("4:")
    return count


def interface_states(names: List[str], root: str = "/sys") -> Dict[str, str]:
    """Interface -> its `operstate`; empty if the interface does not exist."""
    return {name: read(os.path.join(root, "class/net", name, "operstate")) for name in names}


def check_interfaces(states: Dict[str, str]) -> List[str]:
    """Problems: interfaces that are down."""
    return [
        "its interface {} is {}".format(name, DOWN[state]) for name, state in states.items() if state in DOWN
    ]


def check_commands(lines: List[str]) -> List[str]:
    """Problems: commands of the site that fail, with the last line of their output."""
    problems = []
    for line in lines:
        done = run(["bash", "-c", line])
        if done.returncode:
            shown = line if len(line) < 60 else line[:59] + "…"
            problems.append("`{}` fails: {}".format(shown, last_line(done.stdout) or done.returncode))
    return problems


def read(path: str) -> str:
    """The content of a small file, stripped; empty if it cannot be read."""
    with contextlib.suppress(OSError), open(path, errors="replace") as stream:
        return stream.read().strip()
    return ""


def run(words: List[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command, with all its output in `stdout`; exit code 124 after the time limit, 127 if it cannot be started."""
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_TIMEOUT,
            encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "no answer in {:.0f} s".format(COMMAND_TIMEOUT))
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, str(error.strerror))


def last_line(text: str) -> str:
    """The last line with an error, else the last one; at most 160 characters, none of them a control character."""
    lines = re.findall(".*error: .*", text) or text.strip().splitlines() or [""]
    return re.sub(r"[\0-\x1f\x7f]", "?", lines[-1].strip()[:160])


def reference_time() -> float:
    """Seconds for a fixed computation, the best of three."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        sum(range(1_000_000))
        times.append(time.perf_counter() - begun)
    return min(times)


# --- Checks between nodes ---------------------------------------------------------------------------------------


def serve_time(server: socket.socket) -> None:
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


def clock_offset(host: str, port: int) -> Optional[float]:
    """Seconds by which a peer's clock is ahead of this node's; None if the peer cannot be reached."""
    try:
        with socket.create_connection((host, port), timeout=5.0) as connection:
            # A deadline for the whole reply: another program on that port could send a byte every few seconds.
            deadline, reply = time.monotonic() + 5.0, b""
            while len(reply) < 32:
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                part = connection.recv(32 - len(reply))
                if not part:
                    return None
                reply += part
        ahead = float(reply) - time.time()
    except (OSError, ValueError):
        return None
    return ahead if math.isfinite(ahead) else None


def check_peers(host: str, suffix: str) -> Dict[str, Optional[float]]:
    """The clock offset (see `clock_offset`) of the `PEERS` following nodes, by host name; without those that are over already."""
    with open(os.path.join(os.environ["DLRUN_RUN_DIR"], "nodes", "hosts")) as stream:
        hosts = stream.read().split()
    server = socket.socket()
    server.bind(("", 0))
    server.listen(1024)
    threading.Thread(target=serve_time, args=(server,), daemon=True).start()
    write(report_path(host, "port"), str(server.getsockname()[1]))
    at = hosts.index(host)
    following = (hosts[at + 1 :] + hosts[:at])[:PEERS]
    deadline, offsets = time.time() + TIMEOUT, {}  # type: float, Dict[str, Optional[float]]
    while len(offsets) < len(following) and time.time() < deadline:
        for name in following:
            port = read(report_path(name, "port"))
            if name not in offsets and port and not os.path.exists(report_path(name, "report.json")):
                offsets[name] = clock_offset(name + suffix, int(port))
        time.sleep(0.1)
    while time.time() < deadline and not all(
        os.path.exists(report_path(name, "done")) for name in hosts if read(report_path(name, "port"))
    ):
        write(report_path(host, "done"), "")
        # Other nodes connect to this one: it answers until every node that has started its check is done.
        time.sleep(0.1)
    return offsets


def check(host: str, quick: bool) -> None:
    """Run all checks of this node and write its report; `quick` leaves out the speed test and the peers."""
    wanted = plan_settings()
    problems = check_memory(wanted["memory"], read("/proc/meminfo"))
    problems += check_disk(os.path.expandvars(wanted["directory"]), wanted["space"] or 64 << 20)
    states = interface_states(wanted["interfaces"])
    problems += check_gpus(wanted["gpus"]) + check_interfaces(states) + check_commands(wanted["commands"])
    report = {
        "problems": problems, "ports": active_ports(), "clocks": {},
        "absent": [name for name, state in states.items() if not state],
    }  # type: Report  # fmt: skip
    if not quick:
        report["pace"] = reference_time()
        report["clocks"] = check_peers(host, wanted["suffix"])
    write(report_path(host, "report.json"), json.dumps(report))


# --- Which to take ---------------------------------------------------------------------------------------------


def assess(hosts: List[str], reports: Dict[str, Report]) -> Tuple[Dict[str, str], Dict[str, str]]:
    """(reasons of the bad nodes, remarks on other nodes), by host name."""
    bad = {host: "did not answer" for host in hosts if host not in reports}
    bad.update({h: "; ".join(report["problems"]) for h, report in reports.items() if report["problems"]})
    slow = "got staged data at {:.0%} of the others' rate"
    remarks = {h: slow.format(report["staged"]) for h, report in reports.items() if "staged" in report}
    # The most common count, not the largest: otherwise one node with an extra adapter makes all others bad.
    usual = Counter(report["ports"] for report in reports.values()).most_common(1)
    for host, report in reports.items():
        if usual and report["ports"] < usual[0][0]:
            bad.setdefault(host, "{} of {} fabric ports are active".format(report["ports"], usual[0][0]))
    nowhere = interfaces_of_no_node(reports)
    for host, report in reports.items():
        lacks = ", ".join(name for name in report.get("absent", []) if name not in nowhere)
        if lacks:
            bad.setdefault(host, "has no interface {}, but others have".format(lacks))
    for host, why in [*_unreachable(reports, bad).items(), *_wrong_clocks(reports, bad, remarks).items()]:
        bad.setdefault(host, why)
    times = sorted(report["pace"] for host, report in reports.items() if host not in bad and "pace" in report)
    for host, report in reports.items():
        if host not in bad and times and report.get("pace", 0.0) > SLOW * times[len(times) // 2]:
            remarks[host] = "is {:.1f} times slower than most".format(report["pace"] / times[len(times) // 2])
    return bad, remarks


def slow_in_staging() -> Dict[str, Report]:
    """Nodes that an earlier run found slow in staging: host -> `staged`, its rate as a part of the others' rate."""
    slow = {}
    for line in read(os.path.join(os.environ["DLRUN_RUN_DIR"], "logs", "stage-0.jsonl")).splitlines():
        # The last line is incomplete if that run was killed.
        with contextlib.suppress(ValueError, KeyError):
            event = json.loads(line)
            if event["event"] == "slow":
                slow[event["host"]] = {"staged": event["rate"] / max(1, event["others"])}
    return slow


def interfaces_of_no_node(reports: Dict[str, Report]) -> List[str]:
    """Interfaces of the profile that no node has: an error in the profile, not of the nodes."""
    absent = [set(report.get("absent", [])) for report in reports.values()]
    return sorted(set.intersection(*absent)) if absent else []


def _unreachable(reports: Dict[str, Report], bad: Dict[str, str]) -> Dict[str, str]:
    """Nodes to leave out so that all others reach one another: greedy, the node with the most failed pairs first."""
    pairs = {
        (min(host, peer), max(host, peer))
        for host, report in reports.items()
        for peer, ahead in report["clocks"].items()
        if ahead is None
    }
    pairs = {pair for pair in pairs if not set(pair) & set(bad)}
    reasons = {}  # type: Dict[str, str]
    while pairs:
        worst, count = Counter(host for pair in pairs for host in pair).most_common(1)[0]
        other = next(host for pair in sorted(pairs) if worst in pair for host in pair if host != worst)
        others = other if count == 1 else "{} others".format(count)
        reasons[worst] = "no connection between it and {}".format(others)
        pairs = {pair for pair in pairs if worst not in pair}
    return reasons


def _wrong_clocks(reports: Dict[str, Report], bad: Dict[str, str], remarks: Dict[str, str]) -> Dict[str, str]:
    """Nodes whose clock agrees with no other; only remarks if that is half of the nodes, since either half may be right."""
    seen = {}  # type: Dict[str, List[float]]
    for host, report in reports.items():
        for peer, ahead in report["clocks"].items():
            if ahead is not None and host not in bad and peer not in bad:
                seen.setdefault(peer, []).append(ahead)
                seen.setdefault(host, []).append(-ahead)
    nearest = {host: min(all_, key=abs) for host, all_ in seen.items()}
    wrong = {host: off for host, off in nearest.items() if abs(off) > SKEW}
    reasons = {host: "its clock is {:+.1f} s from the others'".format(off) for host, off in wrong.items()}
    if 2 * len(reasons) < len(seen):
        return reasons
    remarks.update(reasons)
    return {}


def choose(hosts: List[str], bad: Dict[str, str], remarks: Dict[str, str], count: int) -> List[str]:
    """At most `count` good nodes, in the order of `hosts`; nodes with remarks are chosen last."""
    good = sorted((host for host in hosts if host not in bad), key=lambda host: host in remarks)[:count]
    return [host for host in hosts if host in good]


def main(arguments: List[str]) -> int:
    """Check this node, or choose among all."""
    if arguments[0] == "check":
        check(arguments[1], "quick" in arguments[2:])
        sys.stdout.flush()
        # Not a return: a thread may still be waiting for a connection.
        os._exit(0)
    hosts = read(os.path.join(os.environ["DLRUN_RUN_DIR"], "nodes", "hosts")).split()
    reports, slow = {}, slow_in_staging()  # type: Tuple[Dict[str, Report], Dict[str, Report]]
    for host in hosts:
        with contextlib.suppress(ValueError):
            reports[host] = dict(json.loads(read(report_path(host, "report.json"))), **slow.get(host, {}))
    bad, remarks = assess(hosts, reports)
    chosen = choose(hosts, bad, remarks, int(arguments[1]))
    for host in set(bad) - set(reports):  # what was printed instead, such as the launcher's error
        bad[host] = ": ".join(filter(None, [bad[host], last_line(read(report_path(host, "log")))]))
    until = int(time.time() + plan_settings()["keep_out"])
    with open(os.path.join(os.environ["DLRUN_JOB_DIR"], "bad-nodes"), "a") as stream:
        stream.writelines("{} {} {}\n".format(host, until, why) for host, why in bad.items())
    for name in interfaces_of_no_node(reports):
        sys.stderr.write("dlrun: no node has the interface {} that the profile names\n".format(name))
    for host, why in [*bad.items(), *remarks.items()]:
        sys.stderr.write("dlrun: node {}: {}{}\n".format(host, why, "" if host in bad else " (still good)"))
    sys.stdout.write("".join(host + "\n" for host in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
