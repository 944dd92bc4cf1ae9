"""Interface of the directories in which a set is built and published: staging directory, destination of results."""

from typing import Optional


class TargetDirectory:
    """Descriptors of the directory of published names, and of dlrun's hidden control directory."""

    directory: int
    control: int

    def open_unfinished(self, name: bytes) -> int:
        """A descriptor of the directory in which a set is built, with the remains of an earlier run."""
        raise NotImplementedError

    def published(self, name: bytes) -> Optional[int]:  # noqa: ARG002 - where versions replace one another
        """A descriptor of the published version's directory, or None."""
        return None

    def publish(self, name: bytes) -> None:
        """Publish the finished part atomically."""
        raise NotImplementedError

    def discard(self, directory: int, name: bytes) -> None:
        """Remove a tree, if it exists."""
        raise NotImplementedError
