"""The command line: one file a command, one error boundary."""

import sys

# A script's own directory stands first on the search path: one more file-system call for every module imported.
if sys.path[:1] == [f"{sys.prefix}/bin"]:
    del sys.path[0]
