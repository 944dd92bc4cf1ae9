"""Scheduler clients that record how they were called and play back captured output."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CAPTURED = HERE.parent / "captured"


@dataclass(frozen=True)
class FakeClients:
    """The clients' memory: answers go in, calls come out."""

    place: Path

    @classmethod
    def on_path(cls, place: Path, monkeypatch: pytest.MonkeyPatch) -> FakeClients:
        """Put the clients first on PATH, with `place` as their memory."""
        place.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("PATH", f"{HERE}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("FAKEBIN", str(place))
        return cls(place)

    def answer(
        self, name: str, out: str = "", *, err: str = "", code: int = 0, call: int | None = None
    ) -> None:
        """What a client says: always, or at its n-th call (from 1) alone."""
        stem = name if call is None else f"{name}.{call}"
        for kind, text in (("out", out), ("err", err), ("code", str(code))):
            (self.place / f"{stem}.{kind}").write_text(text)

    def calls(self, name: str) -> list[dict[str, Any]]:
        """How a client was called, in order: argv, environment, stdin, directory."""
        count = len(list(self.place.glob(f"{name}.*.call")))
        return [json.loads((self.place / f"{name}.{n}.call").read_text()) for n in range(1, count + 1)]
