"""What the kernel writes into the log of a node, or a job that prints it: memory, GPUs, processors, adapters, file systems."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_LINUX = "https://github.com/torvalds/linux/blob/master/"
_BROKEN = "exclude the node (`resources.exclude`), submit again, and report it to the centre"

# ruff: noqa: E501 - a table
ADAPTERS = Writer(
    name="the kernel about adapters",
    source=_LINUX + "drivers/infiniband/",
    line=r"(?:^|[\]:\s])(?:mlx[45]_(?:core|ib) [0-9a-f]{4}:|infiniband \w+: |hfi1 [0-9a-f]{4}:|cxi_\w+ [0-9a-f]{4}:|ib\d+: |ibp\w+: |efa [0-9a-f]{4}:|bnxt_(?:en|re) [0-9a-f]{4}:|irdma\w*: )(?!.*(?:[Hh]ealth|compromised))",
    forms=(
        Form(
            cause="fabric",
            texts=(
                "Failed to process command {1}",
                "Failed to allocate {1}",
                "Lost connection to the subnet manager",
                "Internal error detected",
                "wait_func:{}timeout",
                "cmd_work_handler:{}failed",
                "mlx5_cmd_{}failed, {1}",
                "transmit queue {} timed out",
                "multicast join failed for {1}",
                "PCI error detected",
                "device is in internal error state",
            ),
            regex=r"(?i)\blink(?: is)? (?:went )?(down)\b|\bport \d+ (?:is )?(down|error)\b",
            means="an adapter of the node's network failed, or its link went down",
            check="`ibstat` (or `cxi_stat`, `ip -brief link`) and the kernel log of that node",
            next=_BROKEN,
            passing=True,
        ),
    ),
)

KERNEL = Writer(
    name="the kernel",
    source="https://github.com/torvalds/linux",
    forms=(
        Form(
            cause="memory",
            texts=("systemd-oomd killed", "Out of memory: Kill process", "Memory cgroup stats for"),
            source=_LINUX + "mm/oom_kill.c",
        ),
        Form(
            cause="memory",
            texts=(
                "Out of memory: Killed process",
                "Memory cgroup out of memory: Killed process",
                "oom-kill:constraint=",
                "invoked oom-killer",
                "oom_reaper: reaped process",
            ),
            source=_LINUX + "mm/oom_kill.c",
        ),
        Form(
            cause="memory",
            texts=("page allocation failure: order:{}",),
            source=_LINUX + "mm/page_alloc.c",
            means="the kernel of the node could not allocate contiguous memory, and usually continues",
            passing=True,
        ),
        # The excluded Xids are those of program errors (NVIDIA/k8s-device-plugin, internal/rm/health.go).
        Form(
            cause="gpu-broken",
            texts=(
                "Xid ({}): 79, {1}",
                "GPU has fallen off the bus",
                "NVRM: RmInitAdapter failed",
                "*ERROR* ring {1} timeout",
            ),
            regex=r"(uncorrectable (?:NVLink|ECC) error|NVRM: Xid \(\S+\): (?!(?:13|31|43|45|68|109)\b)\d+|CUDA_ERROR_ECC_UNCORRECTABLE|fallen off the bus|NVRM: .*(?:GSP Timeout|kgsp\w*(?:TimedOut|RpcTimeout)|GPU lost from the bus)|nvidia-nvswitch\d*: SXid (?!.*[Nn]on-[Ff]atal)|HSA_STATUS_ERROR_HARDWARE\w*|amdgpu: GPU reset|amdgpu .*ring \w+ timeout|amdgpu\b.*\*ERROR\* MES failed|amdgpu\b.*\b[Uu]ncorrectable hardware error|[Uu]ncorrectable hardware error)",
            source="https://docs.nvidia.com/deploy/xid-errors/",
        ),
        Form(
            cause="node",
            texts=(
                "Machine Check Exception: {1}",
                "Fatal machine check{1}",
                "MCE: Killing {} due to hardware memory corruption",
                "Memory failure: {}: {1}",
                "due to hardware memory corruption fault",
            ),
            # Most such lines are about what the hardware has corrected, or continues after.
            regex=r"\bEDAC MC\d+: \d+ (UE .*)|\[Hardware Error\]: (.*(?:\b(?:severity|type): (?:fatal|recoverable)|\b[Uu]ncorrected|(?<![Nn]on-)[Ff]atal\b|Machine check: [A-Z]).*)|\bAER: (?!.*[Nn]on-[Ff]atal)(.*\b(?:Uncorrect(?:ed|able)|Fatal)\b.*)",
            source=_LINUX + "arch/x86/kernel/cpu/mce/core.c",
            means="the node's hardware reported a fault of its memory, its processor or its bus",
            check="the node's kernel log (`dmesg -T | grep -iE 'mce|edac|aer'`)",
            next=_BROKEN,
            passing=True,
        ),
        Form(
            cause="node",
            texts=(
                "BUG: soft lockup - CPU#{}",
                "Watchdog detected hard LOCKUP on cpu {1}",
                "rcu: INFO: {} detected stall{1}",
                "INFO: {} self-detected stall",
                "Kernel panic - not syncing: {1}",
                "BUG: unable to handle {1}",
                "BUG: kernel NULL pointer dereference{1}",
                "general protection fault, probably for non-canonical address",
                "kernel BUG at {1}!",
            ),
            regex=r"\b(Oops: [0-9a-f]{4} \[#\d+\].*)",
            source=_LINUX + "kernel/watchdog.c",
            means="the kernel of the node failed, or made no progress for many seconds",
            check="the node's kernel log (`dmesg -T`), and whether it was started again (`uptime`)",
            next=_BROKEN,
            passing=True,
        ),
        Form(
            cause="segmentation-fault",
            texts=("segfault at {} ip {} sp {} error {1}", "traps: {} general protection fault"),
            source=_LINUX + "arch/x86/mm/fault.c",
            consequence=True,
        ),
        Form(
            cause="illegal-instruction",
            texts=("trap invalid opcode ip",),
            source=_LINUX + "arch/x86/kernel/traps.c",
        ),
        Form(
            cause="file-system",
            texts=("INFO: task {1} blocked for more than {} seconds",),
            source=_LINUX + "kernel/hung_task.c",
            means="a process waited for minutes for a file system or a device that did not answer ({1})",
            check="the lines around it in the node's kernel log: which file system the call trace names",
            next="submit again; if it comes back on one node, exclude it (`resources.exclude`), else report the file system to the centre",
            passing=True,
        ),
        Form(
            cause="file-system",
            texts=(
                "LustreError: {} evicted",
                "This client was evicted by {1};",
                "LustreError: {}operation {} to node {1} failed",
                "Lustre: {}Connection to {1} was lost; in progress operations",
                "nfs: server {1} not responding",
                "nfs: server {1} not responding, timed out",
                "EXT4-fs error (device {1})",
                "EXT4-fs ({1}): Remounting filesystem read-only",
                "Aborting journal on device {1}",
                "XFS ({}): {1}Shutting down filesystem",
                "XFS ({}): Corruption {1}",
                "blk_update_request: I/O error, dev {1}",
                "I/O error, dev {1}, sector",
                "critical {} error, dev {1}, sector",
                "Buffer I/O error on dev {1}",
                "I/O {} QID {} timeout, {1}",
                "controller is down; will reset: {1}",
                "GPFS: 6027-{1}",
                "libceph: {1} socket closed",
                "ceph: {}mds{1} hung",
            ),
            regex=r"\b(?:CIFS: VFS|mmfsd): (?!.*[Rr]econnect)(\S.*)",
            source="https://wiki.lustre.org/Lustre_Troubleshooting",
            passing=True,
        ),
    ),
)
