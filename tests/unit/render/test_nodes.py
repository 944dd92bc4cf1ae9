"""The check of the granted nodes, before the ranks start and after a failure (lib/nodes.sh)."""

from __future__ import annotations

import pytest

from tests.library import call

CHECK = """
source "$DLRUN_JOB_DIR/lib/nodes.sh"
_dlrun_patience=60
_dlrun_read_clock() {{ _dlrun_now=$((7 * $(grep -c n2 tried || true))); }} # each attempt on n2 takes 7 s
sleep() {{ command sleep 0.1; }}
dlrun_on_node() {{ # the daemon on n2 does not start the first program
  echo "$DLRUN_FIRST_HOST" >>tried
  [[ $DLRUN_FIRST_HOST != n2 || $(grep -c n2 tried) -gt {fails} ]] || {{ echo "srun: error: launch failed" >&2; {end} 1; }}
  touch "$DLRUN_RUN_DIR/nodes/$DLRUN_FIRST_HOST/report.json"
}}
cd "$DLRUN_JOB_DIR"
touch tried
_dlrun_check_nodes {how} n1 n2
"""


@pytest.mark.parametrize("end", ["return", "exit"])  # as dlrun_openmpi ends, which is replaced by mpirun
@pytest.mark.parametrize(
    ("how", "fails", "tries", "answers"),
    [("''", 1, 2, True), ("''", 3, 4, True), ("''", 9, 5, False), ("quick", 1, 1, False)],
)
def test_where_no_program_could_be_started_it_is_tried_for_half_a_minute_at_the_start(
    tmp_path, how, fails, tries, answers, end
):
    call(tmp_path, CHECK.format(how=how, fails=fails, end=end))
    tried = (tmp_path / "tried").read_text().split()
    assert (tried.count("n1"), tried.count("n2")) == (1, tries)
    assert (tmp_path / "nodes" / "n1" / "report.json").exists()
    assert (tmp_path / "nodes" / "n2" / "report.json").exists() == answers
    assert answers or "launch failed" in (tmp_path / "nodes" / "n2" / "log").read_text()
