"""The one error of the test cluster."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster could not be brought up, reached or taken down; the message says why."""
