"""What a set is built and published in: a node's staging directory, or a destination for results."""

from typing import Optional


class Place:
    """The directory of the published names, and the hidden one next to them that only dlrun uses."""

    directory: int
    control: int

    def part(self, name: bytes) -> int:
        """A descriptor of the directory in which a set is built; what an earlier run left is still in it."""
        raise NotImplementedError

    def published(self, name: bytes) -> Optional[int]:  # noqa: ARG002 - where versions replace one another
        """A descriptor of the published version's directory, or None."""
        return None

    def publish(self, name: bytes) -> None:
        """Give the finished part its name, in one step."""
        raise NotImplementedError

    def discard(self, directory: int, name: bytes) -> None:
        """Remove a tree of ours; nothing happens when it is not there."""
        raise NotImplementedError
