"""`dlrun why` on logs of megabytes: the root above what others print of it, at a bounded cost."""

from __future__ import annotations

import io

import pytest

from dlrun.why import evidence as why_evidence
from dlrun.why.context import whole
from dlrun.why.of_a_log import of_stream
from tests.unit.why.test_mixed_logs import ENDS, FRAME, ROOTS, STEPS
from tests.unit.why.test_reported import asked

LOST = f"{FRAME}    dist.all_reduce(x)\nncclRemoteError: A call failed possibly due to a network error.\n"
NOISE = {
    "nccl": "".join(
        f"n{n % 97}:{n}:{n * 7} [{n % 8}] NCCL INFO Channel {n % 32:02d}/0 : {n % 64} -> {n % 63} via P2P/CUMEM\n"
        f"n{n % 97}:{n}:{n} [{n % 8}] NCCL WARN socketProgress: Connection closed by remote peer n{n % 61}<{n}>\n"
        for n in range(6000)
    ),
    "gloo": "".join(
        f"[rank{n % 512}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
        f" [10.1.{n % 255}.9]:{n}\n"
        for n in range(6000)
    ),
    "tracebacks": "".join(
        f"[rank{n % 512}]: {line}\n" for n in range(1600) for line in LOST.splitlines()
    ),
    "bars": "".join(f"\rLoading: {n % 100}%|{'#' * (n % 10)}| {n}/9000 [00:10<01:00, 3.1it/s]" for n in range(9000)) + "\n",
    "frames": "".join(f"frame #{n % 40}: <unknown> + 0x{n:x} (0x7f{n:x} in /e/lib/libtorch.so)\n" for n in range(9000)),
}  # fmt: skip
NOISE = {
    name: text[: text.index("\n", why_evidence.TAIL + 9000) + 1]
    for name, text in NOISE.items()
    if name != "bars"
} | {"bars": NOISE["bars"]}
SOME = {cause: ROOTS[cause] for cause in ("gpu-memory", "exception", "killed")}


def of(text: str) -> str:
    return of_stream("x", io.BytesIO(text.encode())).cause


@pytest.mark.parametrize("noise", NOISE)
def test_the_root_is_found_above_what_others_print(noise):
    assert len(NOISE[noise]) > why_evidence.TAIL
    found = {cause: of(STEPS + root + NOISE[noise]) for cause, root in SOME.items()}
    assert found == {cause: cause for cause in SOME}


@pytest.mark.parametrize(
    "printed",
    [
        "".join(f"step {n} | loss 2.1 | lr 1e-4\n" for n in range(9000)),
        "".join(f"[{n}] tokens {n * 3} took {n * 0.1:.2f}\n" for n in range(15000)),
        "".join(f"2024-01-03 12:00:{n % 60:02d} INFO batch {n} done\n" for n in range(9000)),
    ],
    ids=["steps", "own", "logged"],
)
def test_an_error_that_a_program_survived_is_not_the_root(printed):
    assert len(printed) > why_evidence.TAIL
    for root in SOME.values():
        assert of(f"start\n{root}{printed}{ENDS['killed']}") == "killed"
        assert of(f"start\n{root}{printed}{NOISE['gloo']}") == "peer-lost"
        assert of(f"start\n{root}{printed}") == "unknown"


def test_the_root_in_the_log_of_a_rank_is_found_above_what_it_printed_of_its_peers(tmp_path):
    logs = {0: LOST, 2: STEPS + ROOTS["disk-full"] + NOISE["gloo"], 1: STEPS + NOISE["gloo"]}
    found = asked(tmp_path, logs, [0, 1, 2])
    assert found.cause == "disk-full"
    assert found.first is not None
    assert found.first.rank == 2


def test_the_root_in_a_log_that_ranks_share_is_that_of_the_rank(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "failures").mkdir()
    (tmp_path / "logs" / "job.log").touch()
    texts = {0: STEPS + NOISE["gloo"], 1: STEPS + ROOTS["disk-full"] + NOISE["gloo"]}
    lines = [f"rank {rank}: {line}\n" for rank, text in texts.items() for line in text.splitlines()]
    (tmp_path / "logs" / "rank-0-1.log").write_text("".join(lines[::-1][::-1]))
    for rank in texts:
        (tmp_path / "failures" / f"rank-{rank}").write_text(
            f"{1795230000000000000 + rank} rank {rank} n0 1\n"
        )
    found = why_evidence.search(tmp_path)
    assert found.evidence is not None
    assert found.evidence.pattern.cause == "disk-full"
    assert found.first is not None
    assert found.first.rank == 1


def test_what_an_earlier_run_failed_of_is_not_the_root(tmp_path):
    (tmp_path / "logs").mkdir()
    begins = "dlrun: job x starts; rank 0 is on n0; each rank's output is in logs\n"
    text = f"{begins}{ROOTS['disk-full']}{begins}{NOISE['gloo']}"
    (tmp_path / "logs" / "job.log").write_text(text)
    found = why_evidence.search(tmp_path)
    assert found.evidence is not None
    assert found.evidence.pattern.cause == "peer-lost"


def test_no_more_than_a_part_of_a_huge_log_is_read_and_kept(monkeypatch):
    monkeypatch.setattr(whole, "MOST", 8 << 20)

    class Counted(io.BytesIO):
        bytes_read = 0

        def read(self, size=-1):
            found = super().read(size)
            self.bytes_read += len(found)
            return found

    text = (ROOTS["disk-full"] + NOISE["nccl"] * (1 + whole.MOST // len(NOISE["nccl"]))).encode()
    stream = Counted(text)
    kept = whole.lines(stream, lambda line: "NCCL" in line, lambda line: line, lambda _: False)
    assert stream.bytes_read <= whole.MOST
    assert len(kept) < 100
    one = Counted(b"x" * (2 * whole.MOST))
    assert sum(map(len, whole.lines(one, lambda _: False, lambda line: line, lambda _: False))) <= 2 << 20
