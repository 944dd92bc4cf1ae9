#!/bin/bash
# Everything that must hold: format, lint, types, layers, shell scripts, tests. Fast things first.
# With arguments, only pytest runs, with these: test.sh tests/unit -k hostlist

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
scripts/setup.sh dev
# shellcheck disable=SC1091
source .venv/bin/activate
if (($#)); then exec pytest "$@"; fi

ruff format --check --quiet .
ruff check --quiet .
mypy
lint-imports
shellcheck scripts/*.sh .ci/run

# What no registry of Python packages has: Slurm, the MPIs, and what builds against them. Without root or apt,
# the tests that need them are skipped by name.
packages=(openmpi-bin libopenmpi-dev mpich g++ cmake util-linux numactl openssh-client)
if ((EUID == 0)) && command -v apt-get >/dev/null && ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
  apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${packages[@]}"
fi
if ((EUID == 0)) && command -v apt-get >/dev/null; then python -m tests.cluster install; fi

# A test that starts real jobs on a busy machine gets a second go. One that needed it is named in the summary (RERUN):
# it is a fault to be found, in the test or in dlrun.
failed=0
suite() { pytest -q -r aR --reruns 1 "$@" || failed=1; }
suite -n auto tests --ignore tests/cluster --ignore tests/frameworks --ignore tests/oracles
suite tests/oracles tests/cluster
suite -n auto --maxprocesses 4 tests/frameworks -m 'not slow' # the heavy installations run when named: -m slow
exit "$failed"
