"""Errors of launchers and clients about the network: addresses that change on the way, components of MPI, closed connections."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_OMPI = "https://github.com/open-mpi/ompi/blob/v4.1.x/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="launchers and clients",
        source=_OMPI,
        forms=(
            Form(
                cause="fabric-interface",
                texts=("but has connected from a different address {1}. This is not supported",),
                source="https://github.com/horovod/horovod/blob/master/horovod/runner/common/service/driver_service.py",
                means="the network between the nodes changes the addresses of connections (NAT), so horovodrun refuses its own tasks: they come from {1}",
                next="let dlrun start the ranks (`framework: horovod`), use MPI (`horovod.controller: mpi`), or a network of the nodes without NAT",
            ),
            Form(
                cause="fabric-provider",
                texts=("A requested component was not found, or was unable to be opened",),
                source=_OMPI + "opal/mca/base/help-mca-base.txt",
                means="MPI is set to use a component that it does not have",
                check="`env | grep -E 'OMPI_MCA|PMIX_MCA|PRTE_MCA'` in the job",
                next="unset the `OMPI_MCA_pml` (or `btl`, `mtl`) that names it, in the job or in a module, or install the component",
                passing=True,
            ),
            Form(
                cause="mpi-pmi",
                texts=(),
                regex=r"^\s*Framework:\s+(?:bfrops|gds|pgpu|plog|pmdl|pnet|preg|psec|psensor|pstat|pstrg|ptl)\s*$",
                source="https://github.com/openpmix/openpmix/tree/master/src/mca",
                means="the PMIx of this MPI does not have a component that it is set to use",
                check="`env | grep PMIX_MCA` in the job: srun sets such variables for a PMIx of its own",
                next="start the ranks with MPI's own launcher (`launcher: openmpi`) and unset those variables, or use an MPI with the PMIx of the scheduler",
            ),
            Form(
                cause="fabric-provider",
                texts=(
                    "no TLs are selected for CL_{1}",
                    "UCC  ERROR lib_init failed for component: {1}",
                ),
                source="https://github.com/openucx/ucc/blob/master/src/components/cl/ucc_cl.c",
                means="UCC has no transport (TL) that its collectives can use: they are not built, or not beside its library",
                check="`ucc_info -caA` on a compute node, and `UCC_TLS` in the job",
                next="install UCC with its transports (`tl_ucp` needs UCX), or do without it: `environment.variables: {OMPI_MCA_coll: ^ucc}`",
            ),
            Form(
                cause="tracking",
                texts=(),
                regex=r"\b(?:socket\.timeout|TimeoutError|ConnectionRefusedError|ConnectionResetError|BrokenPipeError)\b",
                source="https://github.com/wandb/wandb/issues/660",
                stack=r"\A(?:.*/python\d[\d.]*/(?!site-packages/).*\n)*.*/(?:wandb|mlflow|clearml|neptune|comet_ml|swanlab)/",
                means="the experiment tracker's own process, or its server, did not answer",
            ),
            Form(
                cause="communication",
                texts=(),
                regex=r"RuntimeError: Runtime error: (unhandled (?:system|cuda|hip) error)\b|\b(nccl\w+)\(\) at ",
                source="https://github.com/NVIDIA-Merlin/HugeCTR/issues/404",
                consequence=True,
            ),
            Form(
                cause="no-network",
                texts=("Cannot send a request, as the client has been closed",),
                source="https://github.com/encode/httpx/blob/master/httpx/_client.py",
                means="a request failed, and the program went on with a connection that was closed for it",
                consequence=True,
            ),
            Form(
                cause="no-network",
                texts=("Distant resource does not seem to be on huggingface.co",),
                source="https://github.com/huggingface/huggingface_hub/issues/1600",
                means="what answered is not Hugging Face's hub: a proxy, a filter of the centre's network, or a mirror (`HF_ENDPOINT`)",
                check="`curl -sI https://huggingface.co` on a compute node, and `env | grep -iE 'proxy|HF_ENDPOINT'` in the job",
                next="download it on a login node beforehand (`data` with `hf://ORG/NAME`), or correct those variables",
                passing=True,
            ),
            Form(
                cause="no-access",
                texts=("407 Proxy Authentication Required",),
                source="https://www.rfc-editor.org/rfc/rfc9110#name-407-proxy-authentication-re",
                means="the proxy of the node's network wants a user name and a password",
                next="give `HTTPS_PROXY` with them under `secrets:`, or fetch what is needed before the job (`data`)",
            ),
            Form(
                cause="no-access",
                texts=("certificate is not yet valid", "certificate has expired"),
                source="https://docs.python.org/3/library/ssl.html#certificates",
                means="the time of a server's certificate is over or not reached: its own fault, or the clock of the node is wrong",
                check="`date` on the node",
                next="exclude the node if its clock is wrong (`resources.exclude`) and report it; otherwise the server needs a new certificate",
            ),
        ),
    ),
)
