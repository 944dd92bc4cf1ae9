"""What clients print: the id of a job, help for a rejection, and the recognition of unknown jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.errors import OperationFailed


def printed_id(client: str, pattern: str, stdout: str, queue: str) -> str:
    """The job id in a client's output, the first group of a line like `pattern`; raises OperationFailed without one.

    Wrappers and submit hooks of sites print their text before it. `queue` is the command that lists the user's jobs.
    """
    for line in reversed(stdout.splitlines()):
        if match := re.fullmatch(pattern, line.strip()):
            return match[1]
    raise OperationFailed(f"{client} printed no job id", help=f"`{queue}` shows whether the job is there")


def advice_for(refusals: Mapping[str, str], stderr: str) -> str | None:
    """The help for a message, None if it is unknown; keys of `refusals` are regular expressions, the first match counts."""
    return next(
        (advice for words, advice in refusals.items() if re.search(words, stderr, re.IGNORECASE)), None
    )


def client_message(stderr: str) -> str:
    """The message of a client, without earlier messages of its Perl libraries.

    Slurm's wrappers of the PBS clients print one line per step of a failed search for a controller.
    """
    text = stderr.strip()
    messages = re.findall(r"^perl: (?:error|fatal): (.*)", text, re.MULTILINE)
    return messages[-1] if messages else text


def every_line_matches(words: str, stderr: str) -> bool:
    """True if there is a message and each of its lines matches the regular expression `words`."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return bool(lines) and all(re.search(words, line) for line in lines)
