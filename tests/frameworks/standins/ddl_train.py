"""Stands in for a program with IBM DDL: it must be told the cluster's shape."""

import os

from training import NODE, WORLD, expect, train

expect("DDL_OPTIONS", os.environ.get("DDL_OPTIONS"), f"-mode p:{NODE.size}x{WORLD.size // NODE.size}x1x1")
train()
