"""The command line: one module per command (`main` lists them)."""

import os
import sys

# The directory of the `dlrun` script is first on the search path: each import would look there first, without success.
if sys.path[:1] == [f"{sys.prefix}/bin"]:
    del sys.path[0]

# A `json.py` of the user's, in PYTHONPATH or in the working directory of `python -m dlrun`, is not Python's `json`.
_library = os.__file__.rpartition("/")[0]
sys.path.sort(key=lambda entry: entry not in (_library, f"{_library}/lib-dynload"))
