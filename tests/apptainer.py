"""Stands in for Apptainer where it is not installed: it pulls from a registry of the test, and runs programs on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = r'''#!PYTHON -S
"""`apptainer pull FILE URI` and `apptainer exec OPTIONS IMAGE COMMAND`, as Apptainer 1.4 does them as far as dlrun sees.

With the file $FAKE_HOLD a pull that has all layers waits until it is gone.
"""
import json, os, pathlib, sys, time, urllib.error, urllib.request

def get(url):
    request = urllib.request.Request(url)
    user, password = (os.environ.get("APPTAINER_DOCKER_" + part) for part in ("USERNAME", "PASSWORD"))
    if user == "me" and password == "secret":
        request.add_header("Authorization", "Bearer of-the-test")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        sys.exit("\x1b[31mFATAL:  \x1b[0m While making image from oci registry: reading manifest: %s" % (
            "manifest unknown" if error.code == 404 else "unauthorized" if error.code == 401 else error.code))
    except OSError as error:
        sys.exit("FATAL:   While making image from oci registry: pinging container registry: %s" % error)

def pull(to, uri):
    scheme, _, rest = uri.partition("://")
    if scheme == "http":
        content = get(uri)
    else:
        host, _, name = rest.partition("/")
        name, mark, reference = name.partition("@")
        if not mark:
            name, _, reference = name.partition(":")
        there = "http://%s/v2/%s" % (host, name)
        manifest = json.loads(get("%s/manifests/%s" % (there, reference or "latest")))
        if "manifests" in manifest:
            manifest = json.loads(get("%s/manifests/%s" % (there, manifest["manifests"][0]["digest"])))
        cache = pathlib.Path(os.environ["APPTAINER_CACHEDIR"])
        cache.mkdir(parents=True, exist_ok=True)
        content = b"" if scheme == "oras" else b"SIF\n"
        for layer in manifest["layers"]:
            kept = cache / layer["digest"]
            if not kept.exists():
                kept.write_bytes(get("%s/blobs/%s" % (there, layer["digest"])))
            content += kept.read_bytes()
    print("INFO:    Creating SIF file...", flush=True)
    with open(to, "wb") as out:
        out.write(content[:3])
        out.flush()
        while os.path.exists(os.environ.get("FAKE_HOLD", "")):
            time.sleep(0.02)
        out.write(content[3:])

def run(words):
    while words[0].startswith("--"):
        words = words[2 if words[0] in ("--bind", "--pwd") else 1:]
    image, *command = words
    if not os.path.isfile(image):
        sys.exit("FATAL:   While checking image: could not open image %s" % image)
    os.environ["IMAGE"] = image
    os.execvp(command[0], command)

if sys.argv[1] == "pull":
    pull(*sys.argv[2:])
else:
    run(sys.argv[2:])
'''


def install(place: Path) -> Path:
    """Write the stand-in to a directory; returns it, for PATH."""
    place.mkdir(exist_ok=True)
    program = place / "apptainer"
    program.write_text(PROGRAM.replace("PYTHON", sys.executable))
    program.chmod(0o755)
    return place
