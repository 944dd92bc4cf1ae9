"""The messages of dlrun's own programs in a job, by cause, with the next step.

`{}` stands for variable parts. `test_own_messages.py` fails for a message of a job's scripts or of a node program that is
missing here, and for one that exists only here.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.why.known.form import OwnMessages

# ruff: noqa: E501 - a table
NODE: Mapping[str, OwnMessages] = {
    "node-space": OwnMessages(
        next="ask for larger storage (`resources.node_local`), take `strategy: part`, `shard` or `in_place` under `data`, or remove sets: `dlrun stage-data --list`, `--evict`",
        messages=(
            "node {}: `{}` needs {} and has {}{} free",
            "node {}: `{}` has inodes for {} more files, but the data set needs {}",
            "no space for a file of {} bytes",
            "the disk filled up while the data was written: {}",
            "the disk filled up while `{}` was fetched: {}",
            "the quota of {} has no room for {} beside the sets in use",
            "{} are free, not {}",
            "nothing of `{}` fits the {} that it may take on a node",
        ),
    ),
    "data-source": OwnMessages(
        next="correct `source` under `data`: it must be complete and readable on the compute nodes, and unchanged while it is copied",
        messages=(
            "`{}` {}",
            "the source `{}` does not exist",
            "the source's directory `{}` does not exist",
            "the source is empty",
            "the source `{}` cannot be read: {}",
            "nothing in `{}` is selected",
            "the source holds {}: {}",
            "`{}` cannot be read: {}",
            "`{}` vanished",
            "{} {} of the source cannot be read: {} ({})",
            "the source changed while it was copied: {}",
            "the source is not readable as a whole: {}",
            "the source `{}` has {}, not the {} that were expected",
            "node {} has no client that reads `{}` ({})",
            "`{}` could not read `{}`: {}",
            "`{}` has no objects",
            "`{}` listed `{}` in a form that is not known",
            "`{}` names no bucket",
            "`{}` cannot be read from node {}: {}",
            "`{}` has neither an ETag nor a time",
            "`{}` does not name a file",
            "`{}` broke off after {} bytes, {} times: {}",
            "`{}` cannot be read in parts: {}",
            "`{}` arrived damaged: its {} is {}, the server's {}",
            "the object `{}` of `{}` cannot be a file: its key {}",
            "cannot fetch `{}`: {}{}",
            "the source changed while it was copied: `{}`",
            "{} fetched {} of the {} of `{}`",
            "`{}` is not a path, and none of {}://",
            "a source that is a URL needs strategy copy or pack",
            "--unpack needs strategy copy or pack",
        ),
    ),
    "data-archive": OwnMessages(
        next="see the archive named by `source` under `data`: list it on a login node (`tar tf`, `unzip -l`), or unpack it once on the shared file system and name the directory",
        messages=(
            "the archive `{}` is damaged: {}",
            "the archive `{}` is not unpacked: its member `{}` {}",
            "the archive `{}` has {}{}, not the checksum that was given",
            "`{}` is not an archive that can be unpacked",
            "the source `{}` is not a file, so it cannot be unpacked",
            "node {} cannot unpack `{}`: it has no `{}`",
            "cannot unpack `{}`: {}{}",
        ),
    ),
    "data-image": OwnMessages(
        next="have the package that it names installed on the nodes (`squashfs-tools` makes images, `squashfuse` mounts them), or use `strategy: copy` or `pack` under `data`",
        messages=(
            "no `{}` on {}: no image can be {}",
            "`mksquashfs` could not make an image of `{}`: {}",
            "the node that had made the image of `{}` is lost",
            "`{}` is not a SquashFS image",
            "`{}` cannot mount `{}` on {}: {}",
            "cannot mount `{}` on {}: {}{}",
            "--checksums and --version are of files, not of an image made of them",
            "--strategy image excludes --unpack, --start, --include, --exclude, --skip-special and --links follow",
        ),
    ),
    "data-credentials": OwnMessages(
        next="correct `credentials` of the data set, and the secret that they name under `secrets`",
        messages=(
            "`{}` has a user name or password",
            "the URL in the secret `{}` is not of `{}`",
            "the secret `{}` is {} on node {}",
            "--header-from takes HEADER=NAME",
            "--url-from and --header-from need a source that begins with https:// or http://",
        ),
    ),
    "data-content": OwnMessages(
        next="compare the source with its publisher's checksums; correct `checksums` or `version` of the data set if they are of another version",
        messages=(
            "the checksums in `{}` are empty",
            "line {} of the checksums in `{}` is not a hash and a path",
            "the checksums in `{}` have two hashes of `{}`",
            "the checksums in `{}` cannot be read: {}",
            "the data set is {}, not {}",
            "one checksum is given for {}",
            "{} {} from the given checksum: {}",
            "{} with a checksum {} not in the data set: {}",
            "the data set is here only in part, and a digest is of all its files",
            "--version is `{}`",
            "--checksums is `{}`",
            "--version excludes --strategy shard",
        ),
    ),
    "node-storage": OwnMessages(
        next="correct `storage.node_local.path` in the site profile: a directory on every node that only you can write",
        messages=(
            "there is no node-local storage at `{}`: {}",
            "the staging directory `{}` is inside the source `{}`",
            "`{}` would have a path of {} bytes in `{}`, and the system allows {}",
            "`{}` is not a directory",
            "`{}` belongs to another user (uid {})",
            "`{}` can be changed by other users (mode {})",
            "`{}` is not a plain path",
            "`{}` must be owned by you and have mode 0700",
            "`{}` in `{}` is not a data set",
            "the data set `{}` belongs to another user",
            "cannot replace `{}`: {}",
        ),
    ),
    "node-storage-control": OwnMessages(
        next="remove what has that name, or use another directory of node-local storage",
        messages=(
            "`{}` has files that dlrun did not write",
            "`{}` is kept: {}",
            "dlrun has no record of having staged `{}` in `{}`: it is kept",
            "`{}` must be a directory, not a link or a file",
        ),
    ),
    "data-in-use": OwnMessages(
        next="wait until the other job ends, or give the data set another name under `data`",
        messages=(
            "another job has been copying `{}` for {} s",
            "`{}` is in use or being copied",
            "`{}` is out of date and {}",
            "the copy of `{}` was changed ({}) and is {}",
            "there is no data set `{}` in `{}`",
            "there is no data set `{}`",
        ),
    ),
    "data-damaged": OwnMessages(
        next="submit again, which copies it again; if it recurs on one node, exclude it (`resources.exclude`) and report it to the centre",
        messages=(
            "the manifest's blocks do not fit its entries",
            "the copy from an earlier run differs from the source",
            "the copy differs from its manifest: {}",
            "the copy differs from the source: {}",
            "{} blocks were not written",
            "received a damaged block with `{}`",
            "received a block without its hashes",
            "received a block that does not match the manifest",
            "received a segment with an invalid length",
            "`{}` has {} bytes instead of {}",
            "`{}` was replaced while it was written",
            "a set without a manifest",
            "this is not a manifest that this version can read",
            "the manifest is cut short or does not have the hash that it names",
            "the manifest is damaged",
            "the published copy was changed while files were replaced: {}",
            "the manifest is not in order or holds a name twice",
            "the manifest is too large",
            "the manifest's columns differ in length",
            "the manifest's directory columns differ in length",
            "the manifest's first lines are damaged",
            "the manifest's hashes do not fit its entries",
            "the manifest's links do not fit its entries",
            "the manifest has no top directory",
            "the manifest holds a hard link to something that is not a file",
            "the manifest holds a negative size",
            "the manifest holds a set-user-id, set-group-id or sticky mode",
            "the manifest holds an entry outside its directories",
            "the manifest holds an unsafe directory name",
            "the manifest holds an unsafe file name",
            "the manifest holds one name as a file and as a directory",
            "the manifest names an entry that is neither a file nor a link",
            "the manifest refers to entries that it does not have",
        ),
    ),
    "results-place": OwnMessages(
        next="correct `results.to`: a directory on a file system that the nodes and you can write",
        messages=(
            "cannot copy results to `{}`: {}",
            "another process is copying results to `{}` from this node",
            "`{}` belongs to another user",
            "cannot create `{}`: {}",
            "`{}` is not a writable directory: {}",
            "`{}` already exists",
            "the destination cannot be created as a directory",
        ),
    ),
    "node-network": OwnMessages(
        next="correct `rendezvous` and `fabric.interfaces` in the site profile: the nodes must reach one another by these names",
        messages=(
            "cannot resolve the host `{}`: {}",
            "cannot listen on {} port {}: {}",
            "received a message that is not signed with the job's secret",
            "received an invalid message",
            "received a frame that is not signed with the job's secret",
            "received a frame with an invalid head",
            "the program that listens there does not know the job's secret",
            "a caller that is not a node program",
            "the caller does not know the job's secret",
        ),
    ),
    "memory": OwnMessages(
        next="ask for more with `resources.memory_per_node`: node-local storage in memory, and its copy, count as the job's",
        messages=("out of memory", "a copying process was killed"),
    ),
    "secret": OwnMessages(
        next="create the file again, readable only by you: `chmod 600`",
        messages=(
            "the secret file `{}` cannot be read: {}",
            "the secret file `{}` is not private",
            "the secret in `{}` is shorter than 16 bytes",
        ),
    ),
    "venv-copy": OwnMessages(
        next="correct `environment.venv`: the directory of a virtual environment",
        messages=("`{}` is not a Python environment: it has no `bin`",),
    ),
    "node-system": OwnMessages(
        next="see the node's kernel log and `df -h` there; exclude the node (`resources.exclude`) if it recurs",
        messages=(
            "cannot stage `{}`: {}{}",
            "cannot stage `{}` on {}: {}{}",
            "cannot finish `{}`: {}{}",
            "the data could not be written: {}",
        ),
        general=True,
    ),
    "dlrun-fault": OwnMessages(
        next="this is a bug of dlrun, or the job directory was changed by hand: render the job again, and report it",
        messages=(
            "this node has no xxHash",
            "unknown hash `{}`",
            "give one of --name, --quota and --free",
            "--hosts needs --port and --secret",
            "--start is `{}`: it must be more than zero, and at most 100%",
            "--start needs --job, and excludes --strategy pack, --verify, --checksums and --version",
            "--workers is between 1 and 64",
            "`{}` is not {}",
            "the host list `{}` cannot be read: {}",
            "the host list `{}` names a host twice",
            "--index {} is not one of the {} hosts",
            "`{}` is not a valid name of a data set",
            "--strategy shard needs --hosts, or --shard K/N with K less than N",
            "invalid arguments: {}",
        ),
    ),
}
"""Errors of the node programs (staging, results), by cause."""


JOB: Mapping[str, OwnMessages] = {
    "node-python": OwnMessages(
        next="name a Python of the nodes that is 3.6 or later: `python` in the site profile, such as `python: /opt/python/3.11/bin/python3`",
        messages=(
            "this node has no Python for dlrun's own programs, which need 3.6 or later ({}): name one with `python` in the site profile",
        ),
    ),
    "code": OwnMessages(
        next="submit the job again, or restore the file; with `code: record` the job runs with what is there",
        messages=(
            "code: snapshot: {}",
            "code: strict: {}{} changed since the submission",
            "code: strict: the files could not be compared with those of the submission (exit code {} of sha256sum)",
        ),
    ),
    "ports": OwnMessages(
        next="widen `rendezvous.ports` in the site profile, or see which processes use the ports: `ss -ltnp` on the node",
        messages=("no free block of {} ports between {} and {} on {}",),
    ),
    "fabric-interface": OwnMessages(
        next="correct `rendezvous` and `fabric.interfaces` in the site profile; `ip -brief address` on a compute node lists its interfaces",
        messages=("{} has no such address",),
    ),
    "no-hosts": OwnMessages(
        next="submit the job to the scheduler of the site profile (`scheduler.type`) instead of running its script by hand",
        messages=("the scheduler names no granted node",),
    ),
    "copied-job": OwnMessages(
        next="write the copy's own directory into that line of its job.sh, or create a new one with `dlrun plan --script -o`",
        messages=(
            "{}/job.sh is a copy: its DLRUN_JOB_DIR is {}, whose logs and state it would overwrite; set it to {}",
        ),
    ),
    "few-hosts": OwnMessages(
        next="correct `scheduler.parallel_environment` in the site profile: its allocation rule must be a fixed number of slots per host",
        messages=(
            "granted {} hosts, and the job needs {}: the parallel environment's rule is not a fixed number of slots per host",
        ),
    ),
    "terminal-tasks": OwnMessages(
        next="start the job without `-pty`: `qrsh ... bash -i`, or a script with `qsub`",
        messages=(
            "this job was started with `-pty y`, so `qrsh -inherit` gives a terminal to each rank, which shows the environment: leave out `-pty`",
        ),
    ),
    "user-signal": OwnMessages(
        next="find its sender: a user or an administrator (`scancel --signal`, `qsig`), or an option of the job or the site (`--signal`)",
        messages=("{} ended this script: something outside the job sent it",),
    ),
    "setup": OwnMessages(
        next="correct the line in `environment.setup` of the spec or the profile, or in job.sh",
        messages=(
            "{}, line {}: `{}` failed with exit code {}",
            "a line of job.sh ended it before the ranks did",
            "a set-up line has made the variable '{}' read-only, and lib/*.sh uses that name: take another",
            "after the set-up lines PATH has no {}: they must add to PATH, not replace it; it is '{}'",
        ),
        consequence=True,  # the printed line is more specific, where it is known
    ),
    "environment": OwnMessages(
        next="correct `environment.venv` or `conda`: it must exist on the compute nodes, too",
        messages=(
            "{}, line {}: `source {}/bin/activate` failed with exit code {}",
            "{}, line {}: `conda {}` failed with exit code {}",
            '{}, line {}: `eval "$(conda shell.bash hook)"` failed with exit code {}',
        ),
    ),
    "mpi-pmi": OwnMessages(
        next="start the ranks by the launcher of the program's own MPI, or with the process manager that it was built for; the line has both",
        messages=("each rank is alone: {}", "{}: each rank is alone: {}"),
    ),
    "environment-module": OwnMessages(
        next="`module avail` on the cluster shows the names; correct `environment.modules`",
        messages=("{}, line {}: `module {}` failed with exit code {}",),
    ),
    "job-directory": OwnMessages(
        next="move what has that name out of the job directory, then `dlrun resubmit JOB`: each start creates it again",
        messages=("this job needs the name {}, which something that is not dlrun's has: move that",),
    ),
    "directory": OwnMessages(
        next="correct `directory`: it must exist on the compute nodes, too",
        messages=("{}, line {}: `cd -- {}` failed with exit code {}",),
    ),
    "secret": OwnMessages(
        next="correct the secret under `secrets`: its file or command must work on the compute nodes",
        messages=("rank {}: secret {} could not be read: {}", "secret {} could not be read: {}"),
    ),
    "no-such-point": OwnMessages(
        next="submit the sweep again: the job array has more tasks than `sweep` has points",
        messages=("rank {}: the sweep has no point '{}'",),
    ),
    "role-alone": OwnMessages(
        next="submit the job of all roles: `dlrun resubmit` with the directory that holds `roles/`",
        messages=("the job of a role runs inside the job of all roles: submit that one",),
    ),
    "role-gpus": OwnMessages(
        next="write `gpus_per_node` in each role: together at most the GPUs that the job is shown, by the variable in the line",
        messages=("rank {}: GPU {} of the plan is not among those of this job, {}={}",),
    ),
    "container": OwnMessages(
        next="load the module that has it (`environment.modules`), or use another `environment.container.runtime`",
        messages=("rank {}: neither apptainer nor singularity is on this node's PATH",),
    ),
    "launcher": OwnMessages(
        next="`dlrun logs JOB --rank job` has what the launcher reported; correct `launcher` in the site profile",
        messages=(
            "what had started rank {} is gone",
            "the launcher ended with exit code 0, and no rank has begun",
        ),
        consequence=True,
    ),
    "service": OwnMessages(
        next="`dlrun logs JOB --rank all` has the log of the process that did not start, or ended",
        messages=("{} did not come up", "a service of the job ended early"),
        consequence=True,
    ),
    "node": OwnMessages(
        next="submit again; `resources.spare_nodes` replaces a node that dies, `on_failure.requeue` starts the job again",
        messages=(
            "not answering any more: {}",
            "slurmstepd, which had started this script on {}, is gone",
            "only {} good nodes are left, and the job needs {}",
            "the broker on {} is gone: the scheduler is asked to end the job",
        ),
    ),
    "staging": OwnMessages(
        next="`dlrun logs JOB --rank all` has the report of each node; `dlrun explain data JOB` shows what should have been copied",
        messages=(
            "the data did not reach every node",
            "the results could not be kept on every node",
        ),
    ),
}
"""Messages of a job's scripts after which the job ends, by cause."""
