"""Detection of names that usually hold secrets, and masking of their values in text."""

from __future__ import annotations

import re

from dlrun.model.text import lazy_pattern

_WORDS = {
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "APIKEY", "PAT",
}  # fmt: skip
_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY")
_REFERENCES = {"FILE", "PATH", "DIR", "DIRECTORY", "PER", "LENGTH", "LEN", "SIZE", "COUNT", "MAX", "NUM", "N"}
"""Words in names of files and numbers, which are not secrets (`TOKEN_FILE`, `MAX_TOKENS`)."""

_LIBRARIES = lazy_pattern(
    r"(NCCL|RCCL|UCX|UCC|FI|OMPI|PMIX|PRTE|I_MPI|MPICH|MV2|PSM2?|PSM3|CCL|MLSL|KMP|OMP|GOMP|GLOO|SLURM|PBS)_"
)
"""Prefixes of variables that are settings of libraries: their "keys" are not secrets."""


def looks_secret(name: str) -> bool:
    """True if a variable of this name usually holds a secret: HF_TOKEN, WANDB_API_KEY, pgPassword."""
    if _LIBRARIES.match(name):
        return False
    words = set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper().replace("-", "_").split("_"))
    if words & _REFERENCES:
        return False
    return bool(words & _WORDS) or any(word.endswith(_ENDINGS) for word in words)


_NAME = lazy_pattern(r"(?<![A-Za-z0-9_-])([A-Za-z_][A-Za-z0-9_-]{0,127})[\"']?[ \t]{0,9}[:=][ \t]*(?=\S)")


def masked(line: str) -> str:
    """A line with everything masked after `NAME=` or `NAME:` for a name that looks like a secret."""
    for match in _NAME.finditer(line):
        if looks_secret(match[1]):
            return line[: match.end()] + stars(line[match.end() :])
    return line


def stars(text: str) -> str:
    """The text with every character but white space replaced by `*`."""
    return re.sub(r"\S", "*", text)


def is_setting(name: str) -> bool:
    """True if a variable of this name is a library's setting, whose value may be shown."""
    return _LIBRARIES.match(name) is not None


KeyParts = tuple[str | int, ...]
"""A path of keys and list indexes."""


def is_secret(path: KeyParts) -> bool:
    """True if the value at this path must never be shown: it is under `secrets`, or has the name of a secret."""
    if path[:1] in {("data",), ("sweep",)}:
        # Text corpora are often called `tokens`.
        return False
    return any(part == "secrets" or looks_secret(part) for part in path if isinstance(part, str))


def is_confidential(path: KeyParts) -> bool:
    """True if messages must not show the value at this path: a secret (`is_secret`) or any environment variable.

    Settings of libraries may be shown, because users need to see the faulty value.
    """
    if is_secret(path):
        return True
    for i in range(1, len(path)):
        if path[i - 1 : i + 1] == ("environment", "variables"):
            name = path[i + 1] if len(path) > i + 1 else None
            return not (isinstance(name, str) and is_setting(name))
    return False
