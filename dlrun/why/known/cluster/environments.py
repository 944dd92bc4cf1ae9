"""Errors of what makes and activates an environment of Python in a job: conda, mamba, uv, venv, pyenv, pixi."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="environments of Python",
        source="https://docs.conda.io/projects/conda/en/stable/",
        forms=(
            Form(
                cause="environment",
                texts=(
                    "critical libmamba Shell not initialized",
                    "'{1}' is running as a subprocess and can't modify the parent shell",
                    "Run 'mamba init' to be able to run mamba activate",
                    "Shell has not been initialized",
                    "The following arguments were not expected: {}activate",
                    "The following argument was not expected: activate",
                ),
                source="https://github.com/mamba-org/mamba/issues/2999",
                means="`activate` was called in a shell that mamba has not prepared: batch jobs do not read what it wrote into `~/.bashrc`",
                check="whether the script calls `micromamba shell hook` before",
                next='name the environment with `environment.conda` in place of `activate`; in a script of your own first `eval "$(micromamba shell hook --shell bash)"`',
            ),
            Form(
                cause="environment",
                texts=(
                    "Cannot activate, prefix does not exist at: {1}",
                    "critical libmamba Could not find environment {1}",
                    "The given prefix does not exist: {1}",
                    "EnvironmentNotFoundError: {1}",
                    "DirectoryNotACondaEnvironmentError: {1}",
                    "NoBaseEnvironmentError",
                    "pyenv: version `{1}' is not installed",
                    "No environment found at {1}",
                    "Failed to inspect Python interpreter from {1}",
                    "Querying Python at `{1}` failed",
                    "Broken symlink at `{1}`",
                    "Broken virtual environment `{1}`",
                    "No interpreter found for {1}",
                    "No interpreter found at {1}",
                    "could not find a Python interpreter{1}",
                    "Python interpreter not found at `{1}`",
                ),
                regex=r"(?<!\S)(\S+/python[\d.]*): bad interpreter: No such file or directory$|line \d+: ((?:\S+/)?activate): No such file or directory$",
                source="https://github.com/astral-sh/uv/blob/main/crates/uv-python/src/interpreter.rs",
            ),
            Form(
                cause="environment",
                texts=(
                    "ModuleNotFoundError: No module named 'encodings'",
                    "init_fs_encoding: failed to get the Python codec",
                    "init_import_site: Failed to import the site module",
                    "Could not find platform independent libraries",
                    "Could not find platform dependent libraries",
                ),
                source="https://docs.python.org/3/c-api/init_config.html",
                means="Python does not find its own library: the environment was moved, its Python is not on this node, or PYTHONHOME or PYTHONPATH is of another one",
                check="`python -c 'import sys; print(sys.prefix)'` in the job's environment on a compute node; `echo $PYTHONHOME $PYTHONPATH`",
                next="make the environment again where the compute nodes see it and its Python; unset PYTHONHOME and PYTHONPATH in `environment.setup`",
            ),
            Form(
                cause="environment",
                texts=(
                    "needs to be updated, but `--locked` was provided",
                    "needs to be updated but `--frozen`",
                    "pyproject.toml changed significantly since poetry.lock",
                    "lock-file not up-to-date with the workspace",
                    "No `project` table found in: {1}",
                    "No `pyproject.toml` found in {1}",
                    "LockError: {1}",
                    "CondaValueError: {1}",
                    "ResolvePackageNotFound",
                    "PackagesNotFoundError: {1}",
                    "LibMambaUnsatisfiableError: {1}",
                    "UnsatisfiableError: {1}",
                    "SafetyError: The package for {1}",
                    "CondaVerificationError: {1}",
                    "InvalidArchiveError({1})",
                ),
                source="https://docs.astral.sh/uv/concepts/projects/sync/",
                means="an environment cannot be created or changed in the job",
                check="the same command on a login node",
                next="make the environment beforehand on a login node, and only use it in the job (`environment.venv` or `conda`; `uv run --no-sync`)",
                passing=True,
            ),
            Form(
                cause="command-missing",
                texts=("error: Failed to spawn: `{1}`", "Cannot find command `{1}`"),
                source="https://docs.astral.sh/uv/reference/cli/#uv-run",
                means="`{1}` is not in the environment in which `uv run` starts it",
                next="install the package that has it there (`uv add`), or correct its name",
            ),
        ),
    ),
)
