"""`dlrun why` where lines of the cluster's programs that end no job stand before an unrelated end, or before none."""

from __future__ import annotations

import pytest

from dlrun.why.matching import Table
from dlrun.why.verdict import verdict
from tests.unit.why.test_reported import asked

END = """Traceback (most recent call last):
  File "/w/train.py", line 90, in <module>
    main()
  File "/w/train.py", line 71, in main
    check(rows)
ValueError: the rows of a batch differ
"""
CRASHED = "Fatal Python error: Segmentation fault\n"

CLUSTER = {
    "whoami": "whoami: cannot find name for user ID 12345\n",
    "id": "id: cannot find name for user ID 12345\nuid=12345 gid=100(users)\n",
    "term_load": "".join(f"step {n} long_term_load: 0.31\n" for n in range(60)),
    "term_other": "step 3 loss_term_other: 0.02 loss_term_window: 0.4\n",
    "TERM_OTHER": "LONG_TERM_OTHER: 0.02\n",
    "term_swap": "short_term_swap: 0.1 long_term_owner: 3 term_admin: 1\n",
    "jsrun": "jsrun: 6 resource sets of 1 GPU\n",
    "blaunch": "blaunch: 12 tasks on 3 hosts\n",
    "parser": 'parser: Syntax error: unexpected token "x"\n',
    "nvswitch": "nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 12028, Non-fatal, Link 46 egress non-posted PRIV error\n",
    "tm_error": "step 4 lstm_mae error on val: 0.59\n",
    "TM_error": "LSTM_MAE error on val: 0.59\n",
    "ghes": "{1}[Hardware Error]: event severity: corrected\n{1}[Hardware Error]:  Error 0, type: corrected\n",
    "mce": "mce: [Hardware Error]: Machine check events logged\n",
    "aer": "pcieport 0000:00:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:00:01.0\n",
    "aer-new": "pcieport 0000:00:01.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:00:01.0\n",
    "spank": "slurmstepd: spank: private_tmpdir: created /scratch/x\n",
    "spank-srun": "srun: spank: x11: no display is forwarded\n",
    "logger": "graylog: lost connection, connecting once more\n",
    "logger-lost": "[log] lost connection to the collector\n",
    "giving-up": "early stopping: 5 epochs without progress. Giving up.\n",
    "cifs": "CIFS: VFS: \\\\filer\\share has not responded in 180 seconds. Reconnecting...\n",
    "module-sh": "/etc/profile.d/lmod.sh: 3: module: not found\n",
    "profile-sh": "/etc/profile.d/z.sh: 3: shopt: not found\n",
    "dconf": "(a:12): dconf-CRITICAL **: 10:12:01.123: unable to create file '/run/user/10/dconf/user': Permission denied.\n",
    "preload": "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.\n",
    "ldconfig": "/sbin/ldconfig.real: Can't create temporary cache file /etc/ld.so.cache~: Read-only file system\n",
    "modprobe": "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.14.0\n",
    "git-config": "error: could not lock config file /home/u/.gitconfig: File exists\n",
    "resolver": "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\n",
    "tty": "bash: cannot set terminal process group (-1): Inappropriate ioctl for device\n",
    "no-tpu": "I0930 10:07:15.56 469 xla_bridge.py:895] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so\n",
}
"""Lines that are no error, or that none ends of."""

PASSED = {
    "shopt-sh": "run.sh: 3: shopt: not found\n",
    "syntax-sh": 'sh: 2: Syntax error: "(" unexpected\n',
    "order-5": "kworker/u64:2: page allocation failure: order:5, mode:0x40dc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)\n",
    "git": "fatal: could not read Username for 'https://github.com': No such device or address\n",
    "sudo": "sudo: a password is required\n",
    "wget": "2024-01-03 12:00:01 ERROR 404: Not Found.\nusing the local copy\n",
    "wget-403": "2024-01-03 12:00:01 ERROR 403: Forbidden.\nusing the local copy\n",
    "tracker": "wandb: Network error (ConnectionError), entering retry loop.\n",
    "wget-429": "2024-01-03 12:00:01 ERROR 429: Too Many Requests.\nusing the local copy\n",
    "vendor": "This model requires a CPU with 32 cores for its best speed\n",
    "x11": "srun: error: x11_get_xauth: Could not retrieve magic cookie. Cannot use X11 forwarding.\n",
}
"""Errors of one command, after which the job continues: where it ends without a word, they may be why."""


def cause(log: str) -> str | None:
    found = verdict(log.splitlines(), Table(), "x")
    return found.pattern.cause if found else None


@pytest.mark.parametrize("name", CLUSTER | PASSED)
def test_a_line_that_ends_no_job_is_not_why_a_later_exception_is_raised(name):
    found = verdict(((CLUSTER | PASSED)[name] + END).splitlines(), Table(), "x")
    assert found is not None
    assert (found.pattern.cause, found.line) == ("exception", "ValueError: the rows of a batch differ")


@pytest.mark.parametrize("name", CLUSTER)
def test_a_line_that_is_no_error_is_not_why_a_job_ends_without_a_word_or_crashes(name):
    assert cause(CLUSTER[name]) in (None, "reported")
    assert cause(CLUSTER[name] + CRASHED) == cause(CRASHED) == "segmentation-fault"


def test_a_tracker_that_tries_its_server_once_more_is_not_why_a_program_crashes():
    assert cause(PASSED["tracker"] + CRASHED) == "segmentation-fault"


@pytest.mark.parametrize(
    ("log", "answer"),
    [
        ("sh: 1: conda: not found\n", "command-missing"),
        ("sh: 1: module: not found\n", "command-missing"),
        ("train.sh: 2: source: not found\n", "interpreter-missing"),
        ('train.sh: 2: Syntax error: "(" unexpected\n', "interpreter-missing"),
        ("ImportError: bad magic number in 'utils': b'\\x03\\xf3\\r\\n'\n", "build-mismatch"),
        ("slurmstepd: error: cannot find name for user ID 12345\n", "scheduler"),
        ("TERM_LOAD: job killed after exceeding load threshold\n", "scheduler"),
        ("Error: jsrun: error while loading\n", "launcher"),
        ("n1:1 [0] mm_xpmem.c:180  UCX  ERROR failed to attach xpmem apid 0x2: No such file\n", "fabric"),
        ("n1:1 mm_iface.c:680  UCX  ERROR Failed to create unix domain socket for signal: Too many\n", "fabric"),
        ("slurmstepd: error: spank: lua: spank_init failed\n", "scheduler"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 46 LTSSM Fault Up\n", "gpu-broken"),
        ("{1}[Hardware Error]: event severity: fatal\n", "node"),
        ("lost connection\n", "ssh-connection"),
        ("FATAL:   while mounting image /f: fuse2fs failed to mount /m in 10s: fuse2fs: Permission denied\n", "container-mount"),
        ("srun: error: Unable to confirm allocation for job 5: Job/step already completing or completed\n", "launcher"),
        ("train.sh: 3: source: not found\nModuleNotFoundError: No module named 'torch'\n", "missing-module"),
        ("curl: (58) could not load PEM client certificate\n", "configuration"),
    ],
)  # fmt: skip
def test_the_error_beside_it_is_still_known(log, answer):
    assert cause(log) == answer


def test_a_script_that_another_shell_ran_is_why_it_did_not_prepare_what_is_missing(tmp_path):
    log = "train.sh: 3: source: not found\nModuleNotFoundError: No module named 'torch'\n"
    assert asked(tmp_path, {0: log}, [0]).cause == "interpreter-missing"


@pytest.mark.parametrize(
    "error", ["Unable to create step for job 8:", "Unable to confirm allocation for job 8:"]
)
def test_a_step_of_a_job_that_was_ending_is_no_cause_where_another_is_known(error, tmp_path):
    line = f"srun: error: {error} Job/step already completing or completed\n"
    found = asked(tmp_path / "alone", {0: line}, [0])
    assert found.cause == "launcher"
    assert "was ending already" in found.means
    assert (
        cause(
            "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2024-01-03T03:00:11 DUE TO TIME LIMIT ***\n"
            + line
        )
        == "walltime"
    )


def test_a_checkpoint_on_nfs_is_not_a_temporary_directory(tmp_path):
    head = 'Traceback (most recent call last):\n  File "/e/transformers/trainer.py", line 9, in _rotate_checkpoints\n'
    end = (
        '  File "/e/shutil.py", line 681, in _rmtree_safe_fd\n'
        "OSError: [Errno 16] Device or resource busy: '.nfs01'\n"
    )
    assert "TMPDIR" not in asked(tmp_path / "a", {0: head + end}, [0]).next
    head = head.replace("transformers/trainer.py", "tempfile.py").replace("_rotate_checkpoints", "cleanup")
    assert "TMPDIR" in asked(tmp_path / "b", {0: head + end}, [0]).next


def test_what_a_mount_waited_for_is_a_number_of_seconds(tmp_path):
    line = "FATAL:   container creation failed: while mounting image /i.sif: squashfuse_ll failed to mount /m in 10s:: exit 1\n"
    assert "within 10s:" in asked(tmp_path, {0: line}, [0]).means
    assert "10s::" not in asked(tmp_path / "b", {0: line}, [0]).means
