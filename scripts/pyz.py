"""Make `dlrun.pyz`: dlrun in one file, with its templates, library, site profiles and what it imports, all pure Python.

    python scripts/pyz.py [--output FILE] [--python PYTHON]... [--shebang LINE]

It runs on any Python from 3.11 on. For each `--python`, or else for the Python that makes it, it has the byte code as well:
others compile what they import at each start. What it imports is taken from the environment of the Python that runs this script.
paramiko and psutil have compiled parts: commands that need them use those of the Python that runs `dlrun.pyz`, if any.
"""

from __future__ import annotations

import argparse
import io
import lzma
import marshal
import subprocess
import sys
import tempfile
import zipfile
import zlib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PACKAGES = ("click", "jinja2", "markupsafe", "rich", "yaml")
"""What dlrun imports besides the standard library, of which each is pure Python or has a pure fallback."""
DATA = {"templates": "dlrun/data/templates", "site-configs": "dlrun/data/site-configs"}
PROGRAMS = ("dlrun/affinity/load.py", "dlrun/affinity/report_load.py")
"""Modules that also run as programs of their own; so do those of `dlrun/node`."""
NODE = "dlrun/node/"
RARE = (
    *(f"{NODE}{name}/" for name in ("blocks", "checks", "commands", "network", "relay", "source", "staging", "store")),
    "dlrun/node/transfer/", "dlrun/node/usage/", "dlrun/node/common/mounts", "dlrun/jobs/clusters/outlook",
    "dlrun/jobs/clusters/reasons", "dlrun/schedulers/slurm/reasons", "dlrun/schedulers/pbs/reasons",
    "click/testing", "click/_termui_impl", "click/_winconsole", "click/shell_completion", "jinja2/ext",
    "jinja2/debug", "jinja2/nativetypes", "jinja2/sandbox", "jinja2/meta", "rich/",
    "dlrun/affinity/", "dlrun/importing/", "dlrun/usage/", "dlrun/why/", "dlrun/jobs/staging/",
    "dlrun/trials/", "dlrun/site/", "dlrun/inside/", "dlrun/jobs/images/", "dlrun/api/",
    *(f"dlrun/jobs/remote/{name}" for name in ("confined", "copies", "fetch", "files", "kept", "steps", "submission", "submit",
      "code", "images", "plan", "points", "site", "target")),
    *(f"dlrun/jobs/hubs/{name}" for name in ("client", "fetch", "needed")), "dlrun/plan/role_jobs/shares",
    "dlrun/system/transport/paramiko_login", "dlrun/schedulers/pbs/acceptance",
    *(f"dlrun/jobs/queue/{name}" for name in ("clean", "compare", "more_points", "replan", "rerun", "results", "studies",
      "study")),
    *(f"dlrun/cli/{name}" for name in ("run", "specs/import_", "specs/init", "specs/keys")), "dlrun/jobs/running/",
    *(f"dlrun/cli/jobs/{name}" for name in ("clean", "code", "diff", "fetch", "resubmit", "results")),
    *(f"dlrun/config/{name}" for name in ("schema", "topology/lscpu", "topology/lstopo", "topology/short", "topology/sysfs")),
    "dlrun/plan/codes", "dlrun/plan/command/more_points", "dlrun/plan/role_jobs/components", "dlrun/render/patch",
    "dlrun/terminal/drawing", "dlrun/terminal/failure", "dlrun/jobs/explain", "dlrun/cli/specs/explain", "dlrun/cli/stage_data",
    "dlrun/cli/topics", "dlrun/config/block_text", "dlrun/frameworks/mpi/intelcaffe", "dlrun/frameworks/paddle",
    "dlrun/frameworks/spark/", "dlrun/frameworks/h2o", "dlrun/frameworks/caffe2", "dlrun/frameworks/mpi/ibm_ddl",
    "dlrun/frameworks/tensorflow/mesh_tensorflow", "dlrun/schedulers/gridengine/waiting", "dlrun/schedulers/pbs/torque",
    *(f"dlrun/schedulers/{name}" for name in ("facts", "flux/detection", "gridengine/detection", "pbs/detection",
      "slurm/detection", "draft", "directive_words", "table_reader", "log_forms", "flux/batch_scripts",
      "gridengine/batch_scripts", "pbs/batch_scripts", "slurm/batch_scripts", "flux/log_messages",
      "gridengine/log_messages", "pbs/log_messages", "slurm/log_messages")),
    "dlrun/frameworks/ray", "dlrun/launchers/ibrun", "dlrun/launchers/pals", "dlrun/terminal/progress_bars",
    *(f"{NODE}{name}" for name in ("coordinator", "pool", "ready", "role", "carry", "hvd_rendezvous", "dlrun_data",
      "__main__", "common/progress", "common/statuses", "common/system", "supervise")),
)  # fmt: skip
"""Modules that only nodes or few commands import: without byte code."""
SKIP = {"__pycache__", "tests"}
UNUSED = ("rich/_emoji_codes", "rich/_inspect", "rich/_win", "rich/markdown", "rich/syntax", "rich/traceback")
"""Modules that dlrun never imports, not even in another one."""
WINDOW = 32768
"""Bytes that deflate looks back (RFC 1951)."""
SAMPLES = 20
UNCHECKED = (1).to_bytes(4, "little")
"""The flags of byte code that is not compared with its source (PEP 552)."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same bytes from the same sources."""

COMPILE = """
import ast, marshal, sys
from importlib.util import MAGIC_NUMBER

TRADES = ("dlrun/affinity/", "dlrun/site/", "dlrun/trials/", "dlrun/usage/", "dlrun/why/")
SHOWN = ("dlrun/cli/", "dlrun/terminal/", "dlrun/model/", "dlrun/frameworks/", *TRADES)  # docstrings are help texts and schema

def without_docstrings(text):
    # A class keeps a short one: for a data class without one, `dataclass` works out a text with `inspect`, which takes
    # longer than to read one.
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            if isinstance(node, ast.ClassDef):
                node.body[0].value.value = "-"
            else:
                node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node.body[0])]
    return tree

sources = marshal.load(sys.stdin.buffer)
made = {}
for name, text in sources.items():
    tree = ast.parse(text) if name.startswith(SHOWN) else without_docstrings(text)
    made[name] = marshal.dumps(compile(tree, name, "exec", dont_inherit=True, optimize=0 if name.startswith(SHOWN) else 1))
marshal.dump((MAGIC_NUMBER, made), sys.stdout.buffer, 2)
"""


def sources() -> dict[str, bytes]:
    """Every Python file, by its path in the archive."""
    found = {}
    for package in ("dlrun", *PACKAGES):
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            sys.exit(f"`{package}` is not installed for {sys.executable}")
        place = Path(next(iter(spec.submodule_search_locations)))
        for path in sorted(place.rglob("*.py")):
            inside = path.relative_to(place)
            name = f"{package}/{inside}"
            if not SKIP & set(inside.parts) and not name.startswith(UNUSED):
                found[name] = path.read_bytes()
    return found


def data() -> dict[str, bytes]:
    """Every other file that dlrun reads, by its path in the archive."""
    found: dict[str, bytes] = {}
    for name, inside in DATA.items():
        found |= _tree(ROOT / name, inside, "*")
    for path, text in _tree(ROOT / "dlrun", "dlrun", "*").items():
        if not path.endswith((".py", ".pyc")) or path in PROGRAMS or path.startswith(NODE):
            found[path] = text
    return found


def _tree(place: Path, inside: str, pattern: str) -> dict[str, bytes]:
    paths = sorted(path for path in place.rglob(pattern) if path.is_file() and not SKIP & set(path.parts))
    return {
        f"{inside}/{path.relative_to(place)}": path.read_bytes() for path in paths if path.suffix != ".pyc"
    }


def compiled(texts: dict[str, bytes], python: str) -> tuple[bytes, dict[str, bytes]]:
    """The magic number of a Python and its byte code of each file."""
    done = subprocess.run(
        [python, "-I", "-c", COMPILE], input=marshal.dumps(texts, 2), capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"`{python}` cannot compile dlrun: {done.stderr.decode(errors='replace').strip()[-300:]}")
    magic, made = marshal.loads(done.stdout)  # noqa: S302 - of a process of our own
    return magic, made


def archive(pythons: list[str], shebang: str) -> bytes:
    """The whole file."""
    texts, files = sources(), data()
    often = {name: text for name, text in texts.items() if not name.startswith(RARE)}
    start = (Path(__file__).parent / "pyz_start.py").read_bytes()
    members = {
        "__main__.py": start,
        "files": marshal.dumps((sorted(texts), *_packed(files)), 2),
        "sources": lzma.compress(marshal.dumps({n: t for n, t in texts.items() if n not in files}, 2)),
    }
    for python in pythons:
        magic, codes = compiled({**often, "__main__.py": start}, python)
        main = codes.pop("__main__.py")
        # One Python has its byte code of `__main__`, too: others compare the magic number and compile the source (PEP 552).
        members.setdefault("__main__.pyc", magic + UNCHECKED + bytes(8) + main)
        members[f"code-{magic.hex()}"] = marshal.dumps(_packed(codes), 2)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as zipped:
        for name, content in members.items():
            zipped.writestr(zipfile.ZipInfo(name, EPOCH), content)
    return f"{shebang}\n".encode() + whole.getvalue()


def _packed(contents: dict[str, bytes]) -> tuple[bytes, dict[str, bytes]]:
    """Each content deflated by itself, with what many begin with as their common dictionary."""
    names = sorted(contents)
    sample = names[:: max(1, len(names) // SAMPLES)]
    common = b"".join(contents[name][: WINDOW // SAMPLES] for name in sample)[:WINDOW]
    packed = {}
    for name in names:
        deflate = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_DEFAULT_STRATEGY, common)
        packed[name] = deflate.compress(contents[name]) + deflate.flush()
    return common, packed


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="dlrun.pyz", type=Path)
    parser.add_argument(
        "--python", action="append", default=[], help="a Python to have byte code for, instead of this one"
    )
    parser.add_argument("--shebang", default="#!/usr/bin/env python3")
    given = parser.parse_args()
    if not given.output.resolve().parent.is_dir():
        parser.error(f"--output: there is no directory {given.output.resolve().parent}")
    if given.output.is_dir():
        parser.error(f"--output: {given.output} is a directory: name a file in it")
    content = archive(given.python or [sys.executable], given.shebang)
    with tempfile.NamedTemporaryFile(dir=given.output.resolve().parent, delete=False) as part:
        part.write(content)
    made = Path(part.name)
    made.chmod(0o755)
    made.replace(given.output)
    print(f"{given.output}: {len(content) / 1e6:.1f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
