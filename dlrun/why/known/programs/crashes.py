"""The signal that ended a process, as crash handlers of any library and shells name it."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
_SIGNALS = "https://man7.org/linux/man-pages/man7/signal.7.html"


def _crash(cause: str, number: int, name: str, words: str) -> Form:
    """Lines of crash handlers about one signal, by its number, its name or its meaning."""
    signal = rf"(?:SIG)?(?:{number}|{name}|{words})"
    return Form(
        cause=cause,
        texts=(),
        regex=rf"\*\*\* SIG{name} \(|\[signal SIG{name}\b|(?i:\b(?:received|caught|got|by|on|with|fatal|unexpected)(?: an?| fatal| the)*"
        rf" signal:? \(?{signal}\b(?!\.)|^signal:? {signal}\b)|\b(?:[Rr]eceived|[Cc]aught|[Gg]ot|[Kk]illed by|died with) SIG{name}\b",
        source=_SIGNALS,
        consequence=True,
    )


WRITERS = (
    Writer(
        name="crash handlers",
        source=_SIGNALS,
        forms=(
            Form(
                cause="segmentation-fault",
                texts=("invalid permissions for mapped object",),
                source="https://github.com/openucx/ucx/issues/4707",
                means="compiled code used memory in a way that is not allowed there: mostly it is a GPU's, and MPI or UCX took it for the host's",
                check="`ucx_info -d | grep -i -E 'cuda|rocm'`, and `ompi_info --all | grep -i -E 'cuda|rocm'`, in the job's environment",
                next="use an MPI and a UCX that were built for the GPU (`environment.modules`), or copy to the host before MPI is called; in other programs update the library at the top of the stack",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("terminate called without an active exception",),
                source="https://github.com/pytorch/pytorch/issues/190489",
                means="the process aborted (SIGABRT) without an error: threads of compiled code were still running as it ended, in a PyTorch program mostly those of Gloo, as Python was ending and its process groups were not destroyed",
                check="whether the end of the training is in its log, above this line",
                next="end each rank with `torch.distributed.destroy_process_group()`, after the model and the device mesh were dropped (`del model, mesh`), and before Python ends; other compiled code must join its threads; if the log's training had not ended, see the lines before",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=(
                    "could not acquire lock for {1} at interpreter shutdown, possibly due to daemon threads",
                ),
                source="https://github.com/python/cpython/issues/129536",
                means="the process aborted (SIGABRT) as Python was ending: a thread of the program still printed",
                check="whether the end of the training is in its log, above this line",
                next="let the program stop and join its threads (loaders, loggers, monitors) before its main function returns",
                consequence=True,
            ),
            _crash("segmentation-fault", 11, "SEGV", "segmentation (?:fault|violation)"),
            _crash("bus-error", 7, "BUS", "bus error"),
            _crash("abort", 6, "ABRT", "aborted"),
            _crash("arithmetic", 8, "FPE", "floating.point exception"),
            _crash("illegal-instruction", 4, "ILL", "illegal instruction"),
        ),
    ),
)
"""After all other writers, whose lines about a signal have more in them."""
