"""Values that a template or a guide left to be filled in: `YOUR_ACCOUNT`, `<partition>`, `/path/to/data`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dlrun.model.keys import paths
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.command.command_line import RESERVED
from dlrun.plan.decisions import Ledger

_NAME = lazy_pattern(
    r"<[^<>]*>|\[[^\]]*\]|\{\w*\}|(?:your|my)[-_ ](?:account|project|allocation|partition|queue|qos|group|reservation|job)"
    r"(?:[-_ ]?(?:name|id|here))?|your[-_ ]\w+|(?:change|replace|fill|insert|edit)[-_ ]?(?:me|this|in|here)|todo|tbd|fixme|"
    r"placeholder|xxx+|\.{3}|…|(?:account|project|partition|queue)[-_]?name",
    re.IGNORECASE,
)
_PATH = lazy_pattern(r"(?:^|/)(?:path/to|<[^<>/]*>)(?:/|$)|^<[^<>]*>$", re.IGNORECASE)
NAMED = ("account", "partition", "qos", "reservation")
"""Keys of `resources` that are names."""


def is_name(text: str) -> bool:
    """True if a name stands for one to be filled in."""
    return _NAME.fullmatch(text.strip()) is not None


def is_path(text: str) -> bool:
    """True if a path stands for one to be filled in."""
    return _PATH.search(text) is not None


def check(spec: Spec, ledger: Ledger) -> None:
    """Add a problem for each name or path that stands for one to be filled in."""
    for name in spec.data:
        if name in ("source", "path", "strategy", "src"):
            ledger.problem(
                "DLR125", f"`{name}` is the name of a data set here", f"data.{name}", "data", warning=True,
                help="a data set has a name of its own: `data: {NAME: {source: …}}`",
            )  # fmt: skip
    for key, text, what in _values(spec):
        if key.startswith("command.") and text.strip("<>") in RESERVED:
            ledger.problem(
                "DLR125", f"`{text}` is a placeholder", key, help=f"write `{{{{ {text.strip('<>')} }}}}`"
            )
            continue
        ledger.problem(
            "DLR125", f"`{text}` is a placeholder, not {what}", key, "resources",
            help=_WAY_OUT.get(key, "write the one that you mean, or leave the key out"),
        )  # fmt: skip


_WAY_OUT = {
    "resources.account": "write the account that pays: `sacctmgr show assoc user=$USER` (Slurm) or your centre's portal lists "
    "yours; leave the key out for your default account",
    "resources.partition": "write a partition of this cluster: `sinfo` (Slurm) or `qstat -q` (PBS) lists them",
}


def _values(spec: Spec) -> Iterator[tuple[str, str, str]]:
    for name in NAMED:
        value = getattr(spec.resources, name)
        if value is not None and is_name(value):
            yield (
                f"resources.{name}",
                value,
                "the name of a QOS" if name == "qos" else f"the name of a {name}".replace("a a", "an a"),
            )
    for key, path in paths(spec):
        if is_path(path):
            yield key, path, "a path"
    for index, word in enumerate(spec.command if spec.run is None else ()):
        if is_path(word):
            yield f"command.{index}", word, "a path"
