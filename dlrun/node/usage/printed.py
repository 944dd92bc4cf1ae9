"""GPUs that a vendor's program prints, where neither its library nor the kernel's files can be read: once a minute, as it starts
slowly."""

import contextlib
import os
import subprocess
import time
from typing import Any, Callable, Dict, List, Sequence

PAUSE = 60.0
"""Seconds between two starts of such a program."""


class Printed:
    """The GPUs that a program lists; raises OSError if it is missing or fails.

    `parse` makes what is known of each GPU from its output, `of_card` of that what does not change, `row` the numbers of
    `gpus.COLUMNS`.
    """

    def __init__(
        self,
        command: Sequence[str],
        parse: Callable[[str], List[Any]],
        of_card: Callable[[Any], Dict[str, Any]],
        row: Callable[[Any], List[Any]],
    ) -> None:
        self._command, self._parse, self._of_card, self._row = command, parse, of_card, row
        self._asked = time.monotonic()
        self._cards = parse(output_of(command))

    def describe(self) -> List[Dict[str, Any]]:
        """Name, id, memory in bytes and, where it is printed, the maximum clock in MHz of each GPU."""
        return [self._of_card(card) for card in self._cards]

    def rows(self) -> List[List[Any]]:
        """The numbers of `gpus.COLUMNS` for each GPU, at most a minute old."""
        if time.monotonic() - self._asked >= PAUSE:
            self._asked = time.monotonic()
            with contextlib.suppress(OSError):
                self._cards = self._parse(output_of(self._command))
        return [self._row(card) for card in self._cards]

    def processes(self) -> List[List[int]]:
        """Empty: that would need another start of the program."""
        return [[] for _ in self._cards]


def output_of(command: Sequence[str]) -> str:
    """What a program prints, without the mark of a rank's processes; OSError if it is missing, fails, or takes too long."""
    kept = {name: value for name, value in os.environ.items() if name != "DLRUN_PROCESS"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept,
            timeout=20, check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from None
    return done.stdout.decode("utf-8", "replace")
