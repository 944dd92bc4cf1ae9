#!/bin/bash
# Set dlrun up and train the digits example on this machine: two ranks with torch.distributed.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

trains() { # PYTHON: it can train the example, but for the data
  timeout 120 "$1" -c 'import sys
assert sys.version_info >= (3, 11)
import torch.distributed
assert torch.distributed.is_available() and torch.distributed.is_gloo_available()
print(torch.__version__, "of", sys.executable)' 2>/dev/null
}

venv=.venv
if ! [[ -x .venv/bin/python ]] || ! trains .venv/bin/python >/dev/null; then
  # A PyTorch that is here already is used from where it is: the active environment's, or the system's.
  for python in ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python"} ${CONDA_PREFIX:+"$CONDA_PREFIX/bin/python"} python3 python /usr/bin/python3; do
    python=$(command -v -- "$python") || continue
    if found=$(trains "$python"); then
      echo "using PyTorch $found" >&2
      venv=.cache/digits
      mkdir -p .cache
      # An environment of another Python cannot load these packages: make a new one.
      if [[ -x $venv/bin/python ]] && ! trains "$venv/bin/python" >/dev/null; then rm -rf -- "$venv"; fi
      export DLRUN_VENV=$venv DLRUN_BESIDE=$python
      break
    fi
  done
fi
if [[ $venv == .venv ]]; then scripts/setup.sh digits; else scripts/setup.sh digits-data; fi
# shellcheck disable=SC1091
source "$venv/bin/activate"
# Debian builds PyTorch without libuv, which the rendezvous uses by default.
uv='import torch.distributed as d; d.TCPStore("127.0.0.1", 0, 1, True, use_libuv=True)'
if ! timeout 120 python -c "$uv" 2>/dev/null; then set -- --set environment.variables.USE_LIBUV=0 "$@"; fi
exec dlrun submit examples/digits/spec.yaml --site workstation --wait "$@"
