"""The server at which Horovod's ranks meet, and whoever else is on the network: only the job's hosts, and no more than fits."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
from dlrun.node import hvd_rendezvous

from tests.ports import free_port

from .strangers import Strangers

ME, RANK, STRANGER = "127.0.0.1", "127.0.0.2", "127.0.0.3"


@pytest.fixture
def job(tmp_path, monkeypatch):
    """What the server is told of its job by the environment; its hosts are addresses of the loopback interface."""
    (tmp_path / "hosts").write_text(f"{ME}\n{RANK}\n")
    environment = {"DLRUN_HOSTS": str(tmp_path / "hosts"), "DLRUN_MASTER_ADDR": ME}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def server(job):
    made = hvd_rendezvous.server(0, 2, 1)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_address[1]
    made.shutdown()
    thread.join()
    made.server_close()


def ask(port, method, path, body=None, source=RANK, headers=None):
    connection = HTTPConnection(ME, port, timeout=60, source_address=(source, 0))
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_only_hosts_of_the_job_are_heard(server, capfd):
    assert ask(server, "PUT", "/global/0", b"mine") == (200, b"")
    for method in ("GET", "PUT", "DELETE"):
        with pytest.raises(OSError):
            ask(server, method, "/global/0", b"theirs" if method == "PUT" else None, source=STRANGER)
    assert ask(server, "GET", "/global/0") == (200, b"mine")
    said = capfd.readouterr().err
    assert said.count(STRANGER) == 1, "told once"


def test_it_listens_on_the_rendezvous_address_alone(server):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((RANK, server), 60)


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/global/0", {"Content-Length": str(1 << 40)}, 413),
        ("/global/0", {"Content-Length": "-1"}, 400),
        ("/global/0", {"Content-Length": "x"}, 400),
        ("/global/0", {"Content-Length": "²"}, 400),
        ("/global/" + "k" * 2000, {"Content-Length": "0"}, 414),
        ("/" + "s" * 2000 + "/0", {"Content-Length": "0"}, 414),
    ],
)
def test_what_no_rank_sends_is_refused(server, path, headers, code, capfd):
    headers = {k: v.encode().decode("latin-1") for k, v in headers.items()}
    assert ask(server, "PUT", path, headers=headers)[0] == code
    assert ask(server, "GET", "/global/0") == (404, b"")
    assert "Traceback" not in capfd.readouterr().err


def test_keys_and_values_have_a_bound():
    store = hvd_rendezvous.Store(2, 1)
    with pytest.raises(hvd_rendezvous.Full):  # noqa: PT012 - somewhere in the loop
        for number in range(10**7):
            store.put("global", str(number), b"")
    store = hvd_rendezvous.Store(2, 1)
    value = bytes(hvd_rendezvous.MAX_VALUE)
    with pytest.raises(hvd_rendezvous.Full):  # noqa: PT012 - somewhere in the loop
        for number in range(10**5):
            store.put(f"scope{number}", "0", value)
    for number in range(10**5):  # the same key again takes no more room
        store.put("scope0", "0", value[: number % 100])
    store.leave("scope0", "0")
    store.put("scope0", "0", value)


@pytest.mark.slow
def test_ranks_meet_among_strangers(job, tmp_path):
    """The program as a job starts it, with fewer descriptors than strangers have connections."""
    program = Path(hvd_rendezvous.__file__)
    port = free_port(ME)
    few = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); sys.argv = sys.argv[1:];"
    running = subprocess.Popen(
        [sys.executable, "-c", few + "runpy.run_path(sys.argv[0], run_name='__main__')",
         str(program), str(port), "2", "1"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((ME, port), 60).close()
                break
        with Strangers(ME, port, source=STRANGER) as strangers, Strangers(ME, port, idle=20, source=RANK):
            while strangers.met < 500:
                assert running.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            for number in range(200):
                assert patiently(port, "PUT", f"/global/{number % 2}", str(number).encode()) == (200, b"")
                assert patiently(port, "GET", f"/global/{number % 2}") == (200, str(number).encode())
        used = int(Path(f"/proc/{running.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        assert used < 200 << 20
    finally:
        running.kill()
        said = running.communicate()[1]
    assert "Traceback" not in said
    assert said.count("\n") < 10


def patiently(port, *what):
    """As Horovod asks: again, when a connection fails."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            return ask(port, *what)
        time.sleep(0.05)
    pytest.fail("no answer")
