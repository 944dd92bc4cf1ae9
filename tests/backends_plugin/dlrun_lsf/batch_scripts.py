"""`#BSUB` lines of batch scripts: by the table of options, and arrays, which it cannot have.

Source: https://www.ibm.com/docs/SSWRJV_10.1.0/lsf_admin/job_array_create.html.
"""

from __future__ import annotations

import re

from dlrun.schedulers.draft import SpecDraft
from dlrun.schedulers.table_reader import TableReader
from dlrun_lsf import lsf

_TABLE = TableReader(lsf)
LINE = _TABLE.LINE
SUBMIT_DIRECTORY = "LS_SUBCWD"
_ARRAY = re.compile(r'(?<!\S)-J\s*"?([\w.-]+)\[(\d+)-(\d+)(?::([1-9]\d*))?\](?:%(\d+))?"?')


def directive(line: int, text: str, draft: SpecDraft) -> None:
    """One line without its prefix; `-J "train[1-8]%2"` is an array of which two tasks run at the same time."""
    if array := _ARRAY.search(text):
        draft.tasks = tuple(range(int(array[2]), int(array[3]) + 1, int(array[4] or 1)))
        draft.at_once = int(array[5]) if array[5] else None
        draft.index_names = ("LSB_JOBINDEX",)
        text = _ARRAY.sub(r"-J \1", text)
    _TABLE.directive(line, text, draft)
