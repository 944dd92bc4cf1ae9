"""Codes of warnings for valid specs that are probably not what the user meant."""

from __future__ import annotations

# ruff: noqa: E501, ISC004, RUF001 - a page of prose, one code an entry
MISTAKE_CODES: dict[str, tuple[str, str]] = {
    "DLR100": (
        "shell text where no shell reads it",
        "`command` is a list of arguments that the program gets exactly as written, and `environment.variables` are set as written, too. "
        "Write shell text under `run:`, and `{{ env.NAME }}` for a variable of the node. A path may begin with `~` or `$HOME`.",
    ),
    "DLR101": (
        "an unused sweep parameter",
        "Runs of a sweep differ only in the values of `{{ NAME }}` in the command. A parameter that the command does not use makes equal runs.",
    ),
    "DLR102": (
        "two Python environments",
        "`environment.conda` is activated first, then `environment.venv`, whose Python is then first on `PATH`.",
    ),
    "DLR103": (
        "unused GPUs",
        "Whole nodes are charged with their GPUs, whether the job requests them or not.",
    ),
    "DLR104": (
        "more or fewer cores requested than used",
        "Where the plan binds ranks, topology and `placement` give their cores; `cpus_per_rank` only changes the request.",
    ),
    "DLR105": (
        "another program's word",
        "Options of sbatch, qsub and torchrun under `resources:`, with `--set` or as options of `submit`, `plan` and `render` are "
        "translated into the keys of dlrun, in the units of those programs: `time: 30` is 30 minutes, `mem: 64G` is 64GiB.",
    ),
    "DLR106": (
        "more ranks than cores",
        "Each rank needs at least one core; with fewer cores than ranks, ranks wait for each other.",
    ),
    "DLR107": (
        "a decimal unit where the scheduler counts in units of 1,024",
        "`200GB` (and `200G`) is 200 × 10⁹ bytes, 7 % less than `--mem=200G` of Slurm or `mem=200gb` of PBS, which is `200GiB` here.",
    ),
    "DLR112": (
        "a typographic character",
        "Word processors and PDF files have “ ”, ‘ ’ and – where a command line needs \"\", '' and --; a program gets them as they are.",
    ),
}
"""Code -> title, explanation."""
