"""All faults of the campaign."""

from __future__ import annotations

from tests.cluster.campaign.before_ranks import BEFORE_RANKS
from tests.cluster.campaign.fault import Fault
from tests.cluster.campaign.grounds import Ground
from tests.cluster.campaign.nodes import NODE_FAULTS
from tests.cluster.campaign.programs import PROGRAMS
from tests.cluster.campaign.queues import QUEUES
from tests.cluster.campaign.remote import REMOTE

ALL = (*PROGRAMS, *BEFORE_RANKS, *QUEUES, *REMOTE, *NODE_FAULTS)


def of(ground: Ground) -> tuple[Fault, ...]:
    """Those that a scheduler can have."""
    return tuple(fault for fault in ALL if fault.only in ("", ground.name) and ground.name not in fault.never)
