"""Output of a drafted site profile: on stdout, as JSON, or in new files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dlrun.errors import OperationFailed
from dlrun.terminal.printing import echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.site.profile.yaml_text import ProfileDraft


def write_draft(
    draft: ProfileDraft, head: list[str], output: str | None, *, force: bool, as_json: bool
) -> None:
    """Print the profile, or write it and its captured topologies to new files."""
    from dlrun.site.profile.yaml_text import profile_yaml
    from dlrun.system.writing import write_output

    written = profile_yaml(draft, head)
    files = {} if output is None else {output: written, **_beside(draft, Path(output))}
    for name, content in files.items():
        write_output(Path(name), content, force=force, error=OperationFailed)
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
