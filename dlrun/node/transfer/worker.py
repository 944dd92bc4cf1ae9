"""A worker process of a copy: reads or receives blocks, writes them, and forwards them.

Its parent sends commands and connections over a socket: `read` the blocks of the tokens; `receive` from a connection;
`stop-receiving`; `send` a node the blocks that it lacks; `detach` a slow node (do not wait for it); `drop` a node. The
worker reports failures, and ends with its parent.
"""

import array
import contextlib
import fcntl
import json
import os
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..blocks.buffer import SLACK, BlockBuffer, BufferPool
from ..blocks.journal import Journal
from ..blocks.progress_board import DONE, SEEN, TAKEN
from ..common.errors import Damaged, SourceFault, Unreadable, error_text, is_full
from ..network import wire
from .read_blocks import BlockReaders
from .receive_blocks import Receiver
from .send_blocks import Sender
from .task import Task, Tokens
from .write_blocks import BlockWriters

MESSAGE = 1 << 16  # bytes of one message on the channel
WINDOW = 12  # blocks in memory of a worker
WRITERS = 2  # threads that write received blocks


class Worker:
    """A worker: its connections, the blocks that it has handled, and its threads."""

    def __init__(self, task: Task, number: int, tokens: Tokens, channel: socket.socket, key: bytes) -> None:
        self.task, self.number, self.tokens, self.channel, self.key = task, number, tokens, channel, key
        self.pool, self.reread_pool = BufferPool(WINDOW), BufferPool(WINDOW)
        self.journal = Journal(task.directory, task.identity, "{}".format(os.getpid()))
        self.senders: Dict[int, Sender] = {}
        self.connecting: Dict[int, socket.socket] = {}
        self.forwardable: Dict[int, None] = {}  # blocks in the order in which they came; a key for each
        self.receiver: Optional[Receiver] = None
        self.receiving_stopped = False
        self.writers: Optional[BlockWriters] = None
        self.lock, self.receiving = threading.Lock(), threading.Lock()
        self.claim_lock = os.open(b".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=task.directory)

    def run(self) -> None:
        """Run commands until the parent has ended."""
        while True:
            message, descriptors = receive_message(self.channel)
            if message is None:
                return
            what = message["do"]
            if what == "read":
                in_background(self.read)
            elif what == "stop-receiving":
                in_background(self.stop_receiving)
            elif what == "receive":
                in_background(self.receive_from, socket.socket(fileno=descriptors[0]), message["attempt"])
            elif what == "send":
                peer = socket.socket(fileno=descriptors[0])
                self.connecting[message["node"]] = peer
                in_background(self.send_to, message["node"], message["attempt"], peer, message["detached"])
            elif what == "detach":
                self.detach(message["node"])
            elif what == "drop":
                self.drop(message["node"])

    def report(self, what: str, **details: Any) -> None:
        """Send a report to the parent."""
        try:
            send_message(self.channel, dict(details, worker=self.number, event=what))
        except OSError:
            # The parent has ended, and a worker ends with its parent.
            os._exit(1)

    def failed(self, fault: BaseException) -> None:
        """Report an error that ends this node's part of the copy."""
        if isinstance(fault, OSError):
            self.report("failed", message=error_text(fault), full=is_full(fault))
        else:
            self.report("failed", message=str(fault) or type(fault).__name__, full=False)

    def count(self, counter: str, amount: int) -> None:
        """Add to a counter of the progress board."""
        with self.lock:
            self.task.board.add(self.number, counter, amount)

    def read(self) -> None:
        """Read the blocks of the tokens until none are left."""

        def on_fault(fault: SourceFault) -> None:
            self.report("faulty", message=fault.message, unreadable=isinstance(fault, Unreadable))

        try:
            BlockReaders(
                self.task,
                self.tokens,
                journal=self.journal,
                pool=self.pool,
                count=self.count,
                forward=self.pass_on,
                on_fault=on_fault,
            ).run()
        except BaseException as fault:  # noqa: BLE001 - reported to the process that decides
            self.failed(fault)
        else:
            self.report("read")

    def pass_on(self, buffer: BlockBuffer) -> None:
        """Pass a buffer to every following node."""
        # The same lock as in `send_to`: a node that connects now gets this block as missed or as new, not both or neither.
        with self.lock:
            self.forwardable[buffer.number] = None
            for sender in self.senders.values():
                sender.put(buffer)

    def stop_receiving(self) -> None:
        """Stop receiving."""
        with self.receiving:
            self.receiving_stopped = True
            if self.receiver:
                self.receiver.close()
                self.receiver.drop_part()
        self.report("stopped-receiving")

    def receive_from(self, peer: socket.socket, attempt: int) -> None:
        """Receive from a new previous node, after sending it what it need not send: a list of blocks, and a part of one."""
        with self.receiving:
            part = None
            if self.receiver:
                self.receiver.close()
                part = self.receiver.take_part()
            if self.receiving_stopped:
                peer.close()
                return
            if not self.writers:
                self.writers = BlockWriters(
                    self.task,
                    self.journal,
                    threads=WRITERS,
                    count=self.count,
                    damaged=self.damaged,
                    failed=self.failed,
                )
            prepare(peer)
            # If it fails, the receiver finds the connection broken and reports that.
            with contextlib.suppress(OSError):
                held = (part.number, part.filled) if part else (0, 0)
                peer.sendall(self.task.board.plane(SEEN) + wire.PART.pack(*held))

            def lost() -> None:
                self.report("lost-up", attempt=attempt)

            self.receiver = Receiver(
                peer,
                self.key,
                task=self.task,
                pool=self.pool,
                claim=self.claim,
                arriving=self.pass_on,
                arrived=self.writers.put,
                lost=lost,
                count=self.count,
                part=part,
            )

    def damaged(self, fault: Damaged) -> None:
        """Close a connection that delivered damaged data; the previous node reconnects and sends it again."""
        self.report("damaged", message=fault.message)
        receiver = self.receiver
        if receiver:
            receiver.break_off()

    def claim(self, number: int) -> bool:
        """Claim a block for this worker; False if it was seen or another worker has it."""
        # After a reconnection two workers may be sent the same block. A file lock, because workers are processes; the
        # kernel releases it if the process dies.
        board = self.task.board
        fcntl.flock(self.claim_lock, fcntl.LOCK_EX)
        try:
            if board.has(number, SEEN) or board.has(number, TAKEN):
                return False
            board.mark(number, TAKEN)
            return True
        finally:
            fcntl.flock(self.claim_lock, fcntl.LOCK_UN)

    def send_to(self, node: int, attempt: int, peer: socket.socket, detached: bool) -> None:
        """Send to a following node, first the blocks that it has missed; `detached`: no other node waits for it."""
        prepare(peer)
        try:
            seen = wire.exactly(peer, len(self.task.blocks) + wire.PART.size)
        except OSError:
            seen = None
        if seen is None:
            peer.close()
            self.report("lost-down", node=node, attempt=attempt)
            return
        with self.lock:
            if self.connecting.pop(node, None) is not peer:
                # The node was dropped, or has connected again, in the meantime.
                peer.close()
                return
            # A block of which only a part came is not here any more: it is passed on when it comes as a whole.
            board = self.task.board
            here = [
                number for number in self.forwardable if board.has(number, SEEN) or board.has(number, TAKEN)
            ]
            missed = [number for number in here if not seen[number]]
            held = self._rest_first(missed, seen, peer)

            def lost() -> None:
                self.report("lost-down", node=node, attempt=attempt)

            self.senders[node] = Sender(
                peer,
                self.key,
                missed=missed,
                reread=self.reread,
                count=self.count,
                broken=lost,
                detached=detached,
                held=held,
            )

    def _rest_first(self, missed: List[int], seen: bytes, peer: socket.socket) -> int:
        """Put the block of which a node has a part first; returns the bytes that it has, 0 if all of each block is sent."""
        number, held = wire.PART.unpack_from(seen, len(self.task.blocks))
        if not held:
            return 0
        # The rest of a block that is still arriving here would have to wait until it has arrived.
        if number in missed and self.task.board.has(number, SEEN):
            missed.remove(number)
            missed.insert(0, number)
        else:
            held = 0
        # If it fails, the sender finds the connection broken and reports that.
        with contextlib.suppress(OSError):
            peer.sendall(wire.SEGMENT.pack(held))
        return int(held)

    def detach(self, node: int) -> None:
        """Stop waiting for a slow node."""
        with self.lock:
            if node in self.senders:
                self.senders[node].detach()

    def drop(self, node: int) -> None:
        """Stop sending to a node."""
        with self.lock:
            peer, sender = self.connecting.pop(node, None), self.senders.pop(node, None)
        if sender is not None:
            sender.close()
        if peer is not None:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def reread(self, number: int) -> BlockBuffer:
        """A block that was handled before, read from this node's copy, or without one from the source."""
        task = self.task
        # The block was received, but is perhaps not written yet: the copy here can be read only afterwards.
        while task.write and not task.board.has(number, DONE):
            time.sleep(0.005)
        reader = task.layout.reader(task.hasher) if task.write else task.source_reader(reread=True)
        block = task.blocks[number]
        # From a pool of its own: if all buffers of `pool` are queued for this node, rereading would wait for itself.
        buffer = BlockBuffer(self.reread_pool, number, block.length)
        try:
            buffer.digests = reader.read(block, buffer.view[: block.length + SLACK])
        except SourceFault:
            buffer.release()
            raise
        finally:
            reader.close()
        buffer.fill(block.length)
        return buffer


def in_background(work: Callable[..., None], *arguments: Any) -> None:
    """Run work that may wait for another node in a thread, so that the worker can handle further commands."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def prepare(peer: socket.socket) -> None:
    """Set up a received connection: blocking, with TCP_NODELAY."""
    peer.setblocking(True)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send_message(channel: socket.socket, message: Dict[str, Any], descriptors: Tuple[int, ...] = ()) -> None:
    """Send one message with open descriptors (SCM_RIGHTS)."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    channel.sendmsg([json.dumps(message).encode("ascii")], rights)


def receive_message(channel: socket.socket) -> "Tuple[Optional[Dict[str, Any]], List[int]]":
    """(next message, its descriptors); the message is None if the other side has ended."""
    room = socket.CMSG_SPACE(4)
    try:
        data, rights, _, _ = channel.recvmsg(MESSAGE, room)
    # The process has died with an unread message: the kernel reports that once, before the messages that it had sent.
    except ConnectionResetError:
        data, rights, _, _ = channel.recvmsg(MESSAGE, room)
    descriptors = array.array("i")
    for level, kind, content in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return (json.loads(data.decode("ascii")) if data else None), list(descriptors)


def start(
    task: Task, number: int, tokens: Tokens, key: bytes, others: List[socket.socket]
) -> Tuple[int, socket.socket]:
    """Fork a worker; returns its process id and the channel to it. `others`: channels that it must close."""
    # SEQPACKET keeps the boundaries of messages, and the descriptors of each message with it.
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        its.close()
        return pid, mine
    status = 1
    try:
        # Copies of the parent's ends in this process would keep other workers from noticing the parent's death.
        for other in [*others, mine]:
            other.close()
        # Ctrl-C reaches the whole process group; the parent ends the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        tokens.close_writer()
        Worker(task, number, tokens, its, key).run()
        status = 0
    finally:
        os._exit(status)
