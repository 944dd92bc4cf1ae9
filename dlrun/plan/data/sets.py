"""Location of each data set when training starts, and the path for the program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dlrun.model.data import DataSet, NodeLocal, ResultsPlan, is_hub
from dlrun.model.observed import DataSize, HubCopy
from dlrun.model.plan import DataPlan
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, expanding, lazy_pattern
from dlrun.model.units import Bytes, Duration, many
from dlrun.plan.data.hubs import from_hub, wrong_hub
from dlrun.plan.data.strategy import (
    GIVEN,
    NOTHING,
    Choice,
    Strategy,
    choose_part,
    choose_strategy,
    known_size,
    room_for_part,
    sized,
)
from dlrun.plan.decisions import Ledger

_URL = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://")
FETCHED = ("s3", "http", "https")
"""The schemes of URLs that the node program reads (`dlrun.node.source.remote`)."""

_CLIENTS = {
    "s3": "aws s3 sync URL DIRECTORY",
    "gs": "gcloud storage rsync -r URL DIRECTORY",
    "http": "wget -r URL",
    "https": "wget -r URL",
}
"""URL scheme -> command that fetches it (documentation of AWS CLI, Google Cloud CLI, Wget, Hugging Face Hub)."""


def place_data(
    spec: Spec,
    site: Site,
    nodes: int,
    measured: Mapping[str, DataSize],
    ledger: Ledger,
    *,
    memory: Bytes | None = None,
    hubs: Mapping[str, HubCopy] = MappingProxyType({}),
) -> tuple[DataPlan, ...]:
    """The plan of each data set, in the order of the spec; `measured`: name -> measured size of the source.

    `memory` is the job's memory per node in bytes, for storage in memory. `hubs`: name -> a hub's repository in the store.
    """
    measured = {**measured, **{name: DataSize(size=hub.size, files=hub.files) for name, hub in hubs.items()}}
    local = sized(site.storage.node_local, memory)
    # What was measured of an archive is not the size of its content.
    measured = {name: size for name, size in measured.items() if not spec.data[name].unpack}
    _check_start(spec.data, measured, ledger)
    _check_images(spec, local, ledger)
    _check_sources(spec.data, local, ledger)
    _check_credentials(spec, ledger)
    whole = {} if local is None else _whole_sets(spec.data, measured, local)
    planned = [
        _one(
            name,
            data,
            local=local,
            measured=measured.get(name),
            nodes=nodes,
            others=Bytes(sum(size for other, size in whole.items() if other != name)),
            ledger=ledger,
            secrets=secrets_of(data, spec),
        )
        for name, data in spec.data.items()
    ]
    return tuple(from_hub(data_set, hubs.get(data_set.name), ledger) for data_set in planned)


def _whole_sets(
    sets: Mapping[str, DataSet], measured: Mapping[str, DataSize], local: NodeLocal
) -> dict[str, Bytes]:
    """Name -> size of the data sets copied to every node as a whole, as far as sizes are known."""
    sizes = {name: known_size(data, measured.get(name)) for name, data in sets.items()}
    # A set of unknown size, or one that does not fit by itself, is copied only as far as the others leave room.
    fits = room_for_part(local, NOTHING)
    return {
        name: size
        for name, size in sizes.items()
        if size is not None
        and sets[name].strategy in ("auto", "copy", "pack", "image")
        and (fits is None or size <= fits)
    }


def _check_start(sets: Mapping[str, DataSet], measured: Mapping[str, DataSize], ledger: Ledger) -> None:
    """A problem for each data set that cannot be complete only after the training has started."""
    early = [name for name, data in sets.items() if data.start is not None]
    for name in early:
        data, why = sets[name], ""
        if data.strategy in ("pack", "image"):
            why = (
                f"`strategy: {data.strategy}` makes a single file, which cannot be used before it is complete"
            )
        elif reads := next((k for k in ("verify", "checksums", "version") if getattr(data, k)), ""):
            why = f"`{reads}` reads every copy back before the training starts"
        elif name != early[0]:
            why = f"only one data set can be completed during the training, and `{early[0]}` has `start`, too"
        if why:
            ledger.problem(
                "DLR109",
                f"`start` is not possible for data set `{name}`: {why}",
                f"data.{name}.start",
                help="remove one of the two",
            )
        elif data.start is not None and (least := _more_than_all(data.start, data, measured.get(name))):
            ledger.problem(
                "DLR109",
                f"data set `{name}` has only {least}, less than its `start`, so the training would start when it is complete",
                f"data.{name}.start",
                help="set `start` to a part of it, such as `10%`, or leave it out",
            )


def _more_than_all(start: str, data: DataSet, measured: DataSize | None) -> str:
    """What the data set has as a whole, if that is known and `start` is more; else empty."""
    if start.rstrip().endswith("%"):
        return ""
    counted = measured is not None and measured.whole
    if "file" in start:
        files = measured.files if measured is not None and counted else None
        wanted = int(start.rstrip("files "))
        return many(files, "file") if files is not None and files < wanted else ""
    size = known_size(data, measured if counted else None)
    return str(size) if size is not None and size < Bytes.parse(start) else ""


def _check_sources(sets: Mapping[str, DataSet], local: NodeLocal | None, ledger: Ledger) -> None:
    for name, data in sets.items():
        if data.unpack and (refused := not_unpacked(data, local, fetched=is_fetched(data.source))):
            ledger.problem(
                "DLR141",
                f"data set `{name}`: `{data.source}` cannot be unpacked: {refused[0]}",
                f"data.{name}.unpack",
                f"data.{name}.strategy",
                help=refused[1],
            )
        elif is_fetched(data.source):
            why = "there is no node-local storage in the site profile" if local is None else ""
            if data.strategy in ("in_place", "part", "shard"):
                why = f"`strategy: {data.strategy}` reads the source on each node"
            if why:
                message = f"data set `{name}`: `{data.source}` is fetched by the first node for all nodes, but {why}"
                ledger.problem("DLR110", message, f"data.{name}.source", help=_fetch_first(data.source))
        elif is_hub(data.source):
            wrong_hub(name, data, ledger)
        elif (way_out := unsupported(data.source)) is not None:
            message = f"data set `{name}`: `{data.source}` is not on a file system"
            ledger.problem("DLR110", message, f"data.{name}.source", help=way_out)


_TAKEN = {"s3": ("AWS_", "S3_", "RCLONE_"), "hf": ("HF_TOKEN",)}
"""URL scheme -> beginnings of the names of secrets that its clients read from their environment."""


def secrets_of(data: DataSet, spec: Spec) -> tuple[str, ...]:
    """The names of the spec's secrets that the program which fetches a data set needs."""
    match = _URL.match(data.source)
    prefixes = _TAKEN.get(match[1].lower(), ()) if match else ()
    named = data.credentials.secrets() if data.credentials else ()
    taken = (name for name in spec.secrets if name.startswith(prefixes)) if prefixes else ()
    return tuple(dict.fromkeys([*named, *taken]))


def _check_credentials(spec: Spec, ledger: Ledger) -> None:
    """A problem for credentials of a source that is not on a web server, and for secrets that do not exist."""
    for name, data in spec.data.items():
        if data.credentials is None:
            continue
        if not data.source.lower().startswith(("http://", "https://")):
            ledger.problem(
                "DLR115",
                f"`credentials` of data set `{name}` are for sources that begin with `https://`",
                f"data.{name}.credentials",
                help="S3 takes the secrets named `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and so on by itself",
            )
        for secret in data.credentials.secrets():
            if secret not in spec.secrets:
                ledger.problem(
                    "DLR115",
                    f"data set `{name}` needs the secret `{secret}`, which is not under `secrets`",
                    f"data.{name}.credentials",
                    help=f"name the source of its value: `secrets: {{{secret}: {{file: PATH}}}}` (or `env:`, `command:`)",
                )


def _check_proof(name: str, data: DataSet, strategy: Strategy, because: str, ledger: Ledger) -> bool:
    """Whether the content of a data set is to be proved; a problem if no copy of the whole set is made."""
    wanted = next((k for k in ("version", "checksums") if getattr(data, k)), None)
    if wanted and (strategy == "in_place" or (strategy == "shard" and wanted == "version")):
        why = because if strategy == "in_place" else "no node has all files"
        ledger.problem(
            "DLR116",
            f"`{wanted}` of data set `{name}` is compared with a copy, but its strategy is `{strategy}`: {why}",
            f"data.{name}.{wanted}",
            help=f"use `strategy: copy` and a site with node-local storage, or leave out `{wanted}`",
        )
    return wanted is not None


def is_fetched(source: str) -> bool:
    """True if a source is a URL that the first node of the job fetches."""
    return (match := _URL.match(source)) is not None and match[1].lower() in FETCHED


def unsupported(source: str) -> str | None:
    """Help for a source with an unsupported URL scheme; None for any other source."""
    return None if _URL.match(source) is None or is_fetched(source) else _fetch_first(source)


def _fetch_first(source: str) -> str:
    match = _URL.match(source)
    command = _CLIENTS.get(match[1].lower() if match else "", "rclone copyto REMOTE:PATH DIRECTORY")
    return f"fetch it once to the shared file system, then stage that: `{command}`"


def place_results(spec: Spec, site: Site, walltime: Duration | None, ledger: Ledger) -> ResultsPlan | None:
    """The copy of results from node-local storage; None without `results`."""
    wanted = spec.results
    if wanted is None:
        return None
    if site.storage.node_local is None:
        ledger.problem(
            "DLR027",
            "`results` needs node-local storage, which is not in the site profile",
            "results",
            help="write them to the shared file system, or add `storage.node_local` to the site profile",
        )
    if walltime is not None and wanted.before_end * 2 > walltime:
        ledger.problem(
            "DLR093",
            f"{wanted.before_end} are reserved for copying the results, but the walltime is only {walltime}",
            "results.before_end",
            "results",
            "resources.walltime",
            help="increase the walltime, or decrease `results.before_end`",
        )
    ledger.decide("results.to", wanted.to, "staging", "from the spec", origin=ledger.origin("results"))
    return ResultsPlan(to=wanted.to, when=wanted.when, before_end=wanted.before_end)


def stage_directory(site: Site, data: Sequence[DataPlan], results: ResultsPlan | None) -> Text | None:
    """The user's staging directory on each node, in the site's node-local storage; None if nothing is staged."""
    local = site.storage.node_local
    if local is None or (results is None and all(data_set.strategy == "in_place" for data_set in data)):
        return None
    return Text.of(expanding(local.path), "/dlrun-", Shell("$DLRUN_USER"))


def _one(
    name: str,
    data: DataSet,
    local: NodeLocal | None,
    measured: DataSize | None,
    nodes: int,
    others: Bytes,
    ledger: Ledger,
    secrets: tuple[str, ...],
) -> DataPlan:
    choice = _choose(name, data, local=local, measured=measured, nodes=nodes, others=others, ledger=ledger)
    strategy, because = choice.strategy, choice.because
    proved = _check_proof(name, data, strategy, because, ledger)
    variable = "DLRUN_DATA_" + re.sub(r"\W", "_", name, flags=re.ASCII).upper()
    path = Text.of(data.source if strategy == "in_place" else Shell(f"${variable}"))
    ledger.decide(f"data.{name}.strategy", strategy, "staging", because, origin=ledger.origin(f"data.{name}"))
    return DataPlan(
        name=name,
        source=data.source,
        strategy=strategy,
        path=path,
        because=because,
        variable=variable,
        keep=data.keep,
        size=data.size,
        include=data.include,
        exclude=data.exclude,
        start=data.start if strategy != "in_place" else None,
        balance=data.balance,
        readers=data.readers,
        shape=data.shape,
        rate=data.rate,
        low_priority=data.low_priority,
        verify=data.verify,
        recheck=data.recheck,
        fallback=choice.fallback and not proved,
        room=choice.room,
        checksums=data.checksums,
        version=data.version,
        unpack=data.unpack,
        credentials=data.credentials,
        secrets=secrets if strategy != "in_place" else (),
    )


def _choose(
    name: str,
    data: DataSet,
    local: NodeLocal | None,
    measured: DataSize | None,
    nodes: int,
    others: Bytes,
    ledger: Ledger,
) -> Choice:
    """The staging strategy of a data set, with its reason."""
    if data.strategy == "in_place":
        return Choice(strategy="in_place", because=GIVEN)
    if local is None:
        if data.strategy != "auto":
            ledger.problem(
                "DLR027",
                f"`strategy: {data.strategy}` needs node-local storage, which is not in the site profile",
                f"data.{name}.strategy",
                help="use `strategy: in_place`, or add `storage.node_local` to the site profile",
            )
        return Choice(strategy="in_place", because="there is no node-local storage in the site profile")
    if data.unpack:
        return Choice(
            strategy="pack" if data.strategy == "pack" else "copy",
            because="it is an archive, which the first node unpacks and passes on to the others",
        )
    if is_fetched(data.source):
        return Choice(
            strategy=data.strategy if data.strategy in ("pack", "image") else "copy",
            because="it is not on a file system, so the first node fetches it and passes it on to the others",
        )
    if data.strategy == "part":
        return choose_part(data, measured, local, others)
    if data.strategy != "auto":
        return Choice(strategy=data.strategy, because=GIVEN)
    choice = choose_strategy(data, measured, local, nodes, others)
    if choice.advice:
        ledger.decide(f"data.{name}.advice", choice.advice, "staging", choice.because)
    return choice


_IMAGES = (".squashfs", ".sqfs", ".sqsh", ".sfs", ".img", ".squash")
"""Ends of names of images: of another source the first node makes one."""


def _check_images(spec: Spec, local: NodeLocal | None, ledger: Ledger) -> None:
    for name, data in spec.data.items():
        if data.strategy == "image" and (why := _not_an_image(data, spec, local)):
            ledger.problem(
                "DLR146",
                f"data set `{name}` cannot be one image: {why}",
                f"data.{name}.strategy",
                help="use `strategy: copy` or `pack`",
            )


def _not_an_image(data: DataSet, spec: Spec, local: NodeLocal | None) -> str | None:
    """Why a data set cannot be one image that each node mounts; None if it can."""
    container, (_, _, name) = spec.environment.container, data.source.rpartition("/")
    if container is not None and container.runtime == "enroot":
        return "pyxis starts the container before any program of the job could mount it on the node"
    if container is not None and name.lower().endswith(_IMAGES) and set(":,") & set(name):
        return "Apptainer takes a colon or a comma in its name for the end of a path"
    if local is not None and local.scope == "job":
        return "the nodes of a job share their storage, where each would mount it"
    if data.unpack:
        return "it is an archive, which is unpacked"
    if is_hub(data.source):
        return "a repository of the hub has links to files elsewhere"
    if (data.checksums or data.version) and not data.source.lower().endswith(_IMAGES):
        return "`checksums` and `version` are of its files, not of an image made of them"
    if data.include or data.exclude or set("*?[") & set(data.source):
        return "`mksquashfs` takes a whole directory, without `include`, `exclude` or a glob"
    return None


# Why the archive of a data set (`unpack: true`) cannot be unpacked.


def not_unpacked(data: DataSet, local: NodeLocal | None, *, fetched: bool) -> tuple[str, str] | None:
    """Why an archive cannot be unpacked, and the way out; None if it can. fetched: the source is a URL that is fetched."""
    if local is None:
        return (
            "there is no node-local storage in the site profile",
            "unpack it once on the shared file system",
        )
    if data.strategy not in ("auto", "copy", "pack"):
        return (
            f"it is read as a whole, and no node has all of it with `strategy: {data.strategy}`",
            "leave out `strategy`, or unpack it once on the shared file system and name the directory",
        )
    if set("*?[") & set(data.source) and not fetched:
        return "a glob may match several files", "name one archive for each data set"
    return None
