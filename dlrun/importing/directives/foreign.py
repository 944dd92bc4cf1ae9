"""Directives of schedulers that dlrun has no back end for: read as far as their meaning is plain, and always to be checked."""

from __future__ import annotations

import re

from dlrun.schedulers.directive_words import words_of
from dlrun.schedulers.draft import SpecDraft

LINE = re.compile(
    r"#((?:BSUB|COBALT|PJM|OAR|MSUB|CCC|CCS|JSUB|DW|BB|QSUB|RSUB|LSF)\b|\s*@(?=\s*\w+\s*=))\s*(.*)"
)
"""LSF, Cobalt, Fujitsu TCS, OAR, Moab, Bridge, burst buffers, LoadLeveler."""
_NAMES = {
    "BSUB": "LSF", "COBALT": "Cobalt", "PJM": "Fujitsu's TCS", "OAR": "OAR", "MSUB": "Moab", "CCC": "Bridge", "DW": "DataWarp",
    "BB": "the burst buffer", "@": "LoadLeveler",
}  # fmt: skip
_LSF = {"-J": "name", "-q": "resources.partition", "-P": "resources.account", "-G": "resources.account"}


def directive(line: int, prefix: str, text: str, draft: SpecDraft) -> None:
    """One line of another scheduler; `prefix`: the word after the `#`."""
    name = prefix.strip()
    words = words_of(text)
    if name == "BSUB" and len(words) == 2:
        option, value = words
        if option in _LSF:
            draft.put(_LSF[option], value)
        elif option == "-W" and (match := re.fullmatch(r"(?:(\d+):)?(\d+)", value)):
            draft.put("resources.walltime", f"{int(match[1] or 0) * 60 + int(match[2])}m")
        elif option == "-nnodes":
            draft.count("nodes", value)
    draft.check(
        line,
        f"#{prefix} {text}".strip(),
        f"a directive of {_NAMES.get(name, name)}, for which dlrun has no back end",
    )
