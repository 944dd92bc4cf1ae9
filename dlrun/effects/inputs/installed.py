"""What the job's own Python environment holds, as far as the submitting host can look into it."""

from __future__ import annotations

import os
from pathlib import Path

from dlrun.effects.paths import expanded
from dlrun.model.observed import Installed
from dlrun.model.spec import Spec


def look(spec: Spec, directory: Path) -> Installed:
    """Packages of the spec's `venv` (or `conda` by path), and locks of compiled extensions (DeepSpeed waits for them)."""
    base = expanded(spec.directory) if spec.directory else directory
    prefix = spec.environment.venv
    if prefix is None and "/" in (spec.environment.conda or ""):
        prefix = spec.environment.conda
    packages = None if prefix is None else _packages(base / expanded(prefix))
    return Installed(packages=packages, locks=_locks(spec))


def _packages(prefix: Path) -> dict[str, str] | None:
    """Names and versions from the directories that installers leave (PyPA, "Recording installed projects")."""
    found = {}
    for pattern in ("*.dist-info", "*.egg-info"):
        for path in _matching(prefix, f"lib/python3*/site-packages/{pattern}"):
            name, _, version = path.stem.partition("-")
            found[name.lower().replace("_", "-")] = version.partition("-")[0]
    return found or None


def _matching(root: Path, pattern: str) -> list[Path]:
    """Paths below a directory; none where it cannot be looked into."""
    try:
        return sorted(root.glob(pattern))
    except (OSError, ValueError):
        return []


def _locks(spec: Spec) -> tuple[str, ...]:
    """Locks in torch's directory of compiled extensions (torch.utils.cpp_extension, TORCH_EXTENSIONS_DIR)."""
    named = spec.environment.variables.get("TORCH_EXTENSIONS_DIR") or os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = expanded(named or f"{cache}/torch_extensions")
    patterns = ("*/lock",) if named else ("*/*/lock",)
    return tuple(str(path) for pattern in patterns for path in _matching(root, pattern))
