#!/bin/bash
# Make .venv beside this repository and install dlrun in it, editable, with the named dependency groups.
# Does nothing where that was done already for the same pyproject.toml: setup.sh [GROUP...]
#
# DLRUN_VENV is another directory than .venv; in it, packages of the Python named by DLRUN_BESIDE can be imported, too.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

venv=${DLRUN_VENV:-.venv}
beside=${DLRUN_BESIDE:-}
python=${PYTHON:-${beside:-python3}}
state=$({ cat pyproject.toml dlrun/__init__.py && printf '%s' "$beside"; } | cksum | tr ' ' -)
stamp=$venv/.dlrun-$state-$(printf '%s+' "$@")
if [[ -e $stamp ]]; then exit 0; fi

say() { echo "setup: $*" >&2; }
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
quietly() { # COMMAND...: what it prints is shown only if it fails
  "$@" >"$log" 2>&1 || {
    cat -- "$log" >&2
    say "failed: $*"
    return 1
  }
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  version=$("$python" --version 2>/dev/null) || version="not there"
  echo "dlrun needs Python 3.11 or later, and \`$python\` is $version: name another with PYTHON=" >&2
  exit 1
}

make_venv() {
  if [[ -e $venv ]]; then
    echo "$venv has no bin/python (it was not finished, or is not a venv): remove it and run this again" >&2
    exit 1
  fi
  say "making $venv with $("$python" --version), $(command -v -- "$python")"
  if "$python" -m venv "$venv" >/dev/null 2>&1; then return; fi
  rm -rf -- "$venv"
  # Debian's python3 comes without ensurepip: take virtualenv, which needs none.
  "$python" -m pip --version >/dev/null 2>&1 || {
    echo "\`$python -m venv\` does not work and there is no pip: \`apt install python3-venv\`, or name another Python with PYTHON=" >&2
    exit 1
  }
  quietly "$python" -m pip install --target "$venv-tool" virtualenv
  PYTHONPATH=$venv-tool quietly "$python" -m virtualenv "$venv"
  rm -rf -- "$venv-tool"
}

if [[ ! -x $venv/bin/python ]]; then make_venv; fi
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  echo "$venv has no pip (it was not finished, or made by another tool): remove it and run this again" >&2
  exit 1
fi
if [[ -n $beside ]]; then
  for site in "$venv"/lib/python3*/site-packages; do
    "$beside" -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")' >"$site/beside.pth"
  done
fi
groups=()
for group in "$@"; do groups+=(--group "$group"); done
export PIP_DISABLE_PIP_VERSION_CHECK=1
case " $* " in
*" digits "* | *" whole "*) takes="with PyTorch: minutes, and about 5 GB" ;;
*) takes="about a minute" ;;
esac
say "installing dlrun and its dependencies in $venv${1:+, with the groups $* of pyproject.toml} ($takes)"
quietly "$venv/bin/python" -m pip install --upgrade 'pip>=25.1'
quietly "$venv/bin/python" -m pip install --editable . "${groups[@]}"
for old in "$venv"/.dlrun-*; do
  if [[ $old != "$venv/.dlrun-$state-"* ]]; then rm -f -- "$old"; fi
done
touch -- "$stamp"
say "done after $SECONDS s"
