"""Values of variables that their libraries do not read, and values that take away what others had put there."""

from __future__ import annotations

import re

from dlrun.fabrics.known_variables import known_settings
from dlrun.model.nearest import nearest
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.decisions import Ledger

_WORDS = {
    "NCCL_DEBUG": ("NCCL", ("VERSION", "WARN", "INFO", "TRACE", "ABORT")),
    "TORCH_DISTRIBUTED_DEBUG": ("PyTorch", ("OFF", "INFO", "DETAIL")),
    "WANDB_MODE": ("wandb", ("online", "offline", "disabled", "shared", "dryrun", "run")),
    "OMP_PROC_BIND": ("OpenMP", ("true", "false", "primary", "master", "close", "spread")),
    "FI_LOG_LEVEL": ("libfabric", ("warn", "trace", "info", "debug")),
}
"""Variable -> its library and the words that it takes, in any case: NCCL's env.html, docs.pytorch.org (distributed), wandb's
environment variables, OpenMP 6.0 section 4.1.4 (a list of these words), fi_direct(7)."""
_COMMON = {
    "DEBUG": {"NCCL_DEBUG": "INFO"},
    "VERBOSE": {"NCCL_DEBUG": "INFO", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
}
_SWITCH = lazy_pattern(r"NCCL_\w+_(?:DISABLE|ENABLE)")
"""Variables that NCCL reads as numbers (src/misc/param.cc: strtoll; other texts are ignored)."""
_COMMAS = (
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_HCA",
    "GLOO_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "UCX_TLS",
    "FI_PROVIDER",
)
"""Variables whose value is a list with commas."""
_TRUE, _FALSE = ("true", "yes", "on", "y"), ("false", "no", "off", "n")
_THREADS = lazy_pattern(r"[1-9][0-9]*(?:,[1-9][0-9]*)*")
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_LISTS = ("PATH", "LD_LIBRARY_PATH")
"""Variables in which modules and environments put their directories."""


def check(spec: Spec, ledger: Ledger) -> None:
    """Add a warning for each such value."""
    for name, value in spec.environment.variables.items():
        if "{{" in value or "$" in value:
            continue
        key = f"environment.variables.{name}"
        if (help_ := _unread(name, value)) is not None:
            ledger.problem("DLR134", f"`{name}` has no value `{value}`", key, help=help_, warning=True)
        elif name in _LISTS and spec.environment.container is None:
            ledger.problem(
                "DLR135", f"`{name}` is replaced: the directories of modules and environments are no longer in it", key,
                help=f'write `{name}: "{value}:{{{{ env.{name} }}}}"`', warning=True,
            )  # fmt: skip


def _unread(name: str, value: str) -> str | None:
    """The way out for a value that the library of the variable ignores or refuses; None for others."""
    if name in _WORDS:
        library, words = _WORDS[name]
        parts = value.split(",") if name == "OMP_PROC_BIND" else [value]
        if all(part.strip().lower() in map(str.lower, words) for part in parts):
            return None
        close = _COMMON.get(value.upper(), {}).get(name) or nearest(value, words)
        listed = ", ".join(f"`{word}`" for word in words[:5])
        return f"the nearest is `{close}`; {library} takes {listed}" if close else f"{library} takes {listed}"
    if _SWITCH.fullmatch(name) and value.lower() in (*_TRUE, *_FALSE):
        return f"write `{int(value.lower() in _TRUE)}`: NCCL reads a number here"
    if name in _COMMAS and len(value.split()) > 1:
        return f"write `{','.join(re.split(r'[ ,]+', value.strip()))}`, with commas"
    if name == "OMP_NUM_THREADS" and not _THREADS.fullmatch(value):
        return "remove it: dlrun sets one thread for each core; `placement: {threads: N}` changes that"
    if name in _ALLOCATOR:
        return _allocator(value)
    return None


def _allocator(value: str) -> str | None:
    """`expandable_segments=True`, and misspelt settings of PyTorch's allocator, on which it ends the program."""
    settings = known_settings("PYTORCH_ALLOC_CONF")
    for part in re.sub(r"\[[^\]]*\]", "", value).split(","):
        name, colon, _ = part.partition(":")
        if not colon and "=" in part:
            return f"write `{part.replace('=', ':', 1).strip()}`, with a colon"
        if name.strip() not in settings and (near := nearest(name, settings, cutoff=0.8)):
            return f"the nearest setting is `{near}`"
    return None
