"""The nodes of a job with roles: a check that could not be started is made once more, before the ranks start."""

from __future__ import annotations

import json
import sys

import pytest
from dlrun.node import role_nodes

BEGIN = """\
import json, os, sys
host = {host!r}
with open({tried!r}, "a") as tried:
    tried.write(host + "\\n")
if host == "n2" and open({tried!r}).read().split().count("n2") <= {fails}:
    sys.exit("srun: error: launch failed")
report = {{"problems": [], "ports": 0, "clocks": {{}}, "absent": []}}
with open(os.path.join({place!r}, "nodes", host, "report.json"), "w") as stream:
    json.dump(report, stream)
"""
CHOOSE = """\
import os, sys
place = os.environ["DLRUN_RUN_DIR"]
print("\\n".join(host for host in ("n1", "n2") if os.path.exists(os.path.join(place, "nodes", host, "report.json"))))
"""


@pytest.mark.parametrize(
    ("how", "fails", "tries", "good"),
    [((), 1, 2, ["n1", "n2"]), ((), 9, 2, ["n1"]), (("quick",), 1, 1, ["n1"])],
)
def test_a_check_that_could_not_be_started_is_tried_once_more(tmp_path, monkeypatch, how, fails, tries, good):
    tried = tmp_path / "tried"
    (tmp_path / "node_checks.py").write_text(CHOOSE)
    monkeypatch.setenv("DLRUN_JOB_ID", "7")

    def words(host):
        code = BEGIN.format(host=host, tried=str(tried), place=str(tmp_path), fails=fails)
        return [sys.executable, "-c", code]

    nodes = role_nodes.Nodes(str(tmp_path), {"nodes": 2}, ["n1", "n2"], words)
    assert nodes.best(["n1", "n2"], lambda: False, *how) == good
    assert sorted(tried.read_text().split()) == ["n1", *["n2"] * tries]
    assert json.loads((tmp_path / "nodes" / "n1" / "report.json").read_text())["ports"] == 0
    log = (tmp_path / "nodes" / "n2" / "log").read_text()
    assert ("launch failed" in log) == ("n2" not in good)


class Ends:
    """The check of a host that ends with this exit code between the first look at it and the second one."""

    def __init__(self, code):
        self.looks, self.code, self.returncode = 0, code, None

    def poll(self):
        self.looks += 1
        if self.looks > 1:
            self.returncode = self.code
        return self.returncode

    def wait(self):
        return self.returncode


def test_a_check_that_ends_as_it_is_looked_at_is_tried_once_more(tmp_path, monkeypatch):
    """It had ended for the one line and not for the other: it was not tried, and its node counted as bad."""
    (tmp_path / "node_checks.py").write_text("")
    begun = []

    def check(host, how):
        begun.append(host)
        return Ends(1 if begun.count(host) == 1 else 0)

    nodes = role_nodes.Nodes(str(tmp_path), {"nodes": 1}, ["n1"], lambda _: [])
    monkeypatch.setattr(nodes, "check", check)
    nodes.best(["n1"], lambda: False)
    assert begun == ["n1", "n1"]
