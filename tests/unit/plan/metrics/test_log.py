"""Metrics read from logs: lines as the trainers print them, and what becomes of their numbers."""

# ruff: noqa: E501 - lines as they are printed

from __future__ import annotations

import pytest

from dlrun.model.spec import Metric
from dlrun.plan.metrics.log import RunSize, read_metric

FOUR = RunSize(ranks=4, global_batch=256)

HOROVOD = """\
Model: resnet50
Running warmup...
Running benchmark...
Iter #0: 310.1 img/sec per GPU
Iter #1: 325.0 img/sec per GPU
Iter #2: 326.0 img/sec per GPU
Img/sec per GPU: 320.4 +-10.9
Total img/sec on 4 GPU(s): 1281.5 +-43.7
"""
TF_CNN = """\
Step\tImg/sec\ttotal_loss
1\timages/sec: 151.0 +/- 0.0 (jitter = 0.0)\t8.220
10\timages/sec: 160.5 +/- 0.2 (jitter = 0.6)\t7.880
20\timages/sec: 162.5 +/- 0.2 (jitter = 0.6)\t7.910
----------------------------------------------------------------
total images/sec: 641.92
----------------------------------------------------------------
"""
MXNET = """\
INFO:root:Epoch[0] Batch [20]\tSpeed: 101.00 samples/sec\taccuracy=0.10
INFO:root:Epoch[0] Batch [40]\tSpeed: 110.00 samples/sec\taccuracy=0.12
INFO:root:Epoch[0] Batch [20-60]\tSpeed: 112.00 samples/sec\taccuracy=0.12
"""
CAFFE = """\
I0301 10:00:00.000000  1 solver.cpp:239] Iteration 0 (0 iter/s, 1.2s/40 iters), loss = 7.1
I0301 10:00:10.000000  1 solver.cpp:239] Iteration 40 (4 iter/s, 10s/40 iters), loss = 6.9
I0301 10:00:20.000000  1 solver.cpp:239] Iteration 80 (4.5 iter/s, 9.1s/40 iters), loss = 6.8
"""
DEEPSPEED = """\
[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step=199, RunningAvgSamplesPerSec=58.73, CurrSamplesPerSec=61.353, MemAllocated=6.01GB
[2024-03-07 15:27:12,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=209/global_step=209, RunningAvgSamplesPerSec=58.80, CurrSamplesPerSec=61.5, MemAllocated=6.01GB
"""
MEGATRON = " [2025-04-13 23:41:12] iteration       10/    1000 | consumed samples:          160 | elapsed time per iteration (ms): 1000.0 | learning rate: 0.0E+00 | global batch size:    16 | lm loss: 1.0E+01 |\n"
TIMM = "Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.94)  Time: 0.210s, 1219.05/s  (0.220s, 1163.64/s)  LR: 1.0e-06  Data: 0.003 (0.010)\n"
HF = "{'train_runtime': 71.5487, 'train_samples_per_second': 6.709, 'train_steps_per_second': 0.839, 'epoch': 4.64}\n"
HF_TABLE = "  train_samples_per_second =      123.4\n"
LIGHTNING = "\rEpoch 0:  50%|#####     | 5/10 [00:01<00:01,  4.00it/s, v_num=0]\rEpoch 0: 100%|##########| 10/10 [00:02<00:00,  5.00it/s, v_num=0]\n"
SLOW_BAR = "100%|##########| 60/60 [01:11<00:00,  2.00s/it]\n"
IMAGENET = "Epoch: [0][  10/5005]\tTime  0.500 ( 0.612)\tData  0.001 ( 0.120)\tLoss 6.9e+00 (7.0e+00)\n"
KERAS = "\x1b[1m1875/1875\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m3s\x1b[0m 2ms/step - accuracy: 0.87 - loss: 0.42\n"
NCCL = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 47.4509 \n#\n"
PLAIN = "epoch  1  loss 0.5123  12345 samples/s\n"
THOUSANDS = "throughput: 161,849.35 samples/s, lr: 1.3e-05\n"
JSON = 'INFO {"step": 1}\n{"step": 2, "throughput": 900.5, "images/sec": 3}\n'


@pytest.mark.parametrize(
    ("log", "value", "unit", "by", "count", "skipped"),
    [
        (HOROVOD, 4 * 325.5, "images/s", "Horovod's synthetic benchmark", 3, 1),
        (HOROVOD[HOROVOD.index("Img/sec"):], 1281.5, "images/s", "Horovod's synthetic benchmark, total", 1, 0),
        (TF_CNN, 4 * 161.5, "images/s", "tf_cnn_benchmarks", 3, 1),
        (TF_CNN[TF_CNN.index("---"):], 641.92, "images/s", "tf_cnn_benchmarks, total", 1, 0),
        (MXNET, 4 * 111.0, "samples/s", "MXNet's Speedometer", 3, 1),
        (CAFFE, 256 * 4.25, "samples/s", "Caffe", 3, 1),
        (DEEPSPEED, 61.4265, "samples/s", "DeepSpeed", 2, 0),
        (MEGATRON, 16.0, "samples/s", "Megatron-LM", 1, 0),
        (TIMM, 1219.05, "images/s", "timm", 1, 0),
        (HF, 6.709, "samples/s", "Hugging Face's Trainer", 1, 0),
        (HF_TABLE, 123.4, "samples/s", "Hugging Face's Trainer", 1, 0),
        (LIGHTNING, 256 * 4.5, "samples/s", "a progress bar (tqdm; Lightning, Hugging Face)", 2, 0),
        (SLOW_BAR, 128.0, "samples/s", "a slow progress bar (tqdm; Lightning, Hugging Face)", 1, 0),
        (IMAGENET, 512.0, "samples/s", "PyTorch's ImageNet example", 1, 0),
        (KERAS, 128_000.0, "samples/s", "Keras", 1, 0),
        (NCCL, 47.4509, "GB/s", "NCCL tests", 1, 0),
        (PLAIN, 12345.0, "samples/s", "a number of samples a second", 1, 0),
        (THOUSANDS, 161849.35, "samples/s", "a number of samples a second", 1, 0),
        (JSON, 900.5, "samples/s", "JSON", 1, 0),
    ],
)  # fmt: skip
def test_what_trainers_print(log, value, unit, by, count, skipped):
    found = read_metric("throughput", Metric(), log.splitlines(keepends=True), FOUR)
    assert found is not None
    assert found.value == pytest.approx(value)
    assert (found.unit, found.by, len(found.values), found.skipped) == (unit, by, count, skipped)


def test_steps_stay_steps_where_nobody_says_how_large_one_is():
    found = read_metric("throughput", Metric(), CAFFE.splitlines(), RunSize(ranks=4, global_batch=None))
    assert found is not None
    assert (found.value, found.unit) == (4.25, "steps/s")


@pytest.mark.parametrize(
    "log", ["", "epoch 1 loss 0.3\n", "took 3 s/epoch\n", "{broken\n", "speed: nan samples/s\n"]
)
def test_a_log_without_a_speed_has_none(log):
    assert read_metric("throughput", Metric(), log.splitlines(), FOUR) is None


LOSSES = [f"step {n} loss {value} lr 0.1" for n, value in enumerate((9.0, 4.0, 2.0, 3.0, 1.0))]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (Metric(pattern="loss ([0-9.]+)"), 1.0),
        (Metric(pattern="loss ([0-9.]+)", take="min"), 1.0),
        (Metric(pattern="loss ([0-9.]+)", take="max"), 9.0),
        (Metric(pattern="loss ([0-9.]+)", take="max", skip=1), 4.0),
        (Metric(pattern="loss ([0-9.]+)", take="median"), 3.0),
        (Metric(pattern="loss ([0-9.]+)", take="mean", skip=3), 2.0),
        (Metric(pattern="loss ([0-9.]+)", take="mean", skip=99), 1.0),
        (Metric(pattern="(step) (?P<value>[0-9])", of="rank"), 16.0),
        (Metric(pattern="step ([0-9])", of="steps"), 4 * 256.0),
        (Metric(pattern="loss ([0-9.]+)", of="step_time"), 256.0),
        (Metric(pattern="loss (x+)"), None),
        (Metric(pattern="(loss)"), None),
    ],
)
def test_what_the_spec_asks_for(metric, value):
    found = read_metric("loss", metric, LOSSES, FOUR)
    assert (found.value if found else None) == value


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"perf": {"ips": 7}}', 7.0),
        ('2024 INFO {"perf": {"ips": "7.5"}}', 7.5),
        ('{"perf": {"ips": true}}', None),
        ('{"perf": {"ips": NaN}}', None),
        ('{"perf": [1]}', None),
        ('{"perf": ', None),
        ("[" * 100_000 + '{"perf"', None),
        ('{"perf": {"ips": 1' + "0" * 400 + "}}", None),
    ],
)
def test_json_lines(line, value):
    found = read_metric("x", Metric(json="perf.ips"), [line], FOUR)
    assert (found.value if found else None) == value


def test_a_progress_bars_states_are_read_one_by_one():
    found = read_metric("x", Metric(pattern=r"([0-9]+)/10 "), ["\r1/10 a\r2/10 b\r10/10 c\n"], FOUR)
    assert found is not None
    assert found.values == (1.0, 2.0, 10.0)
