#!/bin/bash
# Make .venv beside this repository and install dlrun in it, editable, with the named dependency groups.
# Does nothing where that was done already for the same pyproject.toml: setup.sh [GROUP...]

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
state=$(cat pyproject.toml dlrun/__init__.py | cksum | tr ' ' -)
stamp=.venv/.dlrun-$state-$(printf '%s+' "$@")
if [[ -e $stamp ]]; then exit 0; fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  found=$("$python" --version 2>/dev/null) || found="not there"
  echo "dlrun needs Python 3.11 or later, and \`$python\` is $found: name another with PYTHON=" >&2
  exit 1
}

make_venv() {
  if [[ -e .venv ]]; then
    echo ".venv has no bin/python (it was not finished, or is not a venv): remove it and run this again" >&2
    exit 1
  fi
  if "$python" -m venv .venv 2>/dev/null; then return; fi
  rm -rf .venv
  # Debian's python3 comes without ensurepip: take virtualenv, which needs none.
  "$python" -m pip install --quiet --target .venv-tool virtualenv
  PYTHONPATH=.venv-tool "$python" -m virtualenv --quiet .venv
  rm -rf .venv-tool
}

if [[ ! -x .venv/bin/python ]]; then
  echo "making .venv and installing; the first time takes minutes" >&2
  make_venv
fi
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  echo ".venv has no pip (it was not finished, or made by another tool): remove it and run this again" >&2
  exit 1
fi
groups=()
for group in "$@"; do groups+=(--group "$group"); done
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
.venv/bin/python -m pip install --quiet --editable . "${groups[@]}"
for old in .venv/.dlrun-*; do
  if [[ $old != ".venv/.dlrun-$state-"* ]]; then rm -f -- "$old"; fi
done
touch "$stamp"
