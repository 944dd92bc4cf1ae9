"""Which files are code: by name and size, so that data, outputs and secrets are never read."""

from __future__ import annotations

import re

RECORD = "code/record.json"
"""The record of a job's code, in its directory."""
SNAPSHOT = "code/snapshot"
"""Lines: its snapshot's directory in the store; relative to that, the working directory, and what is imported from there."""
SNAPSHOT_LIST = "code/snapshot.sha256"
"""The list of the snapshot's files: a link to the store's own."""
WORK = "work"
"""In the directory of a run: its copy of the snapshot (templates/lib/snapshot.sh)."""
LARGEST = 1 << 20
"""Bytes of the largest file that is read: programs and settings are smaller, data are not."""
_ENDINGS = (
    "py pyx pxd pyi ipynb sh bash zsh csh yaml yml toml json jsonnet cfg ini conf gin txt in lock c cc cpp cxx cu cuh h hh "
    "hpp hip cl f f90 f95 jl lua r m pl rb go rs scala java kt js ts prototxt proto pbtxt cmake mk j2 jinja tmpl sql def patch"
)
"""Endings of files that count as code where git does not track them."""
_SUFFIXES = frozenset(_ENDINGS.split())
_NAMES = frozenset({"Makefile", "makefile", "Dockerfile", "Snakefile", "CMakeLists.txt"})
_OUTPUTS = (
    "__pycache__ node_modules site-packages dist-packages wandb mlruns lightning_logs venv env build dist"
)
"""Directories that hold outputs, caches or installed packages."""
_NOT_CODE = frozenset(_OUTPUTS.split())
_SECRET = re.compile(
    r"\.env(\..*)?|.*\.(pem|key|p12|pfx|jks|kdbx|keytab|secret|token)|id_(rsa|dsa|ecdsa|ed25519).*|\.(netrc|pypirc|npmrc)"
    r"|\.git-credentials|(credentials?|secrets?)(\.(ya?ml|json|toml|ini|txt))?|.*_token"
)
"""Names of files that usually hold keys, passwords or tokens."""


def is_secret(name: str) -> bool:
    """Whether a file of this name (without its path) usually holds a secret; `.env.example` does not."""
    lower = name.lower()
    if lower.endswith((".example", ".sample", ".template", ".pub")):
        return False
    return _SECRET.fullmatch(lower) is not None


def is_code(name: str) -> bool:
    """Whether a file of this name (without its path) is a program or its settings."""
    _, dot, ending = name.rpartition(".")
    return name in _NAMES or (bool(dot) and ending.lower() in _SUFFIXES)


def is_searched(name: str) -> bool:
    """Whether a directory of this name is searched for code."""
    return (
        not name.startswith(".") and name not in _NOT_CODE and not name.endswith((".egg-info", ".dist-info"))
    )


def is_listed(path: str) -> bool:
    """Whether a list of digests can have this path: its format has one line for each file (sha256sum(1))."""
    return not any(c in path for c in "\n\r\0")
