"""Detect names that look like secrets, and hide their values in messages and source lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode, short
from dlrun.model.problem import Problem

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
"""Libraries whose variables are settings: MPI "keys" and the like are no secrets."""

HIDDEN = "*"


def looks_secret(name: str) -> bool:
    """Whether a variable of this name usually holds a secret: HF_TOKEN, WANDB_API_KEY, pgPassword."""
    if _LIBRARIES.match(name):
        return False
    words = set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper().replace("-", "_").split("_"))
    if words & _REFERENCES:
        return False
    return bool(words & _WORDS) or any(word.endswith(_ENDINGS) for word in words)


def hides(path: tuple[str | int, ...]) -> bool:
    """Whether the value at this path must never be shown: it is under `secrets`, or its name says so."""
    if path[:1] in {("data",), ("sweep",)}:  # data sets of tokens, and the like
        return False
    return any(part == "secrets" or looks_secret(part) for part in path if isinstance(part, str))


def plain_secrets(root: Node, *, site: bool = False) -> Iterator[Problem]:
    """A problem for each plain value under a name that looks secret in `environment.variables`.

    `site`: the tree is a site profile's, which has no `secrets` of its own.
    """
    variables = root.get("environment", "variables") if isinstance(root, MapNode) else None
    for name, entry in variables.entries.items() if isinstance(variables, MapNode) else ():
        if not looks_secret(name) or not isinstance(entry.value, ScalarNode) or _harmless(entry.value.text):
            continue
        yield Problem(
            code="DLR001",
            message=f"`{short(name)}` looks like a secret, and a plain value would be written to disk with the job",
            origin=entry.key.origin,
            width=entry.key.width,
            help=("leave it out here; in a spec, name" if site else "name")
            + f" where it comes from instead: `secrets: {{{name}: {{env: {name}}}}}` (or `file:`, `command:`)",
        )


def faulty_secrets(root: Node) -> Iterator[Problem]:
    """A problem for each entry of `secrets` that does not name exactly one source."""
    secrets = root.get("secrets") if isinstance(root, MapNode) else None
    for name, entry in secrets.entries.items() if isinstance(secrets, MapNode) else ():
        if not isinstance(entry.value, MapNode):
            continue  # the decoder says that it wants a mapping
        given = [k for k in ("env", "file", "command") if not _absent(entry.value.get(k))]
        if len(given) != 1:
            said = f"names {' and '.join(given)}" if given else "does not say where its value comes from"
            yield Problem(
                code="DLR002",
                message=f"secret `{short(name)}` {said}",
                origin=entry.key.origin,
                width=entry.key.width,
                help=f"give exactly one of `env`, `file` and `command`, such as `{name}: {{env: {name}}}`",
            )


def _absent(node: Node | None) -> bool:
    return node is None or (isinstance(node, ScalarNode) and node.is_null)


def _harmless(value: str) -> bool:
    return value.strip() in {"", "true", "false", "0", "1"}


def hide(sources: Mapping[str, str], trees: Mapping[str, Node]) -> dict[str, str]:
    """Sources to show, with secret values hidden: by their tree, or by the look of the text if there is no tree."""
    return {
        name: _mask_places(text, _spans(trees[name])) if name in trees else mask(text)
        for name, text in sources.items()
    }


def _spans(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[int, int]]:
    if isinstance(node, ScalarNode):
        if hides(path):
            yield node.span
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _spans(item, path)
    else:
        for name, entry in node.entries.items():
            yield from _spans(entry.value, (*path, name))


def _mask_places(text: str, places: Iterable[tuple[int, int]]) -> str:
    pieces, end = [], 0
    for first, last in sorted(set(places)):  # an alias has the place of its anchor, so places can repeat
        pieces += [text[end:first], _stars(text[first:last])]
        end = last
    return "".join([*pieces, text[end:]])


_NAME = re.compile(r"(?<![A-Za-z0-9_-])([A-Za-z_][A-Za-z0-9_-]{0,127})[\"']?[ \t]{0,9}[:=][ \t]*(?=\S)")


def mask(text: str) -> str:
    """A source with everything hidden that looks like a secret value, for files that cannot be parsed."""
    return "".join(_mask_line(line) for line in text.splitlines(keepends=True))


def _mask_line(line: str) -> str:
    for match in _NAME.finditer(line):
        if looks_secret(match[1]):
            return line[: match.end()] + _stars(line[match.end() :])
    return line


def _stars(text: str) -> str:
    return re.sub(r"\S", HIDDEN, text)
