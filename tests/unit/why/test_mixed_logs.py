"""`dlrun why` on a cause among what others print: launchers' prefixes, counts of errors, progress bars, what follows an end."""

from __future__ import annotations

import itertools

import pytest

from dlrun.why.matching import Table
from dlrun.why.verdict import verdict
from tests.unit.why.test_reported import asked

FRAME = 'Traceback (most recent call last):\n  File "/w/train.py", line 90, in step\n'
ROOTS = {
    "gpu-memory": f"{FRAME}    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.\n",
    "disk-full": f"{FRAME}    torch.save(state, path)\nOSError: [Errno 28] No space left on device\n",
    "missing-module": f"{FRAME}    import flash_attn\nModuleNotFoundError: No module named 'flash_attn'\n",
    "exception": f"{FRAME}    y = batch['labels_']\nKeyError: 'labels_'\n",
    "checkpoint-mismatch": f"{FRAME}    model.load_state_dict(state)\n"
    "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.weight: copying a param with shape"
    " torch.Size([10, 512]) from checkpoint, the shape in current model is torch.Size([100, 512]).\n",
    "fabric": "n1:1:9 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<41231> with status=12 opcode=0 len=0 vendor err"
    f" 129 (Recv)\n{FRAME}    dist.all_reduce(x)\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n",
    "killed": "/var/spool/slurmd/job00123/slurm_script: line 22: 81232 Killed                  python train.py --cfg a.yaml\n",
    "walltime": "slurmstepd: error: *** JOB 4711 ON n12 CANCELLED AT 2024-01-03T03:00:11 DUE TO TIME LIMIT ***\n",
}
BENIGN = """0 errors, 0 warnings
error_rate=0.1 top5_error: 0.05
step 100 | loss 2.1 | validation error: 0.231
checked 1000 files: no errors found, failed: 0
2024-01-03 12:00:01 INFO retrying after timeout (attempt 2) ... ok
WARNING: connection to tracker timed out; retrying in 5 s
INFO download of shard 3 failed: Connection reset by peer; retrying ... ok
resuming after out of memory in the previous run with batch 16
CUDA out of memory handling: enabled
on_error: ignore   killed: no   oom: 0   nan_check: true
{"errors": 0, "timeout": 1800, "loss": 2.31}
Permission denied counter: 0
disk full threshold 95 %: 31 % used
FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', args...)` instead.
E0103 12:00:00.000001 123 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN
Could not find TensorRT
n1:77:101 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file
No module named 'apex'; using torch.optim instead
Failed to import flash_attn, falling back to sdpa
skipping bad sample 17: UnidentifiedImageError: cannot identify image file
"""
AFTER = """WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4021 closing signal SIGTERM
[rank0]:[W1120 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct it.
Exception ignored in atexit callback: <function _exit_function at 0x7f>
Traceback (most recent call last):
  File "/e/lib/python3.10/multiprocessing/util.py", line 360, in _exit_function
    p.join()
KeyboardInterrupt:
srun: error: n1: task 3: Exited with exit code 1
srun: Terminating StepId=77.0
slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2024-01-03T03:00:11 ***
srun: error: n1: tasks 0-2: Terminated
"""
STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f} | lr 1e-4\n" for n in range(60))
BAR = "\r".join(f"Epoch 1: {n}%|{'#' * (n // 10)}| {n}/100 [00:10<01:00, 3.1it/s]" for n in range(100))
PREFIXES = (
    "",
    "[rank3]: ",
    "[default3]:",
    "[1,3]<stderr>:",
    "3: ",
    " 3: ",
    "n12: ",
    "[3] ",
    "2024-01-03 12:00:01 ",
    "2024-01-03T12:00:01.123456789Z ",
    "Wed Jan  3 12:00:01 2024[1,3]<stderr>:",
    "(Worker pid=123, ip=10.0.0.1) ",
    "[rank: 3] ",
    "stderr: ",
    "pod-3 | ",
    "12:00:01.123 [rank3] ",
    "<3>",
    "Jan  3 12:00:01 n12 python[4242]: ",
    "<11>Jan 03 12:00:01 n12 kernel: ",
    "2024-01-03T12:00:01.123456+01:00 n12 train[4242]: ",
    "<14>1 2024-01-03T12:00:01.123Z n12 train 4242 - - ",
    "3,812,81245361234,-;",
    "[Wed Jan  3 12:00:01 2024] ",
    "kern  :err   : [Wed Jan  3 12:00:01 2024] ",
    "\x1b[31m\x1b[1m",
    "\x00",
)
"""Of torchrun, mpirun, srun, pdsh, Hydra, collectors of logs, Horovod, Ray, Lightning, accelerate, Docker, syslog, journald,
the kernel; colours, UTF-16."""


@pytest.mark.parametrize("cause", ROOTS)
def test_the_cause_is_found_among_what_others_print(cause):
    root = ROOTS[cause]
    mixes = (root, STEPS + BENIGN + root, f"{BAR}\n{BENIGN}{BAR}\n{root}{AFTER}")
    wrong, table = [], Table()
    for number, (text, prefix) in enumerate(itertools.product(mixes, PREFIXES)):
        before = text.splitlines(keepends=True)
        found = verdict([prefix + line.rstrip("\r\n") for line in before], table, "x")
        if (found.pattern.cause if found else None) != cause:
            # Three lines are too few to know that each has the prefix.
            wrong += [(number, prefix, found and found.line)] if len(before) > 4 else []
    assert wrong == []


def test_a_count_of_errors_and_what_a_program_works_around_is_no_cause():
    assert verdict((STEPS + BENIGN).splitlines(), Table(), "x") is None
    for line in BENIGN.splitlines():
        found = verdict([*STEPS.splitlines(), line], Table(), "x")
        assert found is None, line


def test_the_line_is_shown_as_the_log_has_it(tmp_path):
    log = "".join(f"[1,3]<stderr>:{line}" for line in (STEPS + ROOTS["disk-full"]).splitlines(keepends=True))
    found = asked(tmp_path, {0: log}, [0])
    assert (found.cause, found.line) == (
        "disk-full",
        "[1,3]<stderr>:OSError: [Errno 28] No space left on device",
    )


def test_lines_of_one_kind_in_a_log_keep_their_level():
    log = "".join(
        f"2024-01-03 12:00:{n:02d} WARNING cannot reach cache-{n}: Connection refused\n" for n in range(9)
    )
    assert verdict(log.splitlines(), Table(), "x") is None


AT_ERROR = (
    "ERROR: ",
    "ERROR ",
    "ERROR    ",
    "[ERROR] ",
    "error: ",
    "ERROR:root:",
    "[ERROR] train: ",
    "2024-01-03 12:00:01,123 - train - ERROR - ",
    "2024-01-03 12:00:01.123 | ERROR    | __main__:log:12 - ",
    "[2024-01-03 12:00:01,123] [ERROR] [launch.py:320:main] ",
    "ERROR 01-03 12:00:01 [core.py:1] ",
    "E0103 12:00:00.000001 123 run.py:12] ",
    'time="2024-01-03T12:00:01Z" level=error msg=',
    "[rank3]: ERROR ",
    "[1,3]<stderr>:ERROR:root:",
)
"""What a logger or a collector at one level puts before each line: logging's forms, loguru, DeepSpeed, vLLM, glog, logrus."""


@pytest.mark.parametrize("prefix", AT_ERROR)
def test_a_level_that_all_lines_have_is_no_evidence(prefix):
    def of(text):
        return verdict([prefix + line.rstrip("\r\n") for line in text.splitlines()], Table(), "x")

    assert of(STEPS + BENIGN) is None
    for cause, root in ROOTS.items():
        for text in (STEPS + BENIGN + root, f"{STEPS}{BENIGN}{STEPS}{root}{AFTER}"):
            found = of(text)
            assert (found.pattern.cause if found else None) == cause, text[-300:]


BAR_LINES = "".join(f" {n}%|{'#' * (n // 10)}| {n}/100 [00:10<01:00, 3.1it/s]\n" for n in range(0, 100, 9))


@pytest.mark.parametrize("form", ["{} ", "[{}] ", "2024-01-03 12:00:01,123 - run - {} - ", "{}:run:"])
def test_a_collector_that_has_one_level_for_each_stream_is_no_evidence(form):
    """stdout at INFO, stderr at ERROR: warnings, progress bars and tracebacks are all at ERROR."""

    def of(errors):
        every = [
            (STEPS, "INFO"),
            (BAR_LINES + BENIGN, "ERROR"),
            ("step 61 | loss 2\n", "INFO"),
            (errors, "ERROR"),
        ]
        lines = [form.format(level) + line for text, level in every for line in text.splitlines()]
        return verdict(lines, Table(), "x")

    assert of("") is None
    for cause, root in ROOTS.items():
        found = of(root)
        assert (found.pattern.cause if found else None) == cause


def test_a_logger_with_several_levels_keeps_them():
    log = "".join(f"INFO step {n} loss 2.1\n" for n in range(40)) + "ERROR shard 14 has no index\n" * 5
    found = verdict(log.splitlines(), Table(), "x")
    assert found is not None
    assert "shard 14" in found.pattern.means
    few = "ERROR loader: shard 14 has no index\n" * 4
    found = verdict(few.splitlines(), Table(), "x")
    assert found is not None
    assert "shard 14" in found.pattern.means


CAUGHT = (
    f"{FRAME}    import apex\nModuleNotFoundError: No module named 'apex'\nfalling back to torch.optim\n",
    (
        'Exception in thread NetStatThr:\nTraceback (most recent call last):\n  File "/e/threading.py", line 1016, in run\n'
        "BrokenPipeError: [Errno 32] Broken pipe\n"
    ),
    (
        f"ERROR loader: sample 17 cannot be decoded\n{FRAME}    img = Image.open(p)\n"
        "PIL.UnidentifiedImageError: cannot identify image file '/d/17.jpg'\n"
    ),
    f"{FRAME}    model(x)\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nbatch 64 does not fit\n",
    f"{FRAME}    torch.load(p)\nFileNotFoundError: [Errno 2] No such file or directory: '/s/last.pt'\nstarting from scratch\n",
    "n1:1:1 [0] NCCL WARN NET/IB : No device found.\n",
    "mkdir: cannot create directory '/local': Permission denied\n",
    'Lmod has detected the following error: The following module(s) are unknown: "cuda/99"\n',
    "OSError: [Errno 28] No space left on device\nskipping the snapshot\n",
)
"""Errors after which a program continues."""
ENDS = {
    "walltime": ROOTS["walltime"],
    "killed": ROOTS["killed"],
    "segmentation-fault": "Fatal Python error: Segmentation fault\n\nThread 0x7f (most recent call first):\n"
    '  File "/w/x.py", line 3 in f\n',
    "memory": "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.\n",
    "terminated": "torch.distributed.elastic.multiprocessing.api.SignalException: Process 87 got signal: 15\n",
    "collective-timeout": "[rank3]:[E1119 13:21:12.512 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation"
    " timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800000 milliseconds before timing out.\n",
    "exception": ROOTS["exception"],
}


@pytest.mark.parametrize("cause", ENDS)
@pytest.mark.parametrize("count", [5, 30])
def test_an_error_before_more_steps_of_the_training_is_not_why_it_ended(cause, count):
    steps = "".join(f"step {n} | loss 2.1 | lr 1e-4\n" for n in range(count))
    ends = [verdict(f"start\n{old}{steps}{ENDS[cause]}".splitlines(), Table(), "x") for old in CAUGHT]
    assert [found and found.pattern.cause for found in ends] == [cause] * len(CAUGHT)
    assert all(verdict(f"start\n{old}{steps}".splitlines(), Table(), "x") is None for old in CAUGHT)


PROGRESS = (
    "Epoch: [0][{:5}/5005]\tTime  0.512 ( 0.61)\tData  0.01 ( 0.02)\tLoss 6.95e+00 (6.95e+00)\tAcc@1   0.39 (  0.20)",
    "Train Epoch: 1 [{}/60000 (7%)]\tLoss: 0.301123",
    "Train: 0 [{:5}/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.51s, 500/s  LR: 1.0e-05  Data: 0.01",
    "  7%|#         | {}/100 [00:07<01:40,  1.00s/it]",
    "Epoch 0:   7%|#     | {}/100 [00:07<01:40,  1.00it/s, v_num=0, train_loss=2.11]",
    "{:4}/1875 [>.............................] - ETA: 5:12 - loss: 2.3012 - accuracy: 0.1",
    "{}/938 ━━━━━━━━━━━━━━━━━━━━ 12s 14ms/step - accuracy: 0.50 - loss: 1.23",
    "2024-01-03 12:00:01 - mmengine - INFO - Epoch(train)  [1][{:4}/1000]  lr: 1.0e-03  eta: 1:00:00  time: 0.5  loss: 1.2",
    "2022-01-03 12:00:01,123 - mmdet - INFO - Epoch [1][{}/7330]\tlr: 1.978e-03, eta: 1 day, loss: 1.2",
    "2021-01-03 12:00:01 | INFO | train_inner | epoch 001:    {} / 5000 loss=9.1, ppl=500, lr=1e-5",
    "Training epoch 0, iteration {}/99 | lr: 1e-06 | global_batch_size: 4 | reduced_train_loss: 11.2 | time in s: 5.1",
    " [2024-01-03 12:00:01] iteration {:8}/  500000 | consumed samples: 25600 | elapsed time (ms): 612.1 | lm loss: 9.1E+00 |",
    "[batch={}/100]:\n\t Train time/batch: 3\n\t Train loss/train/total: 12.1",
    "Epoch {}/90 done in 31.2 s: train_loss=2.1 val_acc=0.71",
    "epoch {} finished in 31.2 s",
    "iteration {}: reward 12.1, kl 0.01",
    "[step {}] tok/s 1200, mem 30 GB",
)
"""Steps and epochs in the forms of trainers: examples of PyTorch, timm, tqdm, Lightning, Keras, MMEngine, fairseq, NeMo,
Megatron, Composer, and programs of their own."""


@pytest.mark.parametrize("form", PROGRESS)
def test_steps_of_any_form_are_known_after_an_error(form):
    steps = "".join(f"{form.format(n)}\n" for n in range(7, 10))
    table, wrong = Table(), []
    for old, (cause, end) in itertools.product(CAUGHT, ENDS.items()):
        found = verdict(f"start\n{old}{steps}{end}".splitlines(), table, "x")
        wrong += [] if found and found.pattern.cause == cause else [(cause, found and found.line)]
    assert wrong == []
    assert all(verdict(f"start\n{old}{steps}".splitlines(), table, "x") is None for old in CAUGHT)


@pytest.mark.parametrize("form", PROGRESS)
def test_a_step_of_each_of_many_ranks_is_no_proof_that_the_program_continued(form):
    same = "".join(f"{form.format(n)}\n" for n in (7, 8) * 4)
    for cause in ("killed", "terminated", "collective-timeout"):
        found = verdict(f"start\n{ROOTS['gpu-memory']}{same}{ENDS[cause]}".splitlines(), Table(), "x")
        assert found is not None
        assert found.pattern.cause == "gpu-memory"


@pytest.mark.parametrize(
    "other",
    [
        "Loading checkpoint shards:  {0}0%|#    | {0}/9 [00:07<01:40,  1.00s/it]",
        "[rank{0}] failed at step {0}: its peer is lost",
        "Loading the checkpoint of step {0}",
    ],
)
def test_what_other_ranks_print_after_an_error_is_no_step(other):
    rest = "".join(f"{other.format(n)}\n" for n in range(1, 7))
    found = verdict(f"start\n{ROOTS['gpu-memory']}{rest}{ENDS['killed']}".splitlines(), Table(), "x")
    assert found is not None
    assert found.pattern.cause == "gpu-memory"


@pytest.mark.parametrize("cause", ["walltime", "memory", "segmentation-fault", "exception"])
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_before_one_step_is_not_why_a_process_ended_that_ended_by_itself(cause, count):
    steps = "".join(f"step {n} | loss 2.1 | lr 1e-4\n" for n in range(count))
    ends = [verdict(f"start\n{old}{steps}{ENDS[cause]}".splitlines(), Table(), "x") for old in CAUGHT]
    assert [found and found.pattern.cause for found in ends] == [cause] * len(CAUGHT)


@pytest.mark.parametrize("cause", ["killed", "terminated", "collective-timeout"])
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_after_which_a_program_announced_that_it_continues_and_did_is_not_why_it_was_ended(
    cause, count
):
    """Without such words the error of another process may be why this one was ended, or waited."""
    steps = "".join(f"step {n} | loss 2.1 | lr 1e-4\n" for n in range(count))
    words = [
        old
        for old in CAUGHT
        if any(word in old for word in ("falling back", "from scratch", "skipping", "mkdir:", "Lmod"))
    ]
    assert len(words) == 5
    ends = [verdict(f"start\n{old}{steps}{ENDS[cause]}".splitlines(), Table(), "x") for old in words]
    assert [found and found.pattern.cause for found in ends] == [cause] * 5
    found = verdict(f"start\n{ROOTS['disk-full']}{steps}{ENDS[cause]}".splitlines(), Table(), "x")
    assert found is not None
    assert found.pattern.cause == "disk-full"


@pytest.mark.parametrize(
    ("failed", "broken"),
    [
        (
            "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n",
            "79, pid=812, GPU has fallen off the bus.",
        ),
        (
            "torch.AcceleratorError: CUDA error: unspecified launch failure\n",
            "48, pid=812, DBE (double bit error)",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.\n",
            "95, pid=812, Uncontained error",
        ),
    ],
)
def test_what_the_kernel_reports_of_a_gpu_is_why_programs_failed_before_it(failed, broken):
    kernel = f"[81245.36] NVRM: Xid (PCI:0000:1b:00): {broken}\n"
    for text in (f"{FRAME}{failed}{kernel}", f"{kernel}{FRAME}{failed}"):
        found = verdict((STEPS + text).splitlines(), Table(), "x")
        assert found is not None
        assert found.pattern.cause == "gpu-broken"


@pytest.mark.parametrize(
    "after",
    [
        b"\xff\xfe\x9d" * 4000 + b"\n\x8d\n" * 60,
        b'Thread 0x7f (most recent call first):\n  File "/e/threading.py", line 3 in wait\n' * 300,
        b"frame #12: c10d::ProcessGroupNCCL::Watchdog + 0x1f (0x7f in /e/lib/libtorch_cuda.so)\n" * 900,
        b"n1:1:2 [0] NCCL INFO comm 0x1f rank 0 nranks 4 cudaDev 0 busId 1000 - Abort COMPLETE\n" * 900,
    ],
    ids=["binary", "threads", "frames", "nccl"],
)
def test_what_is_written_at_an_end_may_be_long(after):
    text = (STEPS + ROOTS["gpu-memory"]).encode() + after
    found = verdict(text.decode("utf-8", "replace").splitlines(), Table(), "x")
    assert found is not None
    assert found.pattern.cause == "gpu-memory"
