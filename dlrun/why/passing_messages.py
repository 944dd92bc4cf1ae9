"""The messages of dlrun's own programs in a job that are not the cause of its end, and those about its image; `{}` stands for
variable parts."""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.why.known.form import OwnMessages

COPYING = ("copying the results to {}", "copying what the ranks wrote beside the code to {}/work")
"""Messages after the training's end, before steps that copy what it wrote (templates/lib/staging.sh)."""
PASSING = (
    *COPYING,
    "caches: compiled entries did not reach all nodes, which compile by themselves; see {}/logs/stage-*.log",
    "caches: the nodes begin with the compiled entries of earlier jobs",
    "caches: {}",
    "code: the files could not be compared with those of the submission (exit code {} of sha256sum)",
    "code: {}{} changed since the submission",
    "a process failed and the rest did not end by themselves",
    "a set-up line has changed {}, which is dlrun's: it is {} again",
    "a signal came as a process ended, so its exit code is lost: it counts as {}",
    "asked to end",
    "asked to end ({})",
    "no place is left that can start a point",
    "node {} does not answer any more, and gets no more points",
    "node {}, on which the job's script ran, is lost: the job ends",
    "place {} of {} is left out",
    "point {} did not begin on {}: exit code {}",
    "point {} ended with exit code {}: {}, place {}, {} s",
    "point {} runs again, as {} is lost",
    "the image {}: another part of this job pulls it; waiting for it",
    "the image {}: in the store, {}, at {}",
    "the image {}: the registry {} does not give its digest: {}",
    "the image {}: {}",
    "the image {}: {}; the next attempt is in {} s",
    "{} of {} points to run, {} at a time",
    "{} points were added",
    "node {} has no daemon of NVIDIA's MPS, and gets no points",
    "nvidia-cuda-mps-control is not installed on {}",
    "nvidia-cuda-mps-control does not answer on {}",
    "the daemon of NVIDIA's MPS on {} has ended",
    "the walltime ends in about {} s: SIG{} to {} points",
    "{} of the points are left: another start of the job follows",
    "point {} starts again after exit code {}",
    "{}another start of the job follows",
    "the job ends: {}",
    "role {} ended with exit code 0",
    "role {} is ready after {} s at {}",
    "role {} starts on {}",
    "role {} was ended: exit code {}",
    "role {} {} after exit code {}",
    "search for a free port for role {} on {}: exit code {}",
    "the walltime ends in about {} s: SIG{} to role {}",
    "{}; it starts again ({} of {})",
    "data set `{}` is read in place: {}",
    "enough of the data is on each node for the training to start; the rest follows",
    "code: the program wrote to {}: {}",
    "code: read from {}: {}",
    "code: there is no {} any more, which `submit_dir` names",
    "code: version {} in {}",
    "fabric: {} on {}",
    "fabric: {} {}: {}",
    "first failure: {} {} on {} ended with exit code {}{}; by time alone, `dlrun why {}{}` finds the cause; the end of logs/{}:",
    "granted, but to be left out: {} of {} nodes",
    "interrupted",
    "job {} ended with exit code {}",
    "job {} has ended, and another has followed it: nothing needs to be done",
    "job {} starts; rank 0 is on {}; each rank's output is in {}/logs",
    "no word yet of the data on:{}; each node's standby removes it, else the next job there does",
    "no word yet of the results on:{}; its standby continues, else they stay in {}; see {}/logs/stage-*.log",
    "no node has the interface {} that the profile names",
    "node {}: {}",
    "node {}: {}{}",
    "no {} has written or computed anything for {}: writing where each stands to {}/stacks",
    "not all results were copied; the rest is on{}, in {}; each node's report is in {}/logs/stage-*.log",
    "of {} nodes these are used: {}",
    "pyxis imports the image on each node by itself: it is not compared with the first node",
    "one point of an array cannot be submitted again by itself",
    "rank {} {}",
    "rank {}: core {} of the plan was not granted to this job; it is not bound",
    "rank {}: numactl is missing or rejected {}; using the default (first-touch) memory policy",
    "rank {}: ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE counts cards, and the plan counts tiles: {} is left as it is",
    "rank {}: could not be bound to cores {}",
    "run {}",
    "run {} of at most {} ends ({}); another follows",
    "site {} has no checks of its own (node_checks): only the built-in ones are made",
    "staging in; each node's report is in {}/logs/stage-*.log",
    "the clock of {} was set {} by {} s; durations are counted by one that cannot be set",
    "the job could not be started again",
    "the results stay on the nodes, in {}: the job did not end well",
    "the walltime ends in about {} s: SIG{} to {}",
    "the soft limit of the walltime (s_rt) is reached",
    "Weights & Biases was offline; on a host with internet: wandb sync {}/offline-run-*",
    "the walltime is over: ending the ranks",
    "the walltime was exceeded",
    "there is no newer checkpoint than when this run began: no other follows",
    "this was run {} of {}: no other follows",
    "{} is not a directory of this user's: ports are taken without locks against other jobs",
    "{} on {} belongs to another user (uid {}): this job's data lies in {}",
    "{} good nodes are left: starting again on {} of them",
    "{} {} on {}, which began {} ns after its launch, ended with exit code 0 at {} ns",
    "{}: {} of {} as {}{}",
    "{}: {} of {} as planned{}",
)
"""Messages about progress, or about a cause that is also noted elsewhere (a hang, a misplaced rank)."""

# ruff: noqa: E501 - a table
CACHES: Mapping[str, OwnMessages] = {
    "set": OwnMessages(
        next="`environment.setup: [unset {1}]` in the spec, or unset it where it is set (a start-up file of the shell, a module, a set-up line): `caches: auto` then keeps it on node-local storage",
        messages=(
            "caches: {} is kept as it was set, {}, which is on {}: compilers on several nodes may break one another there",
        ),
    ),
    "place": OwnMessages(
        next="name node-local storage that has room and where you can make a directory that only you can write: `storage.node_local.path` in the site profile, else `TMPDIR`; `{1}` is the node to look at",
        messages=("caches: {} has {}: each tool uses its own",),
    ),
}
"""A cache of compilers that a job could not move to the node: why an error below it was possible, and the way out, whose `{1}` is the
variable that was kept, or the node without a directory."""
IMAGES: Mapping[str, OwnMessages] = {
    "command-missing": OwnMessages(
        next="load the module that has it (`environment.modules`), or name its directory in `environment.setup: ['PATH=…:$PATH']`",
        messages=("the image {} is pulled here, and neither apptainer nor singularity is on PATH",),
    ),
    "disk-full": OwnMessages(
        next="`environment.variables` with `APPTAINER_TMPDIR` and `APPTAINER_CACHEDIR` name places with room for the conversion; the file lies beside the job directories (`DLRUN_JOBS`), where `dlrun clean --yes` removes what no job uses",
        messages=("there is no room for the image {}: {}",),
    ),
    "hub-limit": OwnMessages(
        next="submit again later: layers that have come are kept; credentials raise the limit (`APPTAINER_DOCKER_USERNAME` and `APPTAINER_DOCKER_PASSWORD`, under `secrets`)",
        messages=("the registry of the image {} limits requests: {}",),
    ),
    "no-network": OwnMessages(
        next="remove `environment.container.fetch: job`: `dlrun submit`, or `dlrun submit --fetch` before it, pulls the image on the login node",
        messages=("the registry of the image {} cannot be reached from this node: {}",),
    ),
    "container-image": OwnMessages(
        next="correct `environment.container.image`; credentials are in `APPTAINER_DOCKER_USERNAME` and `APPTAINER_DOCKER_PASSWORD` (under `secrets`), or kept by `apptainer registry login`",
        messages=(
            "the image {} cannot be pulled: {}",
            "the image {} is not what the job began with: its file is now {}",
        ),
    ),
}
"""Messages of a job that pulls its image (templates/lib/pull.sh), after which the job ends, by cause."""
