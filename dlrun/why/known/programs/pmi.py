"""Errors of the interfaces of process managers, by which ranks find one another: PMI, of Cray too, and PMIx."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="PMI and PMIx",
        source="https://github.com/openpmix/openpmix",
        forms=(
            Form(
                cause="mpi-pmi",
                texts=(
                    "slurmstepd: error: mpi/pmix{1}",
                    "slurmstepd: error: mpi/pmi2{1}",
                    "PMIX stopped checking at the first component",
                    "pmix_psec_base_open failed",
                    "ORTE_ERROR_LOG: Data for specified key not found",
                    "pmix server init failed",
                    "PMIX_ERR_{1}",
                    "OPAL ERROR: Unreachable in file {}pmix",
                    "OPAL ERROR: Unreachable in file ext3x_client.c",
                    "OPAL ERROR: Not initialized in file pmix{}",
                    "The application appears to have been direct launched",
                    "write_line error; fd={} buf=:cmd={1}",
                    "write_line failure : {1}",
                    "PMIx server unreachable",
                    "No PMIx server was reachable, but a PMI1/2 was detected",
                    "unable to open PMI port",
                    "PMI server not found",
                ),
                source="https://github.com/open-mpi/ompi/issues/6380",
                passing=True,
            ),
            Form(
                cause="mpi-pmi",
                texts=("UNPACK-PMIX-VALUE: UNSUPPORTED TYPE {1}",),
                source="https://github.com/open-mpi/ompi/issues/12146",
                means="the PMIx of the program and that of the launcher are of different versions: one sent what the other does not know (type {1})",
                check="`srun --mpi=list`, and `ompi_info | grep -i pmix`, inside the container too",
                next="start it with an `--mpi=` of srun that has the program's version of PMIx (`mpi` under `launcher` in the site profile), with its own launcher (`launcher: openmpi`), or build the image with the node's PMIx",
                passing=True,
            ),
            Form(
                cause="port-in-use",
                texts=(
                    "inet_setup_listen_socket: bind failed port {1} listen_sock",
                    "launch RPC: Couldn't allocate a port for PMI to use",
                    "_pmi_inet_listen_socket_setup:socket setup failed",
                ),
                source="https://docs.alcf.anl.gov/aurora/known-issues/",
                means="a port that Cray's process manager (PMI) uses was taken on a node",
                next="`environment.variables: {PMI_NO_FORK: 1}` or another `MPICH_OFI_CXI_PID_BASE` for jobs that run side by side; submit again",
            ),
            Form(
                cause="mpi-pmi",
                texts=(
                    "not built with SLURM's PMI",
                    "but OMPI was not built with",
                    'direct launched using "srun"',
                    "PMI2_Init failed to in",
                    "PMI_Init returned",
                    "PMI2 init failed",
                    "PMIx_Init failed",
                    "PMII_singinit: execv failed",
                    "_pmi_pals_init returned",
                    "_pmi_alps_init returned",
                    "pmix_init failed for some reason",
                    "opal_pmix_base_select failed",
                    "mpi/pmix: unable to load",
                    "PMIX ERROR: PMIX TEMPORARILY UNAVAILABLE",
                    "mpi/pmi2: failed to",
                    "couldn't find the specified plugin name for mpi/",
                    "Invalid MPI type '{1}', --mpi=list for acceptable types",
                    "cannot create mpi context for mpi/",
                ),
                source="https://slurm.schedmd.com/mpi_guide.html",
            ),
            Form(
                cause="mpi-pmi",
                texts=(
                    "PMI_KVS_{} returned -",
                    "PMI_KVS_{} failed: {}",
                    "PMI2_KVS_{} failed: {}",
                    "PMI_Get_{} failed: {}",
                    "PMI2_Job_{} returned",
                    "Assertion `{} == PMI2_SUCCESS' failed",
                    "Assertion `{} == PMI_SUCCESS' failed",
                ),
                regex=r"\bPMI2?_(?:KVS|Job|Info|Get)_\w+(?:\(.*?\))? (?:failed|returned (?!0\b))",
                source="https://github.com/pmodels/mpich/pull/5909",
                next="load the module of the launcher's process manager (Cray: `cray-pmi`, `cray-pals`), or start it with the right `--mpi=` of srun (`mpi` under `launcher` in the site profile; Cray: `cray_shasta`); a container needs the node's PMI library and its socket",
            ),
            Form(
                cause="mpi-pmi",
                texts=(
                    "PMI_Allgather() failed",
                    "failed in PMI_{1}.",
                    "SPMI_{} failed",
                    "bootstrap barrier failed: num_syncd={1}",
                ),
                regex=r"\bPMI2?_(?:Allgatherv?|Barrier|Bcast|KVS_Fence)\b(?:\(.*?\))?:? ?(?:failed|returned (?!0\b)|error)",
                source="https://cpe.ext.hpe.com/docs/24.11/mpt/pmi/intro_pmi.html",
                means="the ranks did not meet in the process manager (PMI) that started them: a rank had ended or never came, or some use another PMI",
                check="which ranks have begun, and which PMI each has: `dlrun logs JOB --rank all`, `ldd PROGRAM | grep -i pmi`",
                next="find the rank that ended first (`dlrun logs JOB --rank all`); if none did, load the same PMI everywhere (Cray: `cray-pmi`, `cray-pals`), and start it with the right `--mpi=` of srun (`mpi` under `launcher` in the site profile)",
                consequence=True,
            ),
        ),
    ),
)
