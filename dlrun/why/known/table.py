"""The table of known errors, in the order in which a line is compared: the writers that know their own lines come first."""

from __future__ import annotations

from dlrun import backends
from dlrun.why.known import (
    communication,
    compilers,
    devices,
    fabrics,
    files,
    frameworks,
    hydra,
    mpi,
    process_groups,
    python,
    ray,
    services,
    training,
)
from dlrun.why.known.causes import CAUSES
from dlrun.why.known.cluster import (
    environments,
    fabrics as cluster_fabrics,
    kernel,
    launchers,
    loader,
    modules,
    runtimes,
    services as cluster_services,
    shells,
    system,
    transfers,
)
from dlrun.why.known.containers import apptainer, charliecloud, pyxis
from dlrun.why.known.form import Pattern, Writer, patterns_of
from dlrun.why.known.libraries import arguments, calls, data, extensions, parallel, statuses, weights
from dlrun.why.known.programs import (
    accelerators,
    batch,
    caches,
    checkpoints,
    crashes,
    datasets,
    engines,
    formats,
    interpreter,
    languages,
    licences,
    models,
    networks,
    packages,
    pmi,
    processes,
    solvers,
    tools,
    trainers,
)

WRITERS: tuple[Writer, ...] = (
    interpreter.LINKER,
    *communication.WRITERS,
    *process_groups.WRITERS,
    accelerators.OTHERS,
    kernel.ADAPTERS,
    *cluster_fabrics.WRITERS,
    *fabrics.WRITERS,
    *apptainer.WRITERS,
    *pyxis.WRITERS,
    *charliecloud.WRITERS,
    *runtimes.WRITERS,
    *engines.WRITERS,
    *launchers.WRITERS,
    *batch.WRITERS,
    *(writer for module in backends.parts("log_messages") for writer in module.WRITERS),
    kernel.KERNEL,
    *pmi.WRITERS,
    *mpi.WRITERS,
    *hydra.WRITERS,
    *caches.WRITERS,
    *parallel.WRITERS,
    *compilers.WRITERS,
    *statuses.WRITERS,
    *devices.WRITERS,
    *accelerators.WRITERS,
    *trainers.WRITERS,
    *checkpoints.WRITERS,
    *models.WRITERS,
    *networks.WRITERS,
    *processes.WRITERS,
    *data.WRITERS,
    *datasets.WRITERS,
    *ray.WRITERS,
    *training.WRITERS,
    *frameworks.WRITERS,
    *transfers.WRITERS,
    *modules.WRITERS,
    *environments.WRITERS,
    *cluster_services.WRITERS,
    *services.WRITERS,
    *formats.WRITERS,
    *calls.WRITERS,
    *weights.WRITERS,
    *loader.WRITERS,
    *system.WRITERS,
    *interpreter.WRITERS,
    *arguments.WRITERS,
    *packages.WRITERS,
    *extensions.WRITERS,
    *solvers.WRITERS,
    *languages.WRITERS,
    *tools.WRITERS,
    *licences.WRITERS,
    *python.WRITERS,
    *shells.WRITERS,
    *files.WRITERS,
    *crashes.WRITERS,
)
"""All writers; those of the operating system, whose words any program may print, come last."""


def of_writer(writer: Writer) -> list[Pattern]:
    """The patterns of a writer, in the order of its forms."""
    return [pattern for form in writer.forms for pattern in patterns_of(form, writer, CAUSES[form.cause])]
