"""AMD GPUs from the output of `rocm-smi`, if the kernel's files (`amd`) are missing.

The names of its values have changed with ROCm 6 and differ between cards, so each number has a list of names.
"""

import json
import re
from typing import Any, Dict, List, Optional, Sequence

from .vendor_program import VendorProgram

COMMAND = (
    "rocm-smi", "--showproductname", "--showuniqueid", "--showuse", "--showmemuse", "--showpower", "--showtemp", "--showclocks",
    "--showmeminfo", "vram", "--json",
)  # fmt: skip
_NUMBER = re.compile(r"\(?(-?\d+(?:\.\d+)?)(?:Mhz\))?")
_NAME = ("Card Series", "Card series", "Device Name", "Card model", "Card Model")
_MEMORY_BUSY = ("GPU Memory Read/Write Activity (%)", "GPU memory use (%)")
_POWER = ("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)")
_HEAT = ("Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)")

Card = Dict[str, Any]


def parse(text: str) -> List[Card]:
    """The cards in their order; OSError for text without any. Warnings may be printed before the JSON."""
    start = text.find("{")
    try:
        document = json.loads(text[start:]) if start >= 0 else {}
    except ValueError:
        document = {}
    names = [name for name in document if re.match(r"card\d+$", name) and isinstance(document[name], dict)]
    if not names:
        raise OSError("rocm-smi printed no card")
    return [document[name] for name in sorted(names, key=lambda name: int(name[4:]))]


def describe_card(card: Card) -> Dict[str, Any]:
    """The constant facts of a GPU."""
    unique = str(card.get("Unique ID", ""))
    return {
        "name": next((str(card[name]) for name in _NAME if card.get(name)), "AMD GPU"),
        "uuid": unique if unique.startswith("0x") else "",
        "memory": _number(card, ("VRAM Total Memory (B)",)),
        "clock": None,
        "mig": False,
    }


def row(card: Card) -> List[Any]:
    """The numbers of `gpus.COLUMNS`."""
    return [
        _number(card, ("GPU use (%)",)), _number(card, _MEMORY_BUSY), _number(card, ("VRAM Total Used Memory (B)",)),
        _number(card, _POWER), _number(card, ("sclk clock speed:",)), _number(card, _HEAT), None, None,
    ]  # fmt: skip


def _number(card: Card, names: Sequence[str]) -> Optional[int]:
    """The first of these values that is a number: others are `N/A`, or `N/A (Secondary die)`."""
    for name in names:
        match = _NUMBER.match(str(card.get(name, "")))
        if match:
            return round(float(match.group(1)))
    return None


def open_rocm() -> VendorProgram:
    """The GPUs that `rocm-smi` lists."""
    return VendorProgram(COMMAND, parse, describe_card, row)
