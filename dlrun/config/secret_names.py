"""Which names and keys usually hold a secret, and a text without what is given to such a name in it."""

from __future__ import annotations

import re

_WORDS = {
    "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "APIKEY", "PAT",
}  # fmt: skip
_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY")
_REFERENCES = {"FILE", "PATH", "DIR", "DIRECTORY", "PER", "LENGTH", "LEN", "SIZE", "COUNT", "MAX", "NUM", "N"}
"""A name with one of these words names a place or a number, not the secret itself."""

_LIBRARIES = re.compile(
    r"(NCCL|RCCL|UCX|UCC|FI|OMPI|PMIX|PRTE|I_MPI|MPICH|MV2|PSM2?|PSM3|CCL|MLSL|KMP|OMP|GOMP|GLOO|SLURM|PBS)_"
)
"""Libraries whose variables are settings: MPI "keys" and similar names are not secrets."""


def looks_secret(name: str) -> bool:
    """Whether a variable of this name usually holds a secret: HF_TOKEN, WANDB_API_KEY, pgPassword."""
    if _LIBRARIES.match(name):
        return False
    words = set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper().replace("-", "_").split("_"))
    if words & _REFERENCES:
        return False
    return bool(words & _WORDS) or any(word.endswith(_ENDINGS) for word in words)


_NAME = re.compile(r"(?<![A-Za-z0-9_-])([A-Za-z_][A-Za-z0-9_-]{0,127})[\"']?[ \t]{0,9}[:=][ \t]*(?=\S)")


def masked(line: str) -> str:
    """A line with everything hidden that follows `NAME=` or `NAME:`, if the name looks like a secret's."""
    for match in _NAME.finditer(line):
        if looks_secret(match[1]):
            return line[: match.end()] + stars(line[match.end() :])
    return line


def stars(text: str) -> str:
    """As long a text, of which nothing can be read."""
    return re.sub(r"\S", "*", text)


def is_setting(name: str) -> bool:
    """Whether a variable of this name is a library's setting, which may be shown."""
    return _LIBRARIES.match(name) is not None


KeyParts = tuple[str | int, ...]
"""A path of keys, and of numbers in lists."""


def hides(path: KeyParts) -> bool:
    """Whether the value at this path must never be shown: it is under `secrets`, or its name is that of a secret."""
    if path[:1] in {("data",), ("sweep",)}:  # data sets of tokens, and the like
        return False
    return any(part == "secrets" or looks_secret(part) for part in path if isinstance(part, str))


def conceals(path: KeyParts) -> bool:
    """Whether a fault at this path must not show the value: `hides`, or any other variable, whatever its name.

    A library's settings may be shown, by which one sees what is wrong with them.
    """
    if hides(path):
        return True
    for i in range(1, len(path)):
        if path[i - 1 : i + 1] == ("environment", "variables"):
            name = path[i + 1] if len(path) > i + 1 else None
            return not (isinstance(name, str) and is_setting(name))
    return False
