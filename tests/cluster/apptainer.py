"""Apptainer by bubblewrap, where it is not installed: a container that has of its host what `--bind` names alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.jobs import User, bash

APPTAINER = """\
#!/bin/bash
# `apptainer exec` by bubblewrap: of this machine the container has /usr and what --bind names, and nothing else.
# `apptainer pull FILE URI` copies ~/pulled.sif, counts itself in ~/pulls, and waits while there is ~/hold.
if [[ $1 == pull ]]; then
  echo "$(hostname) $3" >>"$HOME/pulls"
  head -c 1000 "$HOME/pulled.sif" >"$2"
  while [[ -e $HOME/hold ]]; do sleep 0.1; done
  exec cp "$HOME/pulled.sif" "$2"
fi
shift
binds=()
while [[ $1 == --* ]]; do
  case $1 in
  --bind)
    IFS=: read -r from to options <<<"$2"
    if [[ $options == image-src=/ ]]; then # a SquashFS image
      unsquashfs -quiet -no-progress -dest "$HOME/mounted-$BASHPID" "$from" >/dev/null && from=$HOME/mounted-$BASHPID
    fi
    binds+=(--bind "$from" "${to:-$from}") && shift
    ;;
  --pwd) place=$2 && shift ;;
  esac
  shift
done
image=$1 && shift
export APPTAINERENV_IMAGE=$image
for name in "${!APPTAINERENV_@}"; do inside+=(--setenv "${name#APPTAINERENV_}" "${!name}"); done
exec bwrap --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin --proc /proc --dev /dev \\
  --tmpfs /tmp --ro-bind "$image" /image "${binds[@]}" --chdir "$place" --clearenv --setenv PATH /usr/bin "${inside[@]}" -- "$@"
"""
"""No Debian package has Apptainer. An image has an environment of its own: `--clearenv`."""
PYXIS = """\
#!/bin/bash
# srun with pyxis, by bubblewrap: the container has the variables of its host, and rank.sh runs in it.
words=() binds=() image=
while [[ $1 == -* ]]; do
  case $1 in
  --container-image=*) image=${1#*=} ;;
  --container-workdir=*) place=${1#*=} ;;
  --container-mounts=*)
    IFS=, read -ra mounts <<<"${1#*=}"
    for mount in "${mounts[@]}"; do binds+=(--bind "${mount%%:*}" "${mount#*:}"); done
    ;;
  *) words+=("$1") ;;
  esac
  shift
done
[[ -n $image ]] || exec /usr/bin/srun "${words[@]}" "$@"
binds=(--ro-bind /usr /usr --ro-bind /sys /sys --tmpfs /tmp --ro-bind "$image" /image "${binds[@]}" --chdir "$place")
exec /usr/bin/srun "${words[@]}" bwrap --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin \\
  --proc /proc --dev /dev "${binds[@]}" --setenv PATH /usr/bin -- "$@"
"""
LINE = (
    "test -e /image/inside && test ! -e /etc/passwd && test -r $DLRUN_JOB_DIR/lib/job.sh && test $PWD = {0} && "
    "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR with $MINE && "
    "if ((RANK)); then until test -e $DLRUN_JOB_DIR/printed; do :; done; exit {1}; else : >$DLRUN_JOB_DIR/printed; fi"
)
"""What each rank runs: it sees the image and the job directory and nothing of the host, and rank 1 ends with a code.

Rank 1 waits for rank 0: its failure ends a rank that has not yet printed.
"""


def with_it(site: dict[str, Any]) -> dict[str, Any]:
    """A site whose jobs find the stand-in."""
    return {**site, "environment": {"setup": ['PATH="$HOME/bin:$PATH"']}}


def install(home: Path, place: Path) -> Path:
    """Write the stand-ins to a user's `bin`, and an image to a directory; returns the image."""
    for name, text in (("apptainer", APPTAINER), ("srun-with-pyxis", PYXIS)):
        program = home / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    image = place / "image"
    image.mkdir(exist_ok=True)
    (image / "inside").touch()
    return image


def try_it(user: User, code: int, **resources: Any) -> None:
    """Run a job of two nodes in a container, whose second rank ends with this code."""
    image = install(user.cluster.home(user.name), user.directory)
    asked = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "5m", **resources}
    container = {"image": str(image), "runtime": "apptainer"}
    job = user.submit(
        {
            "command": bash(LINE.format(user.directory, code)),
            "resources": asked,
            "environment": {"container": container, "variables": {"MINE": "a b"}},
        }
    )
    (run,) = user.ended(job)
    logs = user.job_dir(job) / "logs"
    assert run["state"] == ("failed" if code else "completed"), (logs / "job.log").read_text()
    assert run["exit_code"] == code
    first = [(logs / f"rank-{rank}.log").read_text().partition("\n")[0] for rank in (0, 1)]
    # only the first lines: the failure of rank 1 may end the container of rank 0, which reports that
    assert first == [f"rank {rank} of 2 at n1 with a b" for rank in (0, 1)]
