#!/bin/bash
# Set dlrun up and train the digits example on this machine: two ranks with torch.distributed.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
scripts/setup.sh digits
# shellcheck disable=SC1091
source .venv/bin/activate
exec dlrun submit examples/digits/spec.yaml --site workstation --wait "$@"
