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
            _crash("segmentation-fault", 11, "SEGV", "segmentation (?:fault|violation)"),
            _crash("bus-error", 7, "BUS", "bus error"),
            _crash("abort", 6, "ABRT", "aborted"),
            _crash("arithmetic", 8, "FPE", "floating.point exception"),
            _crash("illegal-instruction", 4, "ILL", "illegal instruction"),
        ),
    ),
)
"""After all other writers, whose lines about a signal have more in them."""
