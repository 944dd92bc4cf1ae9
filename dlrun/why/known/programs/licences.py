"""Errors of programs that need a licence from a server, and of the libraries by which they get it: FlexNet, Gurobi."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

WRITERS = (
    Writer(
        name="licence managers",
        source="https://docs.flexera.com/fnmea/2021r1/ConceptGuide/Content/helplibrary/License_Denials.htm",
        forms=(
            Form(
                cause="licence",
                texts=(
                    "License checkout failed",
                    "License Manager Error -{1}",
                    "Could not obtain license for {1}",
                    "Could not check out a license for {1}",
                    "Failed to check out license",
                    "Licensed number of users already reached",
                    "Could not connect to any license server",
                    "Cannot connect to license server system",
                    "ANSYS LICENSE MANAGER ERROR",
                ),
                source="https://github.com/ansys/pyfluent/issues/230",
            ),
            Form(
                cause="licence",
                texts=(
                    "No Gurobi license found ({1})",
                    "Model too large for size-limited license",
                    "HostID mismatch (licensed to {1},",
                    "Request denied: user {1} not in authorized user list",
                ),
                source="https://github.com/cgg-bern/AlgoHex/issues/3",
            ),
            Form(
                cause="licence",
                texts=(),
                regex=r"(?i)\blicen[cs]e error\b(.*)|FlexNet Licensing error ?:(.*)|error: \(-\d+\): (license server.*)",
                source="https://github.com/UCL-ARC/rcps-buildscripts/issues/193",
                consequence=True,
            ),
        ),
    ),
)
