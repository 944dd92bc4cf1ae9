"""The packages of the job's Python environment, as far as visible on the submitting host."""

from __future__ import annotations

import os
from pathlib import Path

from dlrun.model.observed import Installed
from dlrun.model.spec import Spec
from dlrun.system.paths import expanded


def read_installed(spec: Spec, directory: Path) -> Installed:
    """Packages of the spec's `venv` or `conda` path, and lock files of torch extensions, for which DeepSpeed waits."""
    base = expanded(spec.directory) if spec.directory else directory
    prefix = spec.environment.venv
    if prefix is None and "/" in (spec.environment.conda or ""):
        prefix = spec.environment.conda
    packages = None if prefix is None else _packages(base / expanded(prefix))
    return Installed(packages=packages, locks=_locks(spec))


def _packages(prefix: Path) -> dict[str, str] | None:
    """Name -> version, from the metadata directories of installers (PyPA, "Recording installed projects"); None without any."""
    versions = {}
    for pattern in ("*.dist-info", "*.egg-info"):
        for path in _matching(prefix, f"lib/python3*/site-packages/{pattern}"):
            name, _, version = path.stem.partition("-")
            versions[name.lower().replace("_", "-")] = version.partition("-")[0]
    return versions or None


def _matching(root: Path, pattern: str) -> list[Path]:
    """Matching paths below a directory, sorted; empty if it cannot be read."""
    try:
        return sorted(root.glob(pattern))
    except (OSError, ValueError):
        return []


def _locks(spec: Spec) -> tuple[str, ...]:
    """Lock files in torch's cache of compiled extensions (torch.utils.cpp_extension, TORCH_EXTENSIONS_DIR)."""
    named = spec.environment.variables.get("TORCH_EXTENSIONS_DIR") or os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = expanded(named or f"{cache}/torch_extensions")
    patterns = ("*/lock",) if named else ("*/*/lock",)
    return tuple(str(path) for pattern in patterns for path in _matching(root, pattern))
