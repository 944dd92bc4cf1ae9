"""The command line: one module per command (`main` lists them), and one place where errors become messages (`failure`)."""

import sys

# The directory of the `dlrun` script is first on the search path: each import would look there first, without success.
if sys.path[:1] == [f"{sys.prefix}/bin"]:
    del sys.path[0]
