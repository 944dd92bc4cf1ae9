"""The imported spec as YAML text, with a list of the lines that were not converted."""

from __future__ import annotations

from dlrun.config.batch_script.draft import SpecDraft
from dlrun.config.block_text import block


def spec_text(draft: SpecDraft, file: str | None, site: str | None = None) -> str:
    """The YAML text of a draft; lines of `file` that were not converted are listed at the end (`file` None: no list)."""
    values = dict(draft.values)
    if site:
        values = {"name": values.pop("name"), "site": site, **values}
    lines = [
        f"# {f'From {file}. ' if file else ''}`dlrun plan` shows the resulting plan, `dlrun explain KEY` why.",
        *block(values, draft.comments),
    ]
    if draft.left_out and file:
        lines += ["", f"# Not converted from {file}:"]
        for left in draft.left_out:
            first, *more = left.text.splitlines() or ["''"]  # an empty word
            lines.append(f"#   line {left.line}: {first}{' …' if more else ''} -- {left.because}")
    return "\n".join(lines) + "\n"
