"""A real Linux on a machine of our making: QEMU emulates packages, NUMA nodes and hyper-threads, and CPUs are
plugged in one by one, because Linux numbers them in the order in which they appear.

The guest sees this machine's files, read-only, so what is installed here runs there. Boots in a minute or two.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.oracles.install import FOLDER

PACKAGES = ("qemu-system-x86", "busybox-static", "cpio")
VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
BUSYBOX = Path("/bin/busybox")
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "fuse", "virtiofs",
)  # fmt: skip
"""What the kernel needs before it can mount the host's files, in the order of their needs."""

PATIENCE = 420
MODEL = "Skylake-Server,-hle,-rtm"


@dataclass(frozen=True)
class Machine:
    """Packages, cores of each and hardware threads of each core; every package is a NUMA node.

    `order` are (package, core, thread) in the order of their OS ids; the first must be (0, 0, 0).
    """

    packages: int
    cores: int
    threads: int
    order: tuple[tuple[int, int, int], ...]

    @classmethod
    def even_odd(cls, packages: int, cores: int, threads: int) -> Machine:
        """CPUs alternate between packages; second hardware threads come after all first ones."""
        order = tuple((p, c, t) for t in range(threads) for c in range(cores) for p in range(packages))
        return cls(packages, cores, threads, order)


def why_not() -> str | None:
    """What is missing for a virtual machine here; installs what it can as root."""
    if os.geteuid() != 0:
        return "a virtual machine that sees this machine's files needs root"
    if not (
        shutil.which("qemu-system-x86_64")
        and VIRTIOFSD.exists()
        and BUSYBOX.exists()
        and shutil.which("cpio")
    ):
        command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
        if (
            not shutil.which("apt-get")
            or subprocess.run(command, capture_output=True, check=False).returncode
        ):
            return "qemu-system-x86 and busybox-static cannot be installed"
    return None if _kernel() else "no kernel can be downloaded"


def _kernel() -> Path | None:
    """The folder of an unpacked cloud kernel, downloaded once."""
    folder = FOLDER / "kernel"
    if not list(folder.glob("boot/vmlinuz-*")) and shutil.which("apt-cache"):
        folder.mkdir(parents=True, exist_ok=True)
        depends = subprocess.run(
            ["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True, check=False
        )
        names = [
            word for word in depends.stdout.split() if word.startswith("linux-image-") and word[12].isdigit()
        ]
        if names:
            subprocess.run(["apt-get", "download", names[0]], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package.name, "."], cwd=folder, check=True)
            package.unlink()
    return folder if list(folder.glob("boot/vmlinuz-*")) else None


def run(machine: Machine, script: str, folder: Path, patience: float = PATIENCE) -> str:
    """What the script (bash, in the guest, with this machine's files below `/`) prints.

    Raises RuntimeError with the console if the guest does not come to the end within `patience` seconds.
    """
    kernel = _kernel()
    assert kernel is not None
    image = _initramfs(kernel, machine, script, folder)
    with _files(folder) as share, _emulator(kernel, image, share, machine, folder) as (process, control):
        console = folder / "console"
        deadline = time.monotonic() + patience
        _wait(console, "GUEST-READY", process, deadline)
        _plug(control, machine)
        _wait(console, "GUEST-DONE", process, deadline)
        text = console.read_text(errors="replace").replace("\r", "")
    return text.partition("GUEST-START\n")[2].partition("GUEST-DONE")[0]


def _initramfs(kernel: Path, machine: Machine, script: str, folder: Path) -> Path:
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    for name in ("proc", "sys", "dev", "host"):
        (root / name).mkdir()
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for module in MODULES:
        (found,) = kernel.glob(f"lib/modules/*/kernel/**/{module}.ko")
        shutil.copy(found, root / f"{module}.ko")
    (root / "script").write_text(script)
    (root / "init").write_text(_init(len(machine.order)))
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in [root, *root.rglob("*")])
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(), capture_output=True, check=True
    )
    image = folder / "initramfs.gz"
    image.write_bytes(gzip.compress(archive.stdout, 1))
    return image


def _init(cpus: int) -> str:
    """Mount the host's files, wait until every CPU is there and switch it on, run the script, power off."""
    return f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {" ".join(MODULES)}; do insmod /$module.ko; done
mount -t virtiofs -o ro host /host || echo "no files of the host"
echo GUEST-READY
tries=0
while [ "$(ls -d /sys/devices/system/cpu/cpu[0-9]* | wc -l)" -lt {cpus} ] && [ $tries -lt 300 ]; do
  sleep 0.2; tries=$((tries + 1))
done
for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do echo 1 > $cpu; done 2>/dev/null
mount -t proc proc /host/proc; mount -t sysfs sys /host/sys; mount -t devtmpfs dev /host/dev
mount -t tmpfs tmp /host/tmp; mount -t tmpfs run /host/run
cp /script /host/tmp/script
echo; echo GUEST-START
chroot /host /bin/bash /tmp/script 2>&1
echo GUEST-DONE
poweroff -f
"""


@contextmanager
def _files(folder: Path) -> Iterator[Path]:
    """A server of this machine's files; the guest mounts them read-only."""
    path = folder / "files.sock"
    argv = [
        str(VIRTIOFSD),
        f"--socket-path={path}",
        "-o",
        "source=/",
        "-o",
        "cache=always",
        "-o",
        "sandbox=chroot",
    ]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 60
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield path
        finally:
            server.kill()


@contextmanager
def _emulator(
    kernel: Path, image: Path, share: Path, machine: Machine, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    size = 1536
    smp = f"1,sockets={machine.packages},cores={machine.cores},threads={machine.threads},maxcpus={len(machine.order)}"
    argv = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot", "-machine", "q35"]
    argv += ["-accel", "tcg,thread=multi", "-cpu", MODEL, "-smp", smp, "-m", f"{size * machine.packages}M"]
    for node in range(machine.packages):
        argv += ["-object", f"memory-backend-memfd,id=m{node},size={size}M,share=on"]
        argv += [
            "-numa",
            f"node,nodeid={node},memdev=m{node}",
            "-numa",
            f"cpu,node-id={node},socket-id={node}",
        ]
    argv += [
        "-chardev",
        f"socket,id=files,path={share}",
        "-device",
        "vhost-user-fs-pci,chardev=files,tag=host",
    ]
    argv += [
        "-serial",
        f"file:{folder / 'console'}",
        "-qmp",
        f"unix:{folder / 'qmp.sock'},server=on,wait=off",
    ]
    (vmlinuz,) = kernel.glob("boot/vmlinuz-*")
    argv += ["-kernel", str(vmlinuz), "-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1"]
    with (
        (folder / "qemu.log").open("wb") as log,
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            with _connect(folder / "qmp.sock") as control:
                yield process, control
        finally:
            process.kill()


def _connect(path: Path) -> socket.socket:
    control = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + 60
    while True:
        try:
            control.connect(str(path))
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with control.makefile() as greeting:
        greeting.readline()
    _ask(control, "qmp_capabilities")
    return control


def _ask(control: socket.socket, command: str, **arguments: object) -> None:
    control.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
    buffer = b""
    while True:
        buffer += control.recv(65536)
        for line in buffer.splitlines():
            answer = json.loads(line) if line.endswith(b"}") else {}
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
            if "return" in answer:
                return


def _plug(control: socket.socket, machine: Machine) -> None:
    for package, core, thread in machine.order[1:]:
        name = {"driver": f"{MODEL.partition(',')[0]}-x86_64-cpu", "id": f"cpu-{package}-{core}-{thread}"}
        place = {"socket-id": package, "die-id": 0, "core-id": core, "thread-id": thread}
        _ask(control, "device_add", **name, **place)
        time.sleep(0.15)  # the guest numbers them as they come


def _wait(console: Path, word: str, process: subprocess.Popen[bytes], deadline: float) -> None:
    while word not in (console.read_text(errors="replace") if console.exists() else ""):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = console.read_text(errors="replace")[-2000:] if console.exists() else "no console"
            raise RuntimeError(f"the guest never said {word}: {tail}")
        time.sleep(0.2)
