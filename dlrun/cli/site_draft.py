"""Output of a drafted site profile: on stdout, as JSON, or in new files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dlrun.cli.printing import echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.effects.site.yaml_text import ProfileDraft


def write_draft(draft: ProfileDraft, head: list[str], output: str | None, *, as_json: bool) -> None:
    """Print the profile, or write it and its captured topologies to new files."""
    from dlrun.effects.site.yaml_text import profile_yaml

    written = profile_yaml(draft, head)
    files = {} if output is None else {output: written, **_beside(draft, Path(output))}
    for name, content in files.items():
        _write_new(Path(name), content)
    if as_json:
        data = {"text": written, "profile": draft.values, "not_detected": draft.unseen, "files": list(files)}
        emit("site", data)
    elif output is None:
        echo_data(written)
    for name in files:
        last = (
            f"`dlrun site check {name}` lists what is missing"
            if name == output
            else "hardware and software of a node"
        )
        notice(f"wrote {name}: {last}")
    for line in draft.unseen:
        notice(f"not detected: {line}")


def _beside(draft: ProfileDraft, output: Path) -> dict[str, str]:
    return {str(output.parent / name): content for name, content in draft.files.items()}


def _write_new(path: Path, content: str) -> None:
    from dlrun.errors import OperationFailed

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise OperationFailed(
            f"`{path}` already exists", help="choose another file with `--output`"
        ) from None
    except OSError as error:
        raise OperationFailed(f"cannot write `{path}`: {error.strerror}") from None
