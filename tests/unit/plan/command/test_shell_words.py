"""`run:`: values in shell text, read by a real bash."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings, strategies as st

from dlrun.model.problem import InvalidFile
from dlrun.model.spec import SHELL
from dlrun.model.text import Shell
from dlrun.plan.command.expressions import substitute
from tests.examples import examples
from tests.making import LOCAL, plan_of, scripts_of


def said(text, values, **environment):
    made = substitute(text, values, quoted=True)
    assert made.literal is not None, "the text itself expands nothing outside its own shell"
    done = subprocess.run(
        [*SHELL, made.literal], capture_output=True, check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment},
    )  # fmt: skip
    return done.stdout.decode("utf-8")


@settings(max_examples=examples(60))
@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12))
def test_a_value_is_one_word_in_any_quotation(value):
    text = """printf '%s|' {{ v }} x{{ v }} "<{{ v }}>" '<{{ v }}>' "it's {{ v }}" \\"{{ v }}"""
    expected = [value, f"x{value}", f"<{value}>", f"<{value}>", f"it's {value}", f'"{value}']
    assert said(text, {"v": value}) == "".join(f"{one}|" for one in expected)


def test_what_only_the_node_knows_is_expanded_there():
    text = """printf '%s|' {{ rank }} "r{{ rank }}" 'r{{ rank }}'"""
    assert said(text, {"rank": Shell("$DLRUN_RANK")}, DLRUN_RANK="a b") == "a b|ra b|ra b|"


@pytest.mark.parametrize("key", ["run", "command"])
def test_shell_text_is_read_by_bash_in_each_rank(tmp_path, key):
    spec = f"name: x\n{key}: python t.py --out $SCRATCH | tee log-{{{{ rank }}}}\nresources: {{ranks_per_node: 2}}\n"
    plan = plan_of(tmp_path, spec, LOCAL)
    page = scripts_of(plan)["rank.sh"]
    assert (
        """dlrun_run bash --norc -euo pipefail -c 'python t.py --out $SCRATCH | tee log-"$DLRUN_RANK"'"""
        in page
    )
    assert plan.warnings == ()


def test_one_command_alone(tmp_path):
    with pytest.raises(InvalidFile) as raised:
        plan_of(tmp_path, "name: x\nrun: a\ncommand: [b]\n", LOCAL)
    (problem,) = raised.value.problems
    assert "`run` and `command` are both given" in problem.message
    assert (problem.origin.line, problem.origin.column) == (2, 6)


def test_a_shell_that_ssh_has_started_reads_no_start_up_file(tmp_path):
    """bash takes a process with SSH_CLIENT, the first shell there, for one that a person has asked for."""
    (tmp_path / ".bashrc").write_text('echo "read: $PS1"\n')
    reached = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SSH_CLIENT": "192.0.2.1 1 22",
        "SHLVL": "0",
    }

    def started(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*words, "echo done"], env=reached, text=True, capture_output=True, check=False)

    if "read" not in started("bash", "-c").stdout:
        pytest.skip("this bash reads no start-up file after ssh")
    done = started(*SHELL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
