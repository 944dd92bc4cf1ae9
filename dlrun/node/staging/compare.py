"""The second step of `stage`: whether the published copy is the set that this node is to have."""

from ..source.manifest import Manifest
from ..store import warm
from .request import Staging


def is_current(staging: Staging, manifest: Manifest) -> bool:
    """Whether the published copy is this set, undamaged, and has the content that the user demands.

    Its damaged files are in `staging.changed` afterwards. If it is, it is flushed to the disk where that is still to be done, the
    rest of a killed run is removed, and its content is compared with what the user demands.
    """
    arguments, area, name = staging.given, staging.area, staging.name
    published = staging.published.load()
    options = {"hash": staging.hasher.name, "strategy": staging.layout_name}
    if published is None or not warm.is_same(published, manifest, options):
        return False
    # Reading the copy back takes as long as copying it, and is done only if the cheap check leaves a doubt.
    check = warm.check_copy(area, name, published, staging.layout_name, arguments.recheck)
    trusted = warm.is_trusted(area, name, published)
    staging.changed, staging.looked["copy"] = check.changed, check.looked
    if not staging.changed and (arguments.verify or check.touched or not trusted):
        if not trusted:
            staging.progress.log("the node has rebooted since the copy was made; reading it back")
        from ..store.read_back import read_back

        staging.changed = read_back(area, name, published, staging.hasher, trusted)
    if staging.changed:
        return False
    if staging.sync != "none" and not published.info.get("synced"):
        warm.make_durable(area, name, published)
    staging.notes += check.notes()
    # A run that was killed between publishing this version and removing the previous one has left the latter here.
    staging.abandon()
    staging.proof.of_published(area, name, staging.layout_name)
    return True
