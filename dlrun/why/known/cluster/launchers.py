"""Errors of the launchers of schedulers and vendors: PALS, ALPS, jsrun, LSF, and the parts of Slurm around a job."""

from __future__ import annotations

from dlrun.schedulers.log_forms import FEWER_THAN_THE_JOB_HAS
from dlrun.why.known.form import Form, Writer

_SLURM = "https://github.com/SchedMD/slurm/blob/master/src/"
_NODE = "exclude the node that it names (`resources.exclude`), submit again, and report it to the centre"

_FAILED = r"[Ee]rror\b|ERROR\b|[Ff]atal\b|FATAL\b|[Ff]ail|[Uu]nable\b|[Cc]ould ?n[o']t\b|[Cc]an(?:not|'t)\b|[Ii]nvalid\b"
"""How a launcher begins an error, unlike a line about what it does."""

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="Slurm's own parts",
        source="https://github.com/SchedMD/slurm",
        forms=(
            Form(
                cause="interpreter-missing",
                texts=("Batch script contains DOS line breaks",),
                source="https://slurm.schedmd.com/sbatch.html",
                means="a script that a command of the job submits has the line ends of Windows (CRLF)",
                check="`file SCRIPT` shows `with CRLF line terminators`",
                next="`sed -i 's/\\r$//' SCRIPT`",
            ),
            Form(
                cause="interpreter-missing",
                texts=("This does not look like a batch script",),
                source="https://slurm.schedmd.com/sbatch.html",
                means="a command of the job submits a file that does not begin with `#!`: it is not a script, or is empty",
                check="`head -1 SCRIPT`",
                next="begin it with `#!/bin/bash`, or give `sbatch --wrap 'COMMAND'`",
            ),
            Form(
                cause="launcher",
                texts=("x11_get_xauth: {1}", "X11 forwarding not available{1}", "Cannot use X11 forwarding"),
                source="https://slurm.schedmd.com/faq.html#x11",
                means="srun is to forward windows (`--x11`), and there is no X display where srun was called",
                next="take `--x11` out of the command and of `arguments` under `launcher`; unset SLURM_X11 variables",
                passing=True,
            ),
            Form(
                cause="rendezvous",
                texts=(),
                regex=r"mpi/pmix\w*: .*\b(collective timeout|pmixp_coll_\w+_reset_if_to|Reset collective)\b",
                source=_SLURM + "plugins/mpi/pmix/pmixp_coll_ring.c",
                means="not all ranks reached a PMIx collective in time: a node was slow to start them, or some had ended",
                check="which ranks have begun: `dlrun logs JOB --rank all`",
                next="find the rank that ended first or never began (`dlrun logs JOB --rank all`); if all only start slowly, `environment.variables: {SLURM_PMIX_TIMEOUT: 600}`",
                consequence=True,
            ),
            Form(
                cause="scheduler",
                texts=(
                    "uid {1} not found on system",
                    "User not found on host",
                    "Unable to find user for uid {1}",
                    "Group ID not found on host",
                    "gid {1} not found on system",
                    "getpwuid failed for uid={1}",
                    "Failed to look up user uid={1}",
                ),
                # `whoami` and `id` print it too, in containers whose image does not know the user: this ends no job.
                regex=r"\b(?:slurmstepd|slurmd|srun)\b.*\bcannot find name for user ID (\S+)|^(?:qsub|qrsh|execd|shepherd)\b.*\b(Bad UID for job execution|can't get password entry for user \S+)",
                source=_SLURM + "common/slurm_errno.c",
                means="a node of the job does not know this user: its directory service (LDAP, SSSD) does not answer",
                check="`getent passwd $USER` on that node",
                next=_NODE,
            ),
            Form(
                cause="scheduler",
                texts=(
                    "spank: Failed to open {1}:",
                    "spank: {1}: Cannot open plugin file",
                    "error: Plug-in initialization failed",
                    "plugin_load_from_file: dlopen({1}):",
                    "Couldn't load specified plugin name for {1}:",
                    "MPI plugin's pre-launch setup failed",
                ),
                regex=r"\b(?:error|fatal): spank: (?!required plugin spank_pyxis)(\S+: .*)",
                source=_SLURM + "common/plugstack.c",
                means="a plug-in of Slurm is missing or failed on a node",
                check="`srun --version` in the job and on the login node, and whether the command runs in a container that has a Slurm of its own",
                next="run `srun` outside of the container; if it comes from the node itself, exclude it (`resources.exclude`) and report it to the centre",
                passing=True,
            ),
            Form(
                cause="launcher",
                texts=(),
                regex=r"Unable to confirm allocation for job (\S+): Invalid job id",
                source=_SLURM + "api/allocate.c",
                means="a command asks for a job that does not run any more, or that another cluster has: SLURM_JOB_ID is of an earlier job",
                check="`echo $SLURM_JOB_ID` where the command runs, and `squeue --me`",
                next="unset the variables of the other job (`unset ${!SLURM_*} ${!SBATCH_*}`) before the command, and do not write them into start-up files",
            ),
            Form(
                cause="launcher",
                texts=("Job/step already completing or completed",),
                regex=r"Unable to confirm allocation for job (\S+): (?:Job has already|Job is not running)",
                source=_SLURM + "common/slurm_errno.c",
                means="a command asked for the job, or for a step of it, when that was ending already",
                check="which ranks ended before: `dlrun logs JOB --rank all`",
                next="find why the job ended before that command: `dlrun logs JOB --rank all`",
                consequence=True,
            ),
            Form(
                cause="launcher",
                texts=("{}unavailable: Requested {1} not available",),
                regex=r"^(?!.*(?:sbatch|salloc|Batch job|Job submit)).*\b(?:Memory|CPU count|Node count|Task count|Core count|Task distribution|Job size) specification (?:can not be satisfied|invalid|needs to be provided)\b",
                source=_SLURM + "common/slurm_errno.c",
                means="a command of the job requests what the job, or the cluster, does not have",
                next=FEWER_THAN_THE_JOB_HAS,
                passing=True,
            ),
            Form(
                cause="scheduler",
                texts=(
                    "Slurmd could not write credential",
                    "Slurmd could not execve job",
                    "Slurmd could not create I/O socket",
                    "Slurmd could not connect I/O",
                    "Slurmd could not set group ID",
                    "Slurmd could not set UID or GID",
                    "Slurmd could not create a batch directory or file",
                    "Slurmd could not chdir to work directory",
                    "slurmd could not create job or step directory",
                    "I/O error writing script/environment to file",
                    "Nodes {1} are still not ready",
                    "Something is wrong with the boot of the nodes",
                    "PrologSlurmctld is still running",
                    "Job prolog failed",
                    "Unable to create TMPDIR [{1}]",
                    "Slurm internal error, contact system administrator",
                    "Kill task failed",
                ),
                source=_SLURM + "common/slurm_errno.c",
                next=_NODE,
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="Cray PALS and ALPS",
        source="https://cpe.ext.hpe.com/docs/latest/pals/index.html",
        forms=(
            Form(
                cause="command-missing",
                texts=(
                    "launch failed on {}: Couldn't find executable {1}",
                    "aprun: file {1} not found",
                    "aprun: [NID {}]: Exec {1} failed:",
                    "Couldn't transfer {1}: No such file",
                    "exec {1} failed: No such file or directory",
                ),
                source="https://cpe.ext.hpe.com/docs/latest/pals/index.html",
            ),
            Form(
                cause="file-system",
                texts=("Exec {} failed: chdir {1} No such file or directory",),
                source="https://cpe.ext.hpe.com/docs/latest/pals/index.html",
                means="the compute nodes do not see the directory from which the program was started: {1}",
                next="submit from a file system that the compute nodes have (not the home)",
            ),
            Form(
                cause="launcher",
                texts=(
                    "apsched: claim exceeds reservation's {1}",
                    "claim exceeds reservation's {1}",
                    "apsched: request exceeds max {1}",
                    "apsched: no more {1}",
                    "aprun: -N cannot exceed {1}",
                ),
                source="https://chapel-lang.org/docs/platforms/cray.html",
                means="aprun is to start more than the job has: {1}",
                check="`dlrun plan` shows nodes and ranks; `apstat -r` in the job",
                next="compare the command's own `aprun` options with `dlrun plan`; ranks on a node (`-N`) times threads (`-d`) must fit its cores",
            ),
            Form(
                cause="memory",
                texts=("OOM killer terminated this process",),
                source="https://docs.archer.ac.uk/",
            ),
            Form(
                cause="launcher",
                texts=("launch failed on {1}",),
                regex=r"\b(?:aprun|apsched|palsd|mpiexec\.pals|mpiexec): (?:error: )?((?:[Cc]ould ?n[o']t|[Ff]ailed|[Uu]nable|[Nn]o reservation|[Ii]nvalid|[Tt]ransaction).*)",
                source="https://cpe.ext.hpe.com/docs/latest/pals/index.html",
                consequence=True,
            ),
        ),
    ),
    Writer(
        name="jsrun and LSF",
        source="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0",
        forms=(
            Form(
                cause="launcher",
                texts=(
                    "Not enough resources available to schedule job",
                    "The resource file {1} could not be opened",
                    "Error when reading resource file {1}",
                    "It is only possible to use js commands within a job allocation",
                    "Error: Resource set requirements{1}",
                ),
                regex=rf"(?<!\w)jsrun: (?:{_FAILED})",
                source="https://github.com/radical-cybertools/radical.pilot/issues/1783",
                means="jsrun could not place the ranks: the resource sets do not fit the job's nodes, or there is no job",
                check="`jslist -R` in the job, and `dlrun plan`",
                next="compare the command's own `jsrun` options (resource sets, cores and GPUs of each) with `dlrun plan`, and end steps that hold the resources",
            ),
            Form(
                cause="launcher",
                texts=(
                    "lsb_launch(): {1}",
                    "<{1}> Failed to connect to remote execution daemon",
                    "ls_rsetenv failed: {1}",
                ),
                regex=rf"(?<!\w)blaunch: ((?:Task )?(?:{_FAILED}).*)",
                source="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-blaunch",
                means="LSF could not start a process on a node of the job: {1}",
                next="exclude the node that it names (`resources.exclude`) and submit again; if every node is affected, report it to the centre",
            ),
            Form(
                cause="scheduler",
                texts=(
                    "Failed in an LSF library call: {1}",
                    "lsb_init: {1}",
                    "lsid: {1}: LIM is down",
                    "LSF is down. Please wait",
                    "batch daemon not responding",
                ),
                source="https://github.com/PacificBiosciences/SMRT-Link/issues/63",
                means="LSF's own commands do not work where the job calls them: {1}",
                check="`lsid` on the node, and `echo $LSF_ENVDIR`",
                next="load LSF's settings there (`source PROFILE.lsf`), or submit on a login node",
                passing=True,
            ),
            Form(
                cause="scheduler",
                texts=("Error in {} section: {1}", "Request aborted by esub{1}", "{1}. Job not submitted"),
                source="https://github.com/bcbio/bcbio-nextgen/issues/2803",
                means="a command of the job submitted another one, which LSF rejected",
                check="`bqueues -l QUEUE` shows the queue's limits",
                next="correct what that job requests (`#BSUB` lines and options of `bsub`)",
                passing=True,
            ),
        ),
    ),
)
