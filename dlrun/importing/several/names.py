"""Names of roles, from what they run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlrun.importing.launch import Launch
from dlrun.importing.words import program

_STARTS = re.compile(
    r"python[\d.]*|bash|sh|env|uv|poetry|exec|run|numactl|apptainer|singularity|timeout|nsys|torchrun|accelerate|deepspeed|launch"
)


def role_names(launches: Sequence[Launch]) -> list[str]:
    """A name for each launch: that of its script, module or program, with a number where two are alike."""
    names: list[str] = []
    for launch in launches:
        name, number = _name(launch), 1
        taken = {other.lower() for other in names}
        wanted = name
        while wanted.lower() in taken:
            number += 1
            wanted = f"{name[:28]}_{number}"
        names.append(wanted)
    return names


def _name(launch: Launch) -> str:
    words = [word.literal or "" for word in launch.words]
    script = re.search(r"([\w.-]+)\.(?:py|sh|bash|jl|R)\b", " ".join(words))
    module = next((words[i + 1] for i, w in enumerate(words[:-1]) if w == "-m"), "")
    programs = (
        p
        for p in map(program, launch.words)
        if re.fullmatch(r"[A-Za-z][\w.+-]*", p) and not _STARTS.fullmatch(p)
    )
    found = script[1] if script else module.rpartition(".")[2] or next(programs, "role")
    made = re.sub(r"\W+", "_", found, flags=re.ASCII).strip("_")[:32].rstrip("_")
    return made if re.match(r"[A-Za-z]", made) else f"role_{made}"[:32].rstrip("_")
