"""Ids of Flux jobs and of sweeps: Flux has no arrays, so a sweep's id is the comma-separated list of its points' job ids.

An id is a 64-bit number. Flux prints it in base 58 after `ƒ` (`f` in locales without that letter) and accepts every form
(flux_jobid_encode(3)). Records and directives use the form with `f`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dlrun.model.text import digits

_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
"""Bitcoin's base 58, which Flux uses."""
ONE = rf"(?:[fƒ][{_DIGITS}]{{1,12}}|[0-9]{{1,20}})"
"""Regular expression of one job's id; 11 digits of base 58 cover 64 bits."""
ID = rf"{ONE}(?:,{ONE})*"
"""Regular expression of an id in a record: of a job, or of a sweep (its points in order)."""


def plain(text: str) -> str | None:
    """A printed id in the form of records; None if the text is not an id."""
    match = re.fullmatch(ONE, text.strip())
    return match[0].replace("ƒ", "f") if match else None


def each(job_ids: Iterable[str]) -> Sequence[str]:
    """The job ids in a mixture of job and sweep ids."""
    return [part for job_id in job_ids for part in job_id.split(",")]


_OTHERS = re.compile(r"0x([0-9a-f]{1,16})|(?:job\.)?((?:[0-9a-f]{4}\.){3}[0-9a-f]{4})")
"""The forms `hex`, and `dothex` and `kvs`, of `flux job id --to=…`."""


def recorded(word: str) -> str | None:
    """An id in any form that Flux writes, but for words, in the form of records; None for other texts."""
    if other := _OTHERS.fullmatch(word):
        return _in_base_58(int((other[1] or other[2]).replace(".", ""), 16))
    job_id = plain(word)
    return _in_base_58(int(job_id)) if job_id and digits(job_id) else job_id


def _in_base_58(number: int) -> str:
    text = ""
    while number or not text:
        number, rest = divmod(number, 58)
        text = _DIGITS[rest] + text
    return f"f{text}"
