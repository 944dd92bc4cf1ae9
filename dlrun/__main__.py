"""`python -m dlrun`: the same as the `dlrun` command, where only the interpreter is known."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - any Python may read this file
    found = "{} ({})".format(sys.version.split()[0], sys.executable)  # noqa: UP032
    sys.exit("error: dlrun needs Python 3.11 or later, and this is " + found)

from dlrun.cli.start import main

if __name__ == "__main__":
    main()
