"""Errors of what installs and finds packages: pip, uv, Spack, git, submitit."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_NOT_INSTALLED = (
    "a package could not be installed in the job: the node has no internet, or there is none for this Python"
)
_SAME = "the same command on a login node"
_BEFOREHAND = (
    "install the environment beforehand on a login node, and name it with `environment.venv` or `conda`"
)

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="packages",
        source="https://pip.pypa.io/en/stable/",
        forms=(
            Form(
                cause="no-access",
                texts=("invalid peer certificate: {1}",),
                source="https://github.com/astral-sh/uv/issues/9243",
                means="the certificate of a server could not be verified: the node lacks the authority's certificate, or a proxy is between ({1})",
                next="`environment.variables: {SSL_CERT_FILE: …}` with the centre's certificates, for uv also `UV_NATIVE_TLS=1`; packages are better installed on a login node",
                passing=True,
            ),
            Form(
                cause="missing-library",
                texts=("CUDA Setup failed despite GPU being available",),
                source="https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1603",
                means="bitsandbytes has no library for this CUDA, or finds none of CUDA's own",
                check="`python -m bitsandbytes` in the job's environment on a compute node",
                next="load the module of the CUDA that PyTorch is built for (`environment.modules`), or install a bitsandbytes that has its library",
            ),
            Form(
                cause="environment",
                texts=(
                    "ERROR: Could not find a version that satisfies the requirement {1}",
                    "ERROR: No matching distribution found for {1}",
                    "error: externally-managed-environment",
                    "No solution found when resolving dependencies",
                ),
                source="https://pip.pypa.io/en/stable/topics/dependency-resolution/",
                means=_NOT_INSTALLED,
                check=_SAME,
                next=_BEFOREHAND,
                passing=True,
            ),
            # uv prints the reason below it.
            Form(
                cause="environment",
                texts=("error: Failed to fetch: {1}",),
                source="https://github.com/astral-sh/uv/issues/9243",
                means=_NOT_INSTALLED,
                check=_SAME,
                next=_BEFOREHAND,
                consequence=True,
            ),
            Form(
                cause="permission",
                texts=("fatal: detected dubious ownership in repository at '{1}'",),
                source="https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory",
                next="`environment.setup: [git config --global --add safe.directory '*']`, or take git out of the command",
                passing=True,
            ),
            Form(
                cause="walltime",
                texts=("Job not requeued because: timed-out",),
                source="https://github.com/facebookincubator/submitit/issues/1775",
                means="a job of submitit reached its walltime, and its function has no checkpoint, or it had timed out too often",
                next="ask for more time, or give the function a `checkpoint` method; dlrun does the same with `checkpoint:` and `on_failure.requeue`",
            ),
            Form(
                cause="command-missing",
                texts=("SLURM does not appear to be installed",),
                source="https://github.com/facebookresearch/ParlAI/issues/3084",
                means="the program asks Slurm's commands (`scontrol`) for its nodes, and they are not where it runs",
                next="run it outside the container, or start its usual program with the variables that dlrun sets (MASTER_ADDR, RANK, WORLD_SIZE)",
            ),
            Form(
                cause="command-missing",
                texts=('Could not detect "{1}", are you indeed on a slurm cluster',),
                source="https://github.com/haoyi-duan/WorldScore/issues/10",
                means="the program submits jobs of its own (submitit), and `{1}` is not where it runs",
                next="run it on a login node, or let it train directly in this job, without submitting another one",
            ),
            Form(
                cause="environment-module",
                texts=("==> Error: Spec '{1}' matches no installed packages",),
                source="https://spack.readthedocs.io/",
                means="Spack has no such package on this system: {1}",
                next="`spack find` on the cluster shows the names; correct the line of `environment.setup`",
                passing=True,
            ),
        ),
    ),
)
