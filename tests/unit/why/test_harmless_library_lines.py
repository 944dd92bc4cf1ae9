"""Lines that logs have though nothing failed, and exceptions of the user's own code, are no known error of a library."""

from __future__ import annotations

import pytest

from tests.unit.why.test_reported import asked

# ruff: noqa: E501 - messages as they are printed


def raised(error: str, *calls: str) -> str:
    """A traceback: of each call `FILE, FUNCTION, CODE`."""
    frames = [call.split(", ", 2) for call in calls or ("/w/train.py, main, run(config)",)]
    parts = [f'  File "{path}", line 31, in {name}\n    {code}\n' for path, name, code in frames]
    return f"Traceback (most recent call last):\n{''.join(parts)}{error}\n"


LATER = raised("ValueError: expected 7 shards, found 3")


@pytest.mark.parametrize(
    "line",
    [
        "Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype in Llama is torch.float32.",
        "FlashAttention only support fp16 and bf16 data type: using sdpa",
        "[mov,mp4,m4a @ 0x55d0] moov atom not found",
        "Image is incomplete or truncated: img_00031.jpg left out",
        "broken PNG file (chunk b'IDA')",
        "Could not decode image img_00031.jpg",
        "Could not import flash_attn rotary: No module named 'flash_attn_2_cuda'",
        "decord was not built with CUDA, so the CPU decodes",
        "xgboost: GPU is not enabled in this build",
        "Could not find 'vocab.txt'",
        "Could not load 'vocab.json'",
        "[autotune] config 3: CUDA error: too many resources requested for launch",
        "batch 30 is not divisible by the number of devices 8, dropping the last 6",
        "the tokenizer does not have a chat template, so a default one is taken",
        "token 50300 exceeds the maximum id of 50257",
        "Mismatched data in row 5 of part-3.csv",
        "Mismatched collective sizes: none",
        "the log file is already open in this process",
        "parts/0003 doesn't contain any data files",
        "context has already been set, so it is kept",
        "The search requires an API key, so it is off",
        "Required bindings for the notebook are loaded",
        "Parser key lr: 0.1",
        "error: validation failed: 3 rows of part-3.csv",
        "| Missing option for the augmentation | default |",
        "part-3.h5: Unable to open file (truncated file: eof = 96), so it is left out",
        "part-3.h5: Unable to create group (name already exists), so it is kept",
        "make: nvcc: Command not found",
        "Call to cuInit results in CUDA_ERROR_NO_DEVICE: the CPU is used",
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.",
        "  Caused by: invalid peer certificate: UnknownIssuer",
        "error: Failed to fetch: `https://pypi.org/simple/numpy/`",
        "E0318 17:45:05.166686 139645018964352 sharding.py:426] The available devices are different from the devices used to save the checkpoint.",
        "Unable to connect to endpoint, retry 1 of 5",
        "/usr/bin/ld: cannot find -lcufile: No such file or directory\ncollect2: error: ld returned 1 exit status",
        "(raylet) [2024-01-01 10:00:00,000 E 12 12] (raylet) file_system_monitor.cc:111: /tmp/ray/session_1 is over 95% full, available space: 24GB; capacity: 900GB.",
        "n1:12:12 [0] find_ofi_provider:603 NCCL WARN NET/OFI Couldn't find any optimal provider",
        "[LOG_CAT_ML] component ucx_p2p is not available but requested in hierarchy: ucx_p2p:p2p",
        "n1:12:12 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "n1:12:12 [0] NCCL WARN NET/IB : No device found.",
        "qt.qpa.xcb: could not connect to display",
        "MESA-LOADER: failed to open swrast: /usr/lib/dri/swrast_dri.so: cannot open shared object file: No such file or directory",
        "Failed to import pytorch custom ops with ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
        "bitsandbytes library load error: libcusparse.so.11: cannot open shared object file: No such file or directory",
        "Distant resource does not seem to be on huggingface.co: the local copy is used",
        "distributed.comm.core.CommClosedError: in <TCP (closed) ConnectionPool.heartbeat_worker>: Stream is closed",
        "Unable to find latest file at /s/run/latest, if trying to load latest checkpoint please ensure this file exists",
    ],
)
def test_a_line_without_harm_is_not_why_a_later_exception_ended_the_program(line, tmp_path):
    for number, log in enumerate((f"{line}\n{LATER}", f"{line}\nstep 1\nstep 2\n{LATER}")):
        found = asked(tmp_path / str(number), {0: log}, [0])
        assert (found.cause, found.line) == ("exception", "ValueError: expected 7 shards, found 3")


@pytest.mark.parametrize(
    "line",
    [
        "cusolverDnCreate returned CUSOLVER_STATUS_SUCCESS",
        "UserWarning: The operator 'aten::nonzero' is not currently supported on the MPS backend and will fall back to run on the CPU.",
        "==708142== Warning: ERR_NVGPUCTRPERM - The user does not have permission to profile on the target device.",
        "flux-slingshot: cxi0: cxil_destroy_svc: Device or resource busy",
        "1 compatible backends for target cuda",
        "[n1:02488] mca: base: component_find: unable to open /usr/lib/mca_shmem_mmap: perhaps a missing symbol, or compiled for a different version of Open MPI? (ignored)",
        "[TensorRT-LLM][INFO] MPI size: 4, TP: 2, PP: 2, world size is tp * pp",
        "curandCreateGenerator: CURAND_STATUS_SUCCESS",
        "+ python train.py --ignore_mismatched_sizes=True",
        "{'model': 'vit', 'ignore_mismatched_sizes=True': 1}",
        "label 3 of image 17: this looks incorrect",
        "token 50300 exceeds the maximum id of 50257",
        "Mismatched data in row 5 of part-3.csv",
        "Could not find 'vocab.txt'",
        "Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype in Llama is torch.float32.",
        "the log file is already open in this process",
        "the encoder was expecting shape (3, 4) but got (3, 5), so it is padded",
        "Parser key lr: 0.1",
    ],
)
def test_a_line_without_harm_is_not_why_a_program_ended_without_a_word(line, tmp_path):
    found = asked(tmp_path, {0: f"{line}\nstep 1\n"}, [0])
    assert found.cause in ("unknown", "reported")


@pytest.mark.parametrize(
    "log",
    [
        raised("ValueError: batch_size is required for evaluation"),
        raised("ValueError: `num_labels` is required."),
        raised("TypeError: data_dir is required"),
        raised("AssertionError: tokenizer is required to build the vocabulary"),
        raised("ValueError: the hooks must be installed before the first step"),
        raised(
            "KeyError: 'state'",
            "/e/lib/python3.12/site-packages/torch/utils/checkpoint.py, checkpoint, ret = function(*args)",
            "/w/block.py, forward, return self.cache['state']",
        ),
        raised("KeyError: 'epoch'", "/w/train.py, save_checkpoint, torch.save({'epoch': log['epoch']}, path)"),
        raised("KeyError: 'model'", "/scratch/checkpoints/run7/model.py, build, kind = table['model']"),
        raised("KeyError: 'step'", "/w/data.py, load_batch, return table['step']"),
        raised("KeyError: 'model'", "/w/load_model/build.py, load_model, kind = cfg['model']"),
        raised("AttributeError: 'float' object has no attribute 'backward'"),
        raised("AttributeError: 'NoneType' object has no attribute 'backward'"),
        raised("RuntimeError: The size of tensor a (0) must match the size of tensor b (4) at non-singleton dimension 1",
               "/w/boxes.py, iou, inter = a * b"),
        raised("TypeError: 'type' object is not subscriptable", '/w/train.py, main, lr = Config["lr"]'),
        raised("TypeError: unsupported operand type(s) for |: 'type' and 'int'", "/w/train.py, main, x = Mask | 3"),
        raised("ValueError: axes don't match array", "/w/data.py, __getitem__, x = x.transpose(2, 0, 1)"),
        raised(
            "TypeError: Block.__init__() missing 1 required positional argument: 'width'",
            "/w/core/saving.py, make, Block()",
        ),
        raised(
            "TypeError: Block.__init__() missing 1 required positional argument: 'width'",
            "/w/eval.py, main, Net.load_from_checkpoint(path)",
            "/w/net.py, __init__, self.block = Block()",
        ),
    ],
)  # fmt: skip
def test_an_exception_of_the_programs_own_code_stays_one(log, tmp_path):
    assert asked(tmp_path, {0: log}, [0]).cause == "exception"


@pytest.mark.parametrize(
    ("log", "cause", "way"),
    [
        (raised("RuntimeError: FlashAttention only support fp16 and bf16 data type"), "configuration", "bfloat16"),
        (raised("ImportError: pyarrow is required to read parquet"), "missing-module", ""),
        (raised("torch._inductor.exc.TritonMissing: triton is required to compile"), "missing-module", ""),
        (raised("ValueError: the datasets library must be installed"), "missing-module", ""),
        (raised("RuntimeError: deepspeed is required for this strategy (pip install deepspeed)"), "missing-module", ""),
        (raised("RuntimeError: The NVIDIA driver is not installed"), "exception", ""),
        (
            raised("KeyError: 'epoch'", "/w/train.py, load_checkpoint, start = state['epoch']"),
            "checkpoint-mismatch", "check the checkpoint's directory",
        ),
        (
            raised("KeyError: 'model'", "/w/train.py, main, model.load_state_dict(torch.load(path)['model'])"),
            "checkpoint-mismatch", "check the checkpoint's directory",
        ),
        (
            raised("KeyError: 'epoch'", "/w/train.py, main, start = checkpoint['epoch']"),
            "checkpoint-mismatch", "check the checkpoint's directory",
        ),
        (raised("AttributeError: 'DeepSpeedEngine' object has no attribute 'backward'"), "configuration", ".module"),
        (
            raised(
                "RuntimeError: The size of tensor a (0) must match the size of tensor b (4) at non-singleton dimension 1",
                "/e/lib/python3.12/site-packages/deepspeed/runtime/engine.py, forward, loss = self.module(*inputs)",
                "/w/model.py, forward, return x + self.bias",
            ),
            "configuration", "wrapped model",
        ),
        (
            raised("TypeError: 'type' object is not subscriptable", "/w/train.py, main, def f(x: list[int]):"),
            "build-mismatch", "newer Python",
        ),
        (raised("TypeError: unsupported operand type(s) for |: 'type' and 'type'"), "build-mismatch", "newer Python"),
        (
            raised("ValueError: axes don't match array", "/e/keras/legacy_h5_format.py, load_weights_from_hdf5_group, x"),
            "checkpoint-mismatch", "",
        ),
        (
            raised('ValueError: Trying to set a tensor of shape torch.Size([4, 8]) in "weight" (which has shape torch.Size([4, 9])), this looks incorrect.'),
            "checkpoint-mismatch", "",
        ),
        (raised("RuntimeError: CUDA error: CURAND_STATUS_LAUNCH_FAILURE"), "gpu-library", ""),
        (
            raised("RuntimeError: Vocabulary size too high (32000). Please set it to a value <= 512."),
            "configuration", "smaller vocabulary",
        ),
        (
            raised("AttributeError: partially initialized module 'cv2' has no attribute 'gapi_wip_gin_types' (most likely due to a circular import)"),
            "build-mismatch", "opencv",
        ),
        (
            "In 'train': Could not find 'model/vit_l'\n", "configuration", "overrides",
        ),
    ],
)  # fmt: skip
def test_what_a_library_raises_is_known(log, cause, way, tmp_path):
    found = asked(tmp_path, {0: log}, [0])
    assert found.cause == cause
    assert way in found.next


def test_an_image_is_looked_for_with_a_command_that_decodes_it(tmp_path):
    log = raised("RuntimeError: Could not decode image img_00031.jpg")
    assert "PIL.Image.open" in asked(tmp_path, {0: log}, [0]).next
