"""Messages between the process of a node and those that copy for it."""

import socket

import pytest
from dlrun.node.common.errors import NodeError
from dlrun.node.transfer.worker import receive_message, send_message
from dlrun.node.transfer.workers import Workers


@pytest.fixture
def pair():
    """The two ends of a channel."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ends
    for end in ends:
        end.close()


@pytest.mark.parametrize("unread", [0, 1], ids=["read all", "left a message unread"])
def test_what_a_process_wrote_before_it_died_is_read(pair, unread):
    """The system reports a message that was left unread as a reset, before what is still to be read."""
    mine, its = pair
    for _ in range(unread):
        send_message(mine, {"do": "drop"})
    send_message(its, {"event": "failed"})
    its.close()
    assert receive_message(mine)[0] == {"event": "failed"}
    assert receive_message(mine)[0] is None


def test_a_worker_that_died_is_an_error_of_the_node(pair):
    mine, its = pair
    send_message(mine, {"do": "drop"})
    its.close()
    workers = Workers.__new__(Workers)
    workers.channels = [mine]
    with pytest.raises(NodeError, match="was killed"):
        workers.receive(0)
