"""A job on this machine whose ranks run in a container, which sees the job directory, the library in it and the variables."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from tests.cluster import apptainer

SITE = """\
name: here
scheduler: {{type: local}}
launcher: {{name: local}}
rendezvous: {{address: loopback}}
storage: {{node_local: {{path: '{place}/local', size: 1TB}}}}
"""
pytestmark = pytest.mark.needs("bwrap")  # stands in for Apptainer


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 7])
def test_ranks_in_a_container(dlrun, code):
    image = apptainer.install(dlrun.place, dlrun.place)
    spec = {
        "framework": "torch",
        "command": ["bash", "-c", apptainer.LINE.format(dlrun.place, code)],
        "resources": {"ranks_per_node": 2},
        "environment": {
            "setup": [f"PATH={dlrun.place}/bin:$PATH"],
            "container": {"image": str(image), "runtime": "apptainer"},
            "variables": {"MINE": "a b"},
        },
    }
    dlrun("submit", dlrun.spec(yaml.safe_dump(spec)), "--wait", code=code)
    (job,) = json.loads(dlrun("list", "--json").stdout)["jobs"]
    for rank in (0, 1):
        lines = dlrun("logs", job["name"], "--rank", str(rank)).stdout
        assert lines.startswith(f"[rank {rank}] rank {rank} of 2 at 127.0.0.1 with a b\n")


@pytest.mark.slow
@pytest.mark.needs("mksquashfs", "unsquashfs", "squashfuse")
@pytest.mark.parametrize("mounts", [True, False])
def test_a_data_set_that_is_an_image_is_seen_in_a_container(dlrun, mounts):
    """Mounted on the node, below a directory that is bound; or without `squashfuse` by Apptainer, elsewhere."""
    place = dlrun.place
    if mounts and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no file system can be mounted here")
    image = apptainer.install(place, place)
    for directory in ("source", "local"):
        (place / directory).mkdir()
    for number in range(3):
        (place / "source" / f"f{number}").write_text(f"{number}\n")
    if not mounts:
        for folder in os.environ["PATH"].split(":"):
            for program in Path(folder).glob("*"):
                if not program.name.startswith("squashfuse") and not (place / "bin" / program.name).exists():
                    (place / "bin" / program.name).symlink_to(program)
    (place / "site.yaml").write_text(SITE.format(place=place))
    spec = {
        "command": ["bash", "-c", 'cat "$1"/f* && echo "$1 $DLRUN_DATA_SET"', "x", "{{ data.set }}"],
        "resources": {"ranks_per_node": 2},
        "environment": {
            "setup": [f"PATH={place}/bin{':$PATH' if mounts else ''}"],
            "container": {"image": str(image)},
        },
        "data": {"set": {"source": str(place / "source"), "strategy": "image"}},
    }
    dlrun(
        "submit", dlrun.spec(yaml.safe_dump(spec)), "--site", "site.yaml", "--wait", env={"HOME": str(place)}
    )
    (job,) = json.loads(dlrun("list", "--json").stdout)["jobs"]
    for rank in (0, 1):
        said = dlrun("logs", job["name"], "--rank", str(rank)).stdout.splitlines()
        lines = [line.split()[2:] for line in said if line.startswith("[rank ")]
        assert lines[:3] == [["0"], ["1"], ["2"]]
        first, second = lines[3]
        assert first == second
        assert (first == "/dlrun/set") != mounts
    assert str(place) not in Path("/proc/self/mounts").read_text()
