"""What may be a spec in Python: a path, a mapping, a dataclass, or the words of a command; settings as keyword arguments."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlrun.config.block_text import block
from dlrun.errors import Invalid
from dlrun.jobs.running.command import command_inputs
from dlrun.jobs.submission.prepare import spec_inputs
from dlrun.system.inputs.spec import Inputs, load_spec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_FILE = "mapping.yaml"
"""Name of a spec without a file in messages; relative paths start in the working directory."""


def read(
    spec: str | Path | Mapping[str, Any] | Sequence[str] | DataclassInstance,
    site: str | Path | None,
    sets: Sequence[str],
) -> Inputs:
    """The inputs of a spec; sets: as of `--set`. Raises InvalidFile, or Invalid for another kind of value."""
    name = None if site is None else str(site)
    if isinstance(spec, str | Path):
        return spec_inputs(Path(spec), sets=sets, site=name)
    if isinstance(spec, Mapping):
        return _of_mapping(spec, sets, name)
    if dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        return _of_mapping(
            {key: value for key, value in dataclasses.asdict(spec).items() if value is not None}, sets, name
        )
    if isinstance(spec, Sequence) and spec and all(isinstance(word, str) for word in spec):
        return command_inputs(spec, sets=sets, site=name)
    raise Invalid(
        f"a spec is a path, a mapping, a dataclass or a list of words, not {type(spec).__name__}",
        help='for example `{"name": "x", "command": ["python", "train.py"]}`',
    )


def _of_mapping(spec: Mapping[str, Any], sets: Sequence[str], site: str | None) -> Inputs:
    # Through the text, so that names, types and values are checked as in a file.
    return load_spec(Path(_FILE), sets=sets, site=site, text="\n".join(block(_plain(spec), {})) + "\n")


def _plain(value: Any) -> Any:
    """The value with lists, dictionaries and texts in place of tuples, mappings and paths."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def arguments(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Keyword arguments as those of `--set`: `resources__nodes=2` is `resources.nodes=2`."""
    return tuple(f"{key.replace('__', '.')}={_text(_plain(value))}" for key, value in settings.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
