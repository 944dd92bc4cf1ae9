"""A job that was asked to end: its waiting for what each node does then, and the end of its ranks' run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.library import call


def kept(tmp_path: Path, keeper: str, step: str = ":", most: int = 50, slurm: bool = True) -> str:
    """What `_dlrun_await_standby` answers where `keeper` has started the waiting step; `step` runs in place of `most` pauses."""
    (tmp_path / "kept").mkdir()
    script = f"""\
    set +e
    dlrun_source staging
    paused=0 _dlrun_kept_nodes=2 {"SLURM_JOB_ID=7" if slurm else ""}
    sleep() {{ ((++paused < {most})) || {{ echo waits; exit; }}; {step}; }}
    {keeper}
    if _dlrun_await_standby; then echo all; else echo "not all, told $(cat "$DLRUN_RUN_DIR/signalled" 2>/dev/null)"; fi
    kill -KILL $_dlrun_keeper 2>/dev/null
    true"""
    return call(tmp_path, script).stdout.strip()


DEAD = "true & _dlrun_keeper=$!; wait"
ALIVE = "(exec sleep 600) & _dlrun_keeper=$!"  # `command` is a process of its own in old versions of bash
DYING = "(exec sleep 2) & _dlrun_keeper=$!"  # still there at the first look, and gone before the last one
BOTH = 'echo 0 >"$DLRUN_RUN_DIR/kept/0"; echo {} >"$DLRUN_RUN_DIR/kept/1"'


def test_a_step_that_is_gone_is_not_waited_for(tmp_path):
    assert kept(tmp_path, DEAD) == "not all, told"


@pytest.mark.parametrize(("code", "answer"), [("0", "all"), ("1", "not all, told")])
@pytest.mark.parametrize("keeper", [DEAD, ALIVE])
def test_what_each_node_has_said_counts(tmp_path, keeper, code, answer):
    said = BOTH.format(code)
    assert kept(tmp_path, f"mkdir -p $DLRUN_RUN_DIR/kept; {keeper}; {said}") == answer


def test_nodes_that_take_their_time_are_waited_for(tmp_path):
    later = f'touch "$DLRUN_RUN_DIR/kept/notice-0"; if ((paused == 40)); then {BOTH.format(0)}; fi'
    assert kept(tmp_path, ALIVE, later) == "all"


def test_a_step_that_slurm_asked_but_no_busy_node_has_heard_yet_is_not_asked_again(tmp_path):
    """`srun` ends a step at once that it is asked to end a second time."""
    later = f'if ((paused == 95)); then touch "$DLRUN_RUN_DIR/kept/notice-1"; fi; if ((paused == 120)); then {BOTH.format(0)}; fi'
    assert kept(tmp_path, ALIVE, later, most=200) == "all"


def test_where_slurm_asks_nobody_the_step_is_asked_at_once_and_the_nodes_may_outlive_it(tmp_path):
    own = """\
    (trap 'echo TERM >"$DLRUN_RUN_DIR/signalled"; exit' TERM; : >"$DLRUN_RUN_DIR/ready"; while :; do command sleep 0.1; done) &
    _dlrun_keeper=$!
    until [[ -e $DLRUN_RUN_DIR/ready ]]; do command sleep 0.1; done"""
    asked = "until [[ -s $DLRUN_RUN_DIR/signalled ]]; do command sleep 0.1; done"
    later = f"{asked}; if ((paused == 40)); then {BOTH.format(0)}; fi"
    assert kept(tmp_path, own, later, slurm=False) == "all"


@pytest.mark.slow
def test_a_step_that_slurm_did_not_ask_is_asked(tmp_path):
    own = "(trap 'echo TERM >\"$DLRUN_RUN_DIR/signalled\"; exit' TERM; while :; do command sleep 0.1; done) & _dlrun_keeper=$!"
    assert kept(tmp_path, own, "command sleep 0.02", most=900) == "not all, told TERM"


def test_a_run_of_flux_that_is_asked_to_end_twice_is_cancelled_once(tmp_path):
    flux = f"""cd {tmp_path}
    case $* in
    submit*) echo f1 ;;
    *attach*) touch attached; exec sleep 600 ;;
    cancel*) touch cancelling; until [[ -e twice ]]; do sleep 0.05; done ;;
    *wait-event*) echo clean >>said ;;
    esac"""
    done = call(
        tmp_path,
        """
    dlrun_source start flux-run
    dlrun_flux flux x </dev/null & run=$!
    asked() { until [[ -e $DLRUN_RUN_DIR/$1 ]]; do sleep 0.05; done; kill -TERM "$run"; }
    asked attached; asked cancelling
    touch "$DLRUN_RUN_DIR/twice"
    wait "$run" || echo "$?" """,
        flux=flux,
    )
    assert (done.stdout, done.stderr) == ("143\n", "")
    assert (tmp_path / "said").read_text() == "clean\n"


@pytest.mark.parametrize(
    ("said", "where"), [('echo 0 >"$DLRUN_RUN_DIR/kept/0"', "n2"), ("_dlrun_kept_nodes=", "the nodes")]
)
def test_nodes_that_have_results_left_are_named(tmp_path, said, where):
    lines = f"""dlrun_source staging
    mkdir "$DLRUN_RUN_DIR/kept"
    printf 'n1\nn2\n' >"$DLRUN_HOSTS"
    export DLRUN_RESULTS=/tmp/r; _dlrun_kept_nodes=2; {said}
    _dlrun_results_left"""
    assert f"the rest is on {where}, in /tmp/r;" in call(tmp_path, lines).stdout


def test_where_what_started_the_standbys_is_gone_one_that_was_killed_is_not_waited_for(tmp_path):
    """Another step then does that node's part, and waits for the others."""
    assert kept(tmp_path, DEAD, most=60, slurm=False) == "not all, told"


@pytest.mark.parametrize(("code", "killed", "answer"), [(0, False, 0), (1, False, 1), (0, True, 1)])
def test_that_step_waits_for_a_standby_that_is_at_work(tmp_path, code, killed, answer):
    (tmp_path / "stage.sh").write_text(
        f'trap "asked=1" TERM; : >"$DLRUN_RUN_DIR/armed"; until [[ -n $asked && -e $DLRUN_RUN_DIR/go ]]; do sleep 0.05; done\n'
        f'echo {code} >"$DLRUN_RUN_DIR/kept/0"\n'
    )
    lines = f"""dlrun_source stage
    _dlrun_index=0 DLRUN_JOB_DIR={tmp_path}
    export DLRUN_RUN_ID=7.0
    mkdir "$DLRUN_RUN_DIR/kept"
    bash -p "$DLRUN_JOB_DIR/stage.sh" keep & standby=$!
    until [[ -e $DLRUN_RUN_DIR/armed ]]; do sleep 0.05; done
    (sleep 0.5; {'kill -KILL "$standby"' if killed else ': >"$DLRUN_RUN_DIR/go"'}) &
    status=0
    _dlrun_standby_did_it || status=$?
    echo "$status"
    kill -0 "$standby" 2>/dev/null && echo "too early"
    true"""
    assert call(tmp_path, lines).stdout == f"{answer}\n"


@pytest.mark.parametrize("code", [0, 1])
def test_a_standby_that_ends_between_two_looks_has_done_it(tmp_path, code):
    lines = f"""dlrun_source stage
    _dlrun_index=0
    mkdir "$DLRUN_RUN_DIR/kept"
    export DLRUN_RUN_ID=7.0
    grep() {{ echo {code} >"$DLRUN_RUN_DIR/kept/0"; command grep "$@"; }}
    status=0
    _dlrun_standby_did_it || status=$?
    echo $status"""
    assert call(tmp_path, lines).stdout == f"{code}\n"


@pytest.mark.parametrize(("code", "copied"), [(0, ""), (1, "work results\n")])
def test_what_the_standby_has_copied_is_not_copied_again(tmp_path, code, copied):
    lines = f"""dlrun_source stage
    _dlrun_index=0
    mkdir "$DLRUN_RUN_DIR/kept"
    echo {code} >"$DLRUN_RUN_DIR/kept/0"
    _dlrun_copy_out() {{ echo "$*"; }}
    dlrun_stage_action out :"""
    assert call(tmp_path, lines).stdout == copied


@pytest.mark.parametrize(
    ("status", "keeper", "done"),
    [
        (137, DEAD, "leave"),
        (137, DYING, "leave"),
        (137, ALIVE, "copy"),
        (1, DYING, "copy"),
        (0, DEAD, "copy"),
    ],
)
def test_where_the_standbys_began_by_themselves_nothing_is_copied_beside_them(tmp_path, status, keeper, done):
    lines = f"""set +e
    dlrun_source staging
    mkdir "$DLRUN_RUN_DIR/kept"
    unset SLURM_JOB_ID
    _dlrun_in_place=1 _dlrun_asked= _dlrun_status={status}
    _dlrun_copy_results() {{ echo copy; }}
    _dlrun_leave() {{ echo leave; }}
    _dlrun_on_each_node() {{ :; }}
    {keeper}
    _dlrun_unstage
    kill -KILL $_dlrun_keeper 2>/dev/null
    true"""
    assert call(tmp_path, lines).stdout.strip() == done


@pytest.mark.parametrize(
    ("variable", "cause", "answer"),
    [
        ("SLURM_JOB_ID=7", "node failed", "leave asked=1"),
        ("_dlrun_left_to_end=5", "node failed", "leave asked=1"),
        (":", "node failed", "leave asked="),
        (":", "", "leave asked=1"),
    ],
    ids=["slurm", "flux", "a node is lost", "elsewhere"],
)
def test_a_lost_node_for_which_the_standbys_were_asked_is_no_end_by_the_scheduler(
    tmp_path, variable, cause, answer
):
    lines = f"""set +e
    dlrun_source staging
    mkdir "$DLRUN_RUN_DIR/kept"
    touch "$DLRUN_RUN_DIR/kept/notice-1"
    unset SLURM_JOB_ID
    {variable}
    _dlrun_in_place=1 _dlrun_asked= _dlrun_status=255
    _dlrun_leave() {{ printf 'leave '; }}
    _dlrun_find_cause() {{ _dlrun_reason='{cause}'; }}
    {ALIVE}
    _dlrun_unstage
    echo "asked=$_dlrun_asked"
    kill -KILL $_dlrun_keeper 2>/dev/null
    true"""
    assert call(tmp_path, lines).stdout.strip() == answer


@pytest.mark.parametrize(("code", "starts"), [(0, 1), (3, 1), (137, 9)])
def test_a_standby_that_has_ended_before_it_is_looked_for_is_not_started_once_more(tmp_path, code, starts):
    """Unless it was killed."""
    lines = f"""dlrun_source stage
    export DLRUN_STAGE=$DLRUN_RUN_DIR
    setsid() {{ echo started >>"$DLRUN_RUN_DIR/starts"; exit {code}; }}
    kill() {{ sleep 0.1; builtin kill "$@"; }}
    _dlrun_keep || true"""
    call(tmp_path, lines)
    assert (tmp_path / "starts").read_text().count("started") == starts
