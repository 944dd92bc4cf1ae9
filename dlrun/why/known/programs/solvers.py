"""Errors of simulation programs and numerical libraries: PETSc, OpenFOAM, LAMMPS, CP2K."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="simulation programs",
        source="https://petsc.org/release/faq/",
        forms=(
            Form(
                cause="segmentation-fault",
                texts=("PETSC ERROR: Caught signal number 11 SEGV",),
                source="https://petsc.org/release/faq/",
                next="run once with `-start_in_debugger` or a build with debugging, on few ranks: PETSc names the function",
            ),
            Form(
                cause="terminated",
                texts=("PETSC ERROR: Caught signal number 15 Terminate",),
                source="https://petsc.org/release/faq/",
                consequence=True,
            ),
            Form(
                cause="ranks",
                texts=("processors but job was started with {1} processors",),
                source="https://www.openfoam.com/documentation/user-guide",
                means="the case of OpenFOAM is divided for another number of ranks than the job has ({1})",
                next="run `decomposePar -force` with `numberOfSubdomains` as many as ranks (`dlrun plan`), or give the job that many",
            ),
            Form(
                cause="file-missing",
                texts=(),
                regex=r"ERROR.*: Cannot open (?:[a-z]+ ){1,4}(\S+): No such file or directory \(",
                source="https://docs.lammps.org/Errors_messages.html",
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"^ \*\s+\\___/\s+(\S.*?)\s*\*$",
                source="https://github.com/cp2k/cp2k/blob/master/src/common/cp_error_handling.F",
                means="CP2K ended itself: {1}",
                next="correct the input or the file that it names; the lines below show where in CP2K",
                passing=True,
            ),
        ),
    ),
)
