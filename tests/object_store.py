"""A server that speaks S3 and keeps its objects in memory (`moto_server`, of the dependency group `stores`)."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator

from tests import programs
from tests.ports import free_port


@contextlib.contextmanager
def served() -> Iterator[tuple[str, str]]:
    """(endpoint, ""), or ("", why there is none)."""
    program = shutil.which("moto_server", path=programs.with_venv())
    if program is None:
        yield "", "`moto_server` is not installed: it is in the dependency group `stores`"
        return
    endpoint = f"http://127.0.0.1:{(port := free_port())}"
    server = subprocess.Popen(
        [program, "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        end, works = time.monotonic() + programs.SECONDS, False
        while not (works := _answers(endpoint)) and server.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        yield (endpoint, "") if works else ("", f"`{program}` does not work here: it serves nothing")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return urllib.request.urlopen(url, timeout=5).status == 200
    return False


def put(url: str, content: bytes = b"") -> None:
    """Store an object, or make a bucket."""
    urllib.request.urlopen(
        urllib.request.Request(url, content, {"Content-Type": "application/octet-stream"}, method="PUT"),
        timeout=60,
    ).close()


def environment(endpoint: str) -> dict[str, str]:
    """The variables with which clients use the server."""
    return {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": endpoint, "S3_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1",
    }  # fmt: skip
