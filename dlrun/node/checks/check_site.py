"""Run on a compute node by the job of `dlrun site test`: print the node's actual values of site profile keys.

    python3 node.pyz check-site QUESTIONS [WORD...]

QUESTIONS is JSON: `setup` (shell lines), `hygiene`, `modules`, `node_local` and `shared` (paths), and `names` (host names
with `{host}` for this node).
Prints one line, `dlrun-site` and JSON: the facts of `describe` and the answers. With further words, which are arguments of
`check-rank`, it also runs that.
"""

import json
import os
import re
import socket
import subprocess
import sys
from typing import Any, Dict, List

from . import check_rank, describe

TIMEOUT = 120  # of loading one module, in seconds
AVAILABLE = 4000  # characters kept of a list of modules
FAILED = re.compile(
    r"unable to locate a modulefile|unknown module|cannot be loaded|not found|ERROR", re.IGNORECASE
)


def main(words: List[str]) -> int:
    """Print the answers. Exit status 0 also after failed checks: those are in the answers."""
    asked = json.loads(words[0])
    answers = describe.facts()
    answers["memory_kib"] = memory_kib()
    answers["modules"] = modules(asked)
    answers["node_local"] = describe_directory(asked.get("node_local"))
    answers["shared"] = {path: describe_directory(path) for path in asked.get("shared", [])}
    names = [name.replace("{host}", answers["host"].split(".")[0]) for name in asked.get("names", [])]
    answers["names"] = {name: resolves(name) for name in names}
    answers["gpu_devices"] = check_rank.gpu_devices()
    answers["gpus"] = {name: os.environ[name] for name in check_rank.VISIBLE if name in os.environ}
    sys.stdout.write("dlrun-site " + json.dumps(answers) + "\n")
    sys.stdout.flush()
    return check_rank.main(words[1:]) if len(words) > 1 or "RANK" in os.environ else 0


def memory_kib() -> int:
    """The node's memory in KiB: the sum of its NUMA nodes or MemTotal of /proc/meminfo, whichever is more.

    In a container /proc/meminfo may show the container's memory (lxcfs), and a virtual machine may leave a part of its memory
    out of the NUMA nodes.
    """
    total = 0
    base = "/sys/devices/system/node"
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        match = re.search(r"MemTotal:\s*(\d+)", describe.read(os.path.join(base, name, "meminfo")) or "")
        total += int(match.group(1)) if match else 0
    match = re.search(r"^MemTotal:\s*(\d+)", describe.read("/proc/meminfo") or "", re.MULTILINE)
    return max(total, int(match.group(1)) if match else 0)


def modules(asked: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    """Load each module after the previous ones.

    Returns, by module, `loads` and `output` (its last 300 characters), and for one that fails `available`: modules of
    the same name.
    """
    outcomes = {}
    before = list(asked.get("setup", []))
    hygiene = asked.get("hygiene")
    if hygiene in ("reset", "purge"):
        before.append("module " + hygiene)
    names = asked.get("modules", [])
    for index, name in enumerate(names):
        loads = ["module load '{}'".format(earlier) for earlier in names[:index]]
        code, output = shell(
            [*before, *("{} >/dev/null 2>&1".format(line) for line in loads), "module load '{}'".format(name)]
        )
        # Environment Modules 3.2 exits 0 also after a failed `module load`.
        good = code == 0 and not FAILED.search(output)
        outcomes[name] = {"loads": good, "output": output[-300:]}
        if not good:
            base = name.split("/")[0]
            _, listed = shell([*before, "module -t avail '{}' 2>&1".format(base)])
            outcomes[name]["available"] = listed[:AVAILABLE].split()
            # The following modules may depend on this one.
            break
    return outcomes


def shell(lines: List[str]) -> Any:
    """Run lines in a bash like the batch script's; returns (exit code of the last line, output of all)."""
    try:
        done = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def describe_directory(path: Any) -> Any:
    """Existence, permissions, file system and size (bytes) of a path with variables expanded; None without a path."""
    if not path:
        return None
    place = os.path.expandvars(path)
    facts = {"path": place, "exists": os.path.isdir(place), "writable": os.access(place, os.W_OK), "type": ""}
    if not facts["exists"]:
        return facts
    best = ""
    for line in (describe.read("/proc/self/mounts") or "").splitlines():
        device, mount, kind = describe.mount(line)
        real = os.path.realpath(place)
        if (real == mount or real.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
            best = mount
            facts.update(type=kind, device=device)
    try:
        size = os.statvfs(place)
        facts["free"] = size.f_bavail * size.f_frsize
        facts["size"] = size.f_blocks * size.f_frsize
        facts["rotational"] = describe.rotational(os.stat(place).st_dev)
    except OSError:
        pass
    return facts


def resolves(name: str) -> bool:
    """Whether a host name resolves on this node."""
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False
