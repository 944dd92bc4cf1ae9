"""`dlrun shell` and `dlrun shell --tunnel`: into a job that runs on this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request

import pytest

from tests.cli.conftest import wait_for

SERVES = """
import http.server, os, pathlib
rank = int(os.environ["RANK"])
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"rank {rank} {self.path}".encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
pathlib.Path(f"port-{rank}").write_text(str(server.server_port))
server.serve_forever()
"""


def serving(dlrun, more: str = "", **options):
    """A running job of two ranks that answer; its directory and the ports of the ranks."""
    (dlrun.place / "serve.py").write_text(SERVES)
    spec = "framework: torch\nresources: {ranks_per_node: 2, walltime: 10m}\ncommand: [python, serve.py]\n"
    job = dlrun.submit(spec + more, **options)

    def ports() -> list[int]:
        files = [dlrun.place / f"port-{rank}" for rank in (0, 1)]
        return [int(file.read_text()) for file in files if file.exists() and file.read_text()]

    wait_for(lambda: len(ports()) == 2)
    return job, ports()


def answer(address: str, path: str = "/x") -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=100) as page:
        return page.read().decode()


def address_of(tunnel: subprocess.Popen) -> str:
    return json.loads(tunnel.stdout.readline())["tunnel"]["address"]


@pytest.mark.slow
def test_a_command_runs_as_the_ranks_program_would(dlrun):
    more = """environment: {variables: {HELLO: 'a  b$c " ä'}}\nsecrets: {TOKEN: {env: MY_TOKEN}}\n"""
    job, _ = serving(dlrun, more, env={"MY_TOKEN": "s3cret"})
    show = 'printf "%s|%s|%s|%s" "$RANK" "$HELLO" "$TOKEN" "$PWD"'
    shown = dlrun("shell", "--rank", "1", job, "--", "sh", "-c", show, stdin=subprocess.DEVNULL).stdout
    assert shown == f'1|a  b$c " ä|s3cret|{dlrun.place}'
    assert dlrun("shell", job.name, "sh", "-c", "exit 7", code=7, stdin=subprocess.DEVNULL).stdout == ""
    # Its own options are the command's, not dlrun's.
    assert dlrun("shell", job.name, "echo", "--rank", "9", stdin=subprocess.DEVNULL).stdout == "--rank 9\n"
    typed = dlrun.start("shell", "latest", stdin=subprocess.PIPE, env={"SHELL": None})
    assert typed.communicate("echo in $RANK; exit 3\n", timeout=60)[0] == "in 0\n"
    assert typed.returncode == 3
    here = socket.gethostname().partition(".")[0]
    assert dlrun("shell", "--node", here, job, "pwd", stdin=subprocess.DEVNULL).stdout == f"{job}\n"


@pytest.mark.slow
def test_what_cannot_be_entered(dlrun):
    job, _ = serving(dlrun)
    assert "no rank 5" in dlrun("shell", "--rank", "5", job, "true", code=2).stderr
    assert "its nodes: " in dlrun("shell", "--node", "elsewhere", job, "true", code=2).stderr
    assert "exclude each other" in dlrun("tunnel", "--node", "a", "--rank", "1", job, "80", code=2).stderr
    assert "not in the range" in dlrun("tunnel", job, "70000", code=2).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port} of this machine" in dlrun("tunnel", "--local", port, job, "80", code=2).stderr
    dlrun("cancel", job)
    wait_for(lambda: json.loads((job / "state.json").read_text())["state"] == "ended")
    for words in (["shell", job, "true"], ["tunnel", job, "80"]):
        assert f"job `{job.name}` has ended: cancelled" in dlrun(*words, code=2).stderr


@pytest.mark.slow
def test_a_port_is_brought_here_until_the_job_ends(dlrun):
    job, ports = serving(dlrun)
    tunnel = dlrun.start("tunnel", "--json", job, str(ports[1]))
    address = address_of(tunnel)
    assert address.startswith("127.0.0.1:")
    assert address != f"127.0.0.1:{ports[1]}"  # that port is the server's own, on this machine
    assert [answer(address, f"/{number}") for number in range(20)] == [
        f"rank 1 /{number}" for number in range(20)
    ]
    dlrun("cancel", job)
    _, notices = tunnel.communicate(timeout=60)
    assert tunnel.returncode == 0
    assert "has ended: cancelled" in notices


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(dlrun):
    job, ports = serving(dlrun)
    tunnel = dlrun.start("tunnel", "--json", job, str(ports[0]))
    address = address_of(tunnel)
    assert answer(address) == "rank 0 /x"
    tunnel.send_signal(signal.SIGINT)
    tunnel.communicate(timeout=100)
    assert tunnel.returncode == 130
    assert not [line for line in dlrun.alive() if "dlrun-tunnel" in line]
