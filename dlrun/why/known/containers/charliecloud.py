"""Errors of Charliecloud, Shifter, Sarus and uenv, which run on single sites."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

WRITERS = (
    Writer(
        name="Charliecloud, Shifter and Sarus",
        source="https://github.com/hpc/charliecloud",
        forms=(
            Form(
                cause="container-namespace",
                texts=(
                    "squashfs-mount: Failed to unshare the mount namespace",
                    "unable to exec '{}.squashfs:{1}'",
                ),
                source="https://docs.cscs.ch/software/uenv/",
            ),
            Form(
                cause="container-mount",
                texts=("ch-run[{}]: error: can't bind: {1}", "can't bind: source not found: {1}"),
                source="https://github.com/hpc/charliecloud/blob/main/bin/ch_core.c",
            ),
            Form(
                cause="container-namespace",
                texts=("error: can't init user+mount namespaces",),
                source="https://github.com/hpc/charliecloud/blob/main/bin/ch_core.c",
            ),
            Form(
                cause="container-image",
                texts=(
                    "ch-run[{}]: error: can't stat image",
                    "ch-run[{}]: error: can't find image",
                    "FAILED to lookup docker image {1}",
                    "Image {1} is not available. Attempting",
                    "failed to find image: {1}",
                ),
                source="https://github.com/NERSC/shifter",
            ),
            Form(
                cause="container-mount",
                texts=(
                    'FAILED to create volume "to": {1}, cannot create mount points',
                    'FAILED to find volume "from": {1}',
                ),
                source="https://github.com/NERSC/shifter/blob/master/src/shifter_core.c",
                next="mount onto a directory that the image has (`RUN mkdir` in its recipe), and from one that the node has",
                anywhere=True,
            ),
            Form(
                cause="container",
                texts=(
                    "ch-run[{}]: error: {1}",
                    "FAILED to setup image",
                    "shifter: {}setupRoot failed",
                    "[ERROR] Failed to mount squashfs",
                ),
                source="https://github.com/hpc/charliecloud",
            ),
        ),
    ),
)
