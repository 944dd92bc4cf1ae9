#!/bin/bash
# What must hold. Fast things first.
#
#   scripts/test.sh              before a commit: minutes on two cores, needs nothing but .venv
#   scripts/test.sh --all        what continuous integration runs: also real schedulers, frameworks, MPIs
#   scripts/test.sh --contract   of the quick tests those of what users see (tests/contract.py)
#   scripts/test.sh tests/unit   pytest with these arguments
#
# DLRUN_PASSED names a file: the quick tests write there what passed, and --all does not repeat it. DLRUN_TEMPORARY names a
# directory for what tests leave, which stays.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
scripts/setup.sh dev
# shellcheck disable=SC1091
source .venv/bin/activate
unset PYTHONDONTWRITEBYTECODE # else each of the hundreds of programs that tests start compiles all its modules
if (($#)) && [[ $* != --all && $* != --contract ]]; then exec pytest "$@"; fi

# More processes than cores: many tests wait for what they started.
workers=$((2 * $(nproc)))
own=(tests --ignore tests/cluster --ignore tests/frameworks --ignore tests/oracles)
if [[ $* == --contract ]]; then
  export DLRUN_EXAMPLES=0.1
  exec pytest -q -n "$workers" --dist worksteal "${own[@]}" -m 'contract and not slow'
fi

shopt -s globstar nullglob
passed=${DLRUN_PASSED:-}
checks=0
if (($#)) && [[ -n $passed && -s $passed ]]; then
  echo "format, lint, layers, shell and types passed with the quick tests, and what did there is not repeated"
else
  ruff format --check --quiet .
  ruff check --quiet .
  checks=1
fi

# What runs beside the rest shows its report when it has ended.
reports=$(mktemp -d)
# What tests leave is removed at the end: ext4 without a journal looks for a place for a new file among all that were removed in
# the last minutes, which takes a third of the time of tests with many files. Large files go with their test (tests/conftest.py).
temporary=${DLRUN_TEMPORARY:-$reports/left}
mkdir -p -- "$temporary"
kept=(-o tmp_path_retention_policy=all)
suites=()
failed=0
# shellcheck disable=SC2329  # a trap calls it
finish() {
  local entry
  for entry in "${suites[@]}"; do kill "${entry##* }" 2>/dev/null || true; done
  rm -rf -- "$reports" || true # a test that failed may have left what cannot be removed
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
suite() { beside "$1" pytest -q -r aR --durations=40 --durations-min=10 "${kept[@]}" --basetemp="$temporary/$1" "${@:2}"; }
reported() { # wait for what runs, and show what each found
  local entry name pid
  for entry in "${suites[@]}"; do
    read -r name pid <<<"$entry"
    wait "$pid" || failed=1
    echo "--- $name, after $SECONDS s"
    cat -- "$reports/$name"
    # Not just the last line: pytest may warn after it of directories that two suites remove at the same time.
    closing+=("$name: $(grep -E '^[0-9]+ .* in [0-9.]+s' "$reports/$name" | tail -n 1 || tail -n 1 "$reports/$name")")
  done
  suites=()
}
closing=()
checked() { # beside the rest, what is neither quick nor pytest
  beside types mypy
  beside layers lint-imports
  beside shell shellcheck --external-sources --source-path=templates/lib scripts/*.sh .ci/run templates/lib/*.sh dlrun/schedulers/*/*.sh dlrun/launchers/*.sh
}
finished() { # the last line of each suite once more, and the exit code
  printf '%s\n' "--- all of it, after $SECONDS s" "${closing[@]}"
  exit "$failed"
}

if ! (($#)); then
  echo "not in the quick tests: tests/cluster, tests/frameworks, tests/oracles, what is marked slow, nine in ten of"
  echo "Hypothesis's examples, most cases of large matrices, and what needs PyTorch, scikit-learn, hyperopt, mkdocs or"
  echo "another package of the group whole, which is named as skipped (scripts/test.sh --all runs them)"
  checked
  # Once beside these what each process would do again: pytest rewrites and compiles every module of the tests at its first run.
  pytest -q --collect-only "${own[@]}" >/dev/null || true # the run itself reports what is wrong
  DLRUN_EXAMPLES=0.1 pytest -q -n "$workers" --dist worksteal "${kept[@]}" --basetemp="$temporary/quick" ${passed:+"--passed=$passed"} "${own[@]}" -m 'not slow' || failed=1
  reported
  exit "$failed"
fi

# One in five of the examples, and of the slow cases of large matrices; DLRUN_EXAMPLES=1 tries all, which takes much longer.
export DLRUN_EXAMPLES=${DLRUN_EXAMPLES:-0.2}

# The packages that only some tests need; without a registry of packages, those are skipped by name.
scripts/setup.sh dev whole || echo "the packages of the group whole are not there: tests that need them are skipped"

# What no registry of Python packages has: Slurm, the MPIs, what builds against them, and a browser for the pictures. Without root or apt,
# the tests that need them are skipped by name.
packages=(openmpi-bin libopenmpi-dev mpich g++ cmake util-linux numactl openssh-client bubblewrap rclone squashfs-tools squashfuse chromium)
if ((EUID == 0)) && command -v apt-get >/dev/null; then
  if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${packages[@]}"
  fi
  python -m tests.cluster install
fi

# Two suites at a time, for those of clusters mostly wait for a scheduler: all four at once keep two cores so busy that
# trainings miss their deadlines.
if ((checks)); then checked; fi
suite cluster -n 4 --dist loadfile -m 'not beyond' tests/cluster
suite oracles tests/oracles
# Horovod is compiled meanwhile, of time that nothing else wants. What cannot be installed here is named by the tests that need it.
beside environments nice -n 19 python -m tests.frameworks.install --quick
python_of() { # VERSION: prints the path of such a Python, if there is one
  local python
  for python in "$(command -v "python$1")" "$HOME/.pyenv/versions/$1".*/bin/python3; do
    if [[ $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) == "$1" ]]; then
      echo "$python"
      return
    fi
  done
}
newest=
for version in 3.14 3.13 3.12; do
  if [[ -z $newest && -n $(python_of "$version") ]]; then newest=$version; fi
done
# dlrun itself with the oldest packages that pyproject.toml allows, and with the newest under the latest Python: of time that the
# clusters leave, for they mostly wait.
# shellcheck disable=SC2329  # `beside` calls it
with_packages() { # NAME PYTHON: in a venv of its own, the tests of what depends on packages
  local place=.cache/login-$1
  DLRUN_VENV=$place PYTHON=$2 nice -n 10 scripts/setup.sh test
  export DLRUN_EXAMPLES=0.1
  exec nice -n 10 "$place/bin/python" -m pytest -q -n 2 "${kept[@]}" --basetemp="$temporary/$1" -m 'not slow' tests/golden tests/errors tests/unit/config \
    tests/unit/importing tests/unit/system tests/unit/terminal tests/cli/test_commands.py tests/cli/test_json.py
}
sed -n '/^dependencies/,/^]/s/^ *"\(.*\)>=\(.*\)",$/\1==\2/p' pyproject.toml >"$reports/oldest.txt"
found=$(python_of 3.11)
if [[ -n $found ]]; then PIP_CONSTRAINT=$reports/oldest.txt beside login-3.11-oldest with_packages 3.11-oldest "$found"; else
  closing+=("login-3.11-oldest: skipped, there is no Python 3.11 here")
fi
if [[ -n $newest ]]; then beside "login-$newest" with_packages "$newest" "$(python_of "$newest")"; else
  closing+=("login of a later Python: skipped, there is none from 3.12 on here")
fi
reported
suite own -n "$workers" --dist worksteal -m 'not beyond' ${passed:+"--not-again=$passed"} "${own[@]}"
reported
# The node's programs with the Pythons of nodes: Enterprise Linux 8 and SLES 15 have 3.6, Ubuntu 20.04 has 3.8. What fails in one
# between the oldest and the newest fails in one of these, but for what is marked.
for version in 3.6 3.8 3.13 3.14; do
  found=$(python_of "$version")
  what=each_python
  if [[ $version == 3.6 || $version == "$newest" ]]; then what='not slow or each_python'; fi
  if [[ -n $found ]]; then
    DLRUN_NODE_PYTHON=$found DLRUN_EXAMPLES=0.1 suite "node-$version" -n 2 tests/unit/node -m "$what"
  else
    closing+=("node-$version: skipped, there is no Python $version here")
  fi
  if ((${#suites[@]} == 2)); then reported; fi
done
suite frameworks -n 2 tests/frameworks -m 'not slow' # the heavy installations run when named: -m slow
reported
finished
