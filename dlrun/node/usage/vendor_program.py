"""GPUs from the output of a vendor's program, if neither its library nor the kernel's files can be read.

Such a program takes seconds to start, so it runs once a minute.
"""

import contextlib
import os
import subprocess
import time
from typing import Any, Callable, Dict, List, Sequence

MIN_INTERVAL = 60.0
"""Seconds between two starts of such a program."""


class VendorProgram:
    """The GPUs that a program lists; raises OSError if it is missing or fails.

    `parse` returns one value per GPU from the output; from such a value `describe_card` returns the constant facts, and
    `row` the numbers of `gpus.COLUMNS`.
    """

    def __init__(
        self,
        command: Sequence[str],
        parse: Callable[[str], List[Any]],
        describe_card: Callable[[Any], Dict[str, Any]],
        row: Callable[[Any], List[Any]],
    ) -> None:
        self._command, self._parse, self._describe_card, self._row = command, parse, describe_card, row
        self._last_run = time.monotonic()
        self._cards = parse(run_program(command))

    def describe(self) -> List[Dict[str, Any]]:
        """Name, id, memory in bytes and, where it is printed, the maximum clock in MHz of each GPU."""
        return [self._describe_card(card) for card in self._cards]

    def rows(self) -> List[List[Any]]:
        """The numbers of `gpus.COLUMNS` for each GPU, at most a minute old."""
        if time.monotonic() - self._last_run >= MIN_INTERVAL:
            self._last_run = time.monotonic()
            with contextlib.suppress(OSError):
                self._cards = self._parse(run_program(self._command))
        return [self._row(card) for card in self._cards]

    def processes(self) -> List[List[int]]:
        """Empty: that would need another start of the program."""
        return [[] for _ in self._cards]


def run_program(command: Sequence[str]) -> str:
    """The output of a program; OSError if it is missing, fails, or takes too long."""
    # Without the mark of a rank's processes: the program is not one of the rank's.
    kept = {name: value for name, value in os.environ.items() if name != "DLRUN_PROCESS"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=kept,
            timeout=20, check=True,
        )  # fmt: skip
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from None
    return done.stdout.decode("utf-8", "replace")
