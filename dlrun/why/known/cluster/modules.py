"""Errors of environment modules (Tcl and Lmod): what excludes what, and what must be loaded before."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="environment modules",
        source="https://modules.readthedocs.io/",
        forms=(
            Form(
                cause="environment-module",
                texts=(
                    "ERROR: Conflicting {1} is loaded",
                    "ERROR: Load of requirement {1} failed",
                    "ERROR: Requirement {1} is not loaded",
                    "ERROR: {1} cannot be loaded due to a conflict",
                    "cannot be loaded due to missing prereq",
                    'HINT: Might try "module unload {1}" first',
                    "because these module(s) are loaded",
                    "Module {1} must be loaded first",
                    "Magic cookie '#%Module' missing",
                    "ERROR: Module evaluation aborted",
                    "ERROR: Unloading of {1} failed",
                    'Unable to find: "{1}"',
                    'Swap failed: "{1}" is not loaded',
                    "MODULEPATH{}is undefined",
                ),
                regex=r"^\W*ERROR: Permission denied on '(\S*modulefiles?/\S*)'",
                source="https://modules.readthedocs.io/en/latest/MIGRATING.html",
                means="an environment module could not be loaded: it does not go with another one, or lacks one that it needs",
                check="`module purge`, then `module load` of the same names in the same order, on a compute node",
                next="correct `environment.modules`: all that a module needs, before it, and none that it excludes; `module spider NAME` (Lmod) names them",
                passing=True,
            ),
        ),
    ),
)
