#!/bin/bash
# What must hold. Fast things first.
#
#   scripts/test.sh              before a commit: minutes on two cores, needs nothing but .venv
#   scripts/test.sh --all        everything, as continuous integration runs it: also real schedulers, frameworks, MPIs
#   scripts/test.sh tests/unit   pytest with these arguments

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
scripts/setup.sh dev
# shellcheck disable=SC1091
source .venv/bin/activate
unset PYTHONDONTWRITEBYTECODE # else each of the hundreds of programs that tests start compiles all its modules
if (($#)) && [[ $* != --all ]]; then exec pytest "$@"; fi

shopt -s globstar nullglob
ruff format --check --quiet .
ruff check --quiet .
lint-imports
shellcheck --external-sources --source-path=templates/lib scripts/*.sh .ci/run templates/lib/*.sh

# What runs beside the rest shows its report when it has ended.
reports=$(mktemp -d)
suites=()
failed=0
# shellcheck disable=SC2329  # a trap calls it
finish() {
  local entry
  for entry in "${suites[@]}"; do kill "${entry##* }" 2>/dev/null || true; done
  rm -rf -- "$reports"
}
trap finish EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
beside() { # NAME COMMAND...
  local name=$1
  shift
  DLRUN_SUITES=$$ "$@" >"$reports/$name" 2>&1 &
  suites+=("$name $!")
}
suite() { beside "$1" pytest -q -r aR --durations=40 --durations-min=10 "${@:2}"; }
reported() { # wait for what runs, and show what each found
  local entry name pid
  for entry in "${suites[@]}"; do
    read -r name pid <<<"$entry"
    wait "$pid" || failed=1
    echo "--- $name, after $SECONDS s"
    cat -- "$reports/$name"
  done
  suites=()
}

# More processes than cores: many tests wait for what they started.
workers=$((2 * $(nproc)))
own=(tests --ignore tests/cluster --ignore tests/frameworks --ignore tests/oracles)
if ! (($#)); then
  echo "not in the quick tests: tests/cluster, tests/frameworks, tests/oracles, what is marked slow, nine in ten of"
  echo "Hypothesis's examples, most cases of large matrices (scripts/test.sh --all runs them)"
  beside types mypy
  DLRUN_EXAMPLES=0.1 pytest -q -n "$workers" --dist worksteal "${own[@]}" -m 'not slow' || failed=1
  reported
  exit "$failed"
fi

# The packages that only some tests need; without a registry of packages, those are skipped by name.
scripts/setup.sh dev whole || echo "the packages of the group whole are not there: tests that need them are skipped"

# What no registry of Python packages has: Slurm, the MPIs, what builds against them, and a browser for the pictures. Without root or apt,
# the tests that need them are skipped by name.
packages=(openmpi-bin libopenmpi-dev mpich g++ cmake util-linux numactl openssh-client bubblewrap rclone chromium)
if ((EUID == 0)) && command -v apt-get >/dev/null; then
  if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${packages[@]}"
  fi
  python -m tests.cluster install
fi

# Two suites at a time, for those of clusters mostly wait for a scheduler: all four at once keep two cores so busy that
# trainings miss their deadlines.
beside types mypy
suite cluster -n 4 --dist loadfile tests/cluster
suite oracles tests/oracles
# Horovod is compiled meanwhile, of time that nothing else wants. What cannot be installed here is named by the tests that need it.
beside environments nice -n 19 python -m tests.frameworks.install --quick
reported
suite own -n "$workers" --dist worksteal "${own[@]}"
suite frameworks -n 2 tests/frameworks -m 'not slow' # the heavy installations run when named: -m slow
reported
exit "$failed"
