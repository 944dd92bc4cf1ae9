"""A head and N other hosts as network namespaces on one bridge, each with a limited link."""

import contextlib
import os
import shutil
import signal
import subprocess


def usable():
    """Whether namespaces can be created."""
    return os.geteuid() == 0 and shutil.which("tc") and shutil.which("ip")


class Hosts:
    """The hosts, as a context manager; `mbit` 0 does not limit the links, `slow` has other rates for some hosts."""

    def __init__(self, count, mbit, slow=None):
        prefix = f"dlb{os.getpid()}"
        self.names = [f"{prefix}-{k}" for k in range(count + 1)]
        self.switch = f"{prefix}-sw"
        self.addresses = [f"10.78.0.{k + 1}" for k in range(count + 1)]
        self.mbit, self.slow = mbit, slow or {}

    def __enter__(self):
        ip("netns", "add", self.switch)
        inside(self.switch, "ip", "link", "add", "br0", "type", "bridge")
        inside(self.switch, "ip", "link", "set", "br0", "up")
        for k, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            port = f"p{k}"
            ip("netns", "add", name)
            ip("link", "add", "e0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
            inside(name, "ip", "addr", "add", f"{address}/24", "dev", "e0")
            for device in ("e0", "lo"):
                inside(name, "ip", "link", "set", device, "up")
            inside(self.switch, "ip", "link", "set", port, "master", "br0", "up")
            for where, device in ((name, "e0"), (self.switch, port)):
                if self.mbit:
                    self._shape(where, device, self.slow.get(k, self.mbit))
        return self

    def _shape(self, where, device, mbit):
        rate = ["rate", f"{mbit}mbit", "burst", "256k", "cburst", "256k"]
        inside(where, "tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
        words = [
            "class",
            "add",
            "dev",
            device,
            "parent",
            "1:",
            "classid",
            "1:1",
            "htb",
            *rate,
            "quantum",
            "60000",
        ]
        inside(where, "tc", *words)

    def __exit__(self, *error):
        for name in [*self.names, self.switch]:
            left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
            for pid in left.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], check=False)

    def start(self, k, words):
        """Start a command on a host."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[k], *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip


def ip(*words):
    """Run ip(8)."""
    subprocess.run(["ip", *words], check=True)


def inside(name, *words):
    """Run a command in a namespace."""
    ip("netns", "exec", name, *words)
