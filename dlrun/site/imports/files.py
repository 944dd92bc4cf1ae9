"""Recognise the kind of files given to `dlrun site import`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.model.origin import Layer
from dlrun.site.imports.dumps import import_dumps, is_dump
from dlrun.site.imports.nextflow import import_nextflow, is_nextflow
from dlrun.site.imports.reframe import import_reframe
from dlrun.site.profile.yaml_text import ProfileDraft
from dlrun.system.inputs.text import read_text


def import_files(paths: Sequence[Path], system: str | None) -> tuple[ProfileDraft, str]:
    """(draft of a profile, description of its source); raises Invalid for unknown files."""
    try:
        return _import(paths, system)
    except (TypeError, AttributeError, KeyError, ValueError, IndexError, RecursionError) as error:
        # These files are made by other programs and by hand: a value may have any type.
        raise Invalid(
            f"`{paths[0]}` has a value that such a file does not have: {error}",
            help="correct it, or write the profile by `dlrun site new`",
        ) from None


def _import(paths: Sequence[Path], system: str | None) -> tuple[ProfileDraft, str]:
    texts = {path.name: read_text(path, Layer.SITE) for path in paths}
    if all(is_dump(text) for text in texts.values()):
        return import_dumps(texts, system), "what the scheduler printed"
    if len(paths) > 1:
        other = next(name for name, text in texts.items() if not is_dump(text))
        raise Invalid(
            f"`{other}` is not the output of `scontrol show`, `pbsnodes -F json`, `qstat -F json` or `qmgr`",
            help="only such outputs are read together; give a configuration alone",
        )
    (name,) = texts
    if is_nextflow(texts[name]):
        return import_nextflow(texts[name], system or paths[0].stem, name), "a Nextflow configuration"
    return import_reframe(paths[0], system), "a ReFrame configuration"
