"""Formats in which common trainers print their throughput: one pattern per format, with its source.

Groups of a pattern: `value` is a rate; `time` the duration of one step (with `scale`: in `s`, `ms` or `us`); `batch` the
samples per step; `unit` the counted unit.
"""

from __future__ import annotations

import re
from typing import Literal

from dlrun.model.record import record

_NUMBER = r"[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?"


@record(frozen=True, slots=True, kw_only=True)
class Printed:
    """One format of a throughput; `of` as in a spec's metric. `source` is the source file that prints it."""

    name: str
    pattern: re.Pattern[str]
    of: Literal["job", "rank", "steps"]
    unit: str
    source: str


def _printed(name: str, pattern: str, of: Literal["job", "rank", "steps"], unit: str, source: str) -> Printed:
    compiled = re.compile(pattern.replace("NUMBER", _NUMBER))
    return Printed(name=name, pattern=compiled, of=of, unit=unit, source=source)


TRAINERS: tuple[Printed, ...] = (
    _printed(
        "Horovod's synthetic benchmark", r"Iter #\d+: (?P<value>NUMBER) img/sec per ", "rank", "images/s",
        "horovod/horovod examples/pytorch/pytorch_synthetic_benchmark.py",
    ),
    _printed(
        "Horovod's synthetic benchmark, total", r"Total img/sec on \d+ \S+\(s\): (?P<value>NUMBER) ", "job", "images/s",
        "horovod/horovod examples/pytorch/pytorch_synthetic_benchmark.py",
    ),
    _printed(
        "tf_cnn_benchmarks", r"\bimages/sec: (?P<value>NUMBER) \+/- ", "rank", "images/s",
        "tensorflow/benchmarks scripts/tf_cnn_benchmarks/benchmark_cnn.py",
    ),
    _printed(
        "tf_cnn_benchmarks, total", r"\btotal images/sec: (?P<value>NUMBER)", "job", "images/s",
        "tensorflow/benchmarks scripts/tf_cnn_benchmarks/benchmark_cnn.py",
    ),
    _printed(
        "MXNet's Speedometer", r"\bSpeed: (?P<value>NUMBER) samples/sec", "rank", "samples/s",
        "apache/mxnet python/mxnet/callback.py",
    ),
    _printed(
        "Caffe", r"\bIteration \d+ \((?P<value>NUMBER) iter/s, ", "steps", "steps/s",
        "BVLC/caffe src/caffe/solver.cpp",
    ),
    _printed(
        "Hugging Face's Trainer", r"\btrain_samples_per_second['\"]?\s*[:=]\s*['\"]?(?P<value>NUMBER)", "job",
        "samples/s", "huggingface/transformers src/transformers/trainer_utils.py",
    ),
    _printed(
        "DeepSpeed", r"\bCurrSamplesPerSec=(?P<value>NUMBER)", "job", "samples/s",
        "deepspeedai/DeepSpeed deepspeed/utils/timer.py",
    ),
    _printed(
        "Megatron-LM",
        r"elapsed time per iteration \((?P<scale>ms)\): (?P<time>NUMBER) \|.* global batch size:\s*(?P<batch>\d+)",
        "job", "samples/s", "NVIDIA/Megatron-LM megatron/training/training.py",
    ),
    _printed(
        "timm", r"\bTrain: .*\bTime: NUMBERs,\s+(?P<value>NUMBER)/s", "job", "images/s",
        "huggingface/pytorch-image-models train.py",
    ),
    _printed(
        "PyTorch's ImageNet example", r"^Epoch: \[\d+\]\[\s*\d+/\d+\]\s+Time\s+(?P<time>NUMBER)\s", "steps", "steps/s",
        "pytorch/examples imagenet/main.py",
    ),
    _printed(
        "Keras", r"\s(?P<time>\d+)(?P<scale>us|ms|s)/step\b", "steps", "steps/s",
        "keras-team/keras keras/src/utils/progbar.py",
    ),
    _printed(
        "NCCL tests", r"^# Avg bus bandwidth\s*: (?P<value>NUMBER)", "job", "GB/s",
        "NVIDIA/nccl-tests src/common.cu",
    ),
    _printed(
        "a number of samples a second",
        r"(?<![\w.])(?P<value>NUMBER)\s*(?P<unit>samples|images|imgs?|examples|sequences|seqs?|records)/s(?:ec(?:ond)?)?\b",
        "job", "samples/s", "the usual form",
    ),
    _printed(
        "a number of tokens a second", r"(?<![\w.])(?P<value>NUMBER)\s*(?P<unit>tokens|toks?)/s(?:ec(?:ond)?)?\b",
        "job", "tokens/s", "the usual form",
    ),
    _printed(
        "a progress bar (tqdm; Lightning, Hugging Face)", r"\d+/\d+ \[[^\]]*[, ](?P<value>NUMBER) ?it/s\b", "steps",
        "steps/s", "tqdm/tqdm tqdm/std.py",
    ),
    _printed(
        "a slow progress bar (tqdm; Lightning, Hugging Face)", r"\d+/\d+ \[[^\]]*[, ](?P<time>NUMBER) ?s/it\b",
        "steps", "steps/s", "tqdm/tqdm tqdm/std.py",
    ),
)  # fmt: skip
"""In order of precision: among the formats in a log, the first in this list counts."""

JSON_KEYS = ("throughput", "samples_per_second", "samples_per_sec", "images_per_second", "images_per_sec")
"""Keys of the whole job's throughput in lines that are JSON objects."""
