"""Objects of an S3 server: dlrun beside the clients alone."""

import os
import subprocess

from tests import object_store, programs
from tests.object_store import put, served

from .bench import installed

BUCKET = "bucket"


def objects(bench):
    """Many small objects and a large one."""
    count, size = int(2_000 * bench.given.scale), int(200e6 * bench.given.scale)
    os.environ["PATH"] = programs.with_venv()  # the clients and the server of the dependency group `stores`
    if not installed("s5cmd"):
        print("  (s5cmd is not installed)")
        return
    with served() as (endpoint, wrong):
        if wrong:
            print(f"  ({wrong})")
            return
        os.environ |= object_store.environment(endpoint)
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
