"""`python3 - PARENT <usage.py`, or `python3 -m dlrun.node.usage PARENT`."""

import sys

from .sampler import main

if __name__ == "__main__":
    sys.exit(main())
