"""Reads the stderr of clients: what to do about a refusal, and whether a job is only unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping


def advice_for(refusals: Mapping[str, str], stderr: str) -> str | None:
    """The advice for these words, None if they are new; keys are regular expressions, the first counts."""
    return next(
        (advice for words, advice in refusals.items() if re.search(words, stderr, re.IGNORECASE)), None
    )


def words(stderr: str) -> str:
    """What a client said, without what its Perl libraries said before the last of it.

    Slurm's wrappers of the PBS clients print every step of a failed search for a Slurm.
    """
    said = stderr.strip()
    found = re.findall(r"^perl: (?:error|fatal): (.*)", said, re.MULTILINE)
    return found[-1] if found else said


def says_only(words: str, stderr: str) -> bool:
    """True if there is a message and every line of it matches a regular expression."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return bool(lines) and all(re.search(words, line) for line in lines)
