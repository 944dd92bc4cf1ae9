"""The picture of a node as PNG: draws what `svg` writes, and nothing else that SVG can say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from math import hypot
from xml.etree import ElementTree as ET

from dlrun.render.affinity import letters
from dlrun.render.affinity.raster import Box, Colour, Image, Ink

SCALE = 2
"""Pixels for each unit of the SVG, for sharp screens."""

SPACE = "{http://www.w3.org/2000/svg}"
BOLD = 600
"""Weight from which letters are drawn thicker."""


def png(svg: str) -> bytes:
    """A PNG of a document of `dlrun.render.affinity.svg`; raises ValueError for an element that it never writes."""
    root = ET.fromstring(svg)  # noqa: S314 - our own text
    image = Image(round(float(root.get("width", 0)) * SCALE), round(float(root.get("height", 0)) * SCALE))
    _draw(image, root, 0.0, 0.0)
    return image.png()


def _draw(image: Image, parent: ET.Element, left: float, top: float) -> None:
    """Draw what is in an element whose own place is (left, top)."""
    for element in parent:
        tag = element.tag.removeprefix(SPACE)
        if tag == "g":
            moved = re.fullmatch(
                r"translate\(([\d.]+),([\d.]+)\)", element.get("transform", "translate(0,0)")
            )
            if moved is None:
                raise ValueError(f"no place in `{element.get('transform')}`")
            _draw(image, element, left + float(moved[1]), top + float(moved[2]))
        elif tag == "rect":
            _rectangle(image, element.attrib, left, top)
        elif tag == "circle":
            x, y, radius = (float(element.attrib[name]) for name in ("cx", "cy", "r"))
            box = _box(left + x - radius, top + y - radius, 2 * radius, 2 * radius, radius)
            colour = _colour(element.attrib["fill"])
            image.fill(box, _plain(colour, 1.0), solid=colour)
        elif tag == "text":
            _words(image, element, left, top)
        elif tag not in ("defs", "title"):
            raise ValueError(f"`{tag}` is not drawn")


def _rectangle(image: Image, told: Mapping[str, str], left: float, top: float) -> None:
    x, y = left + float(told.get("x", 0)), top + float(told.get("y", 0))
    box = _box(x, y, float(told["width"]), float(told["height"]), float(told.get("rx", 0)))
    fill, opacity = told.get("fill", "#000000"), float(told.get("fill-opacity", 1))
    if fill.startswith("url(#"):
        image.fill(box, _pattern(fill[5:-1]))
    elif opacity < 1:
        image.fill(box, _plain(_colour(fill), opacity))
    else:
        image.fill(box, _plain(_colour(fill), 1.0), solid=_colour(fill))
    if "stroke" in told:
        ink = _plain(_colour(told["stroke"]), 1.0)
        if dashes := told.get("stroke-dasharray"):
            ink = _dashed(ink, box, *(float(part) * SCALE for part in dashes.split()))
        image.outline(box, ink, float(told.get("stroke-width", 1)) * SCALE)


def _words(image: Image, element: ET.Element, left: float, top: float) -> None:
    size = float(element.get("font-size", 12)) * SCALE
    text = element.text or ""
    x, y = (left + float(element.get("x", 0))) * SCALE, (top + float(element.get("y", 0))) * SCALE
    if element.get("text-anchor") == "middle":
        x -= letters.width(text) * size / 2
    thick = size * (0.115 if float(element.get("font-weight", 400)) >= BOLD else 0.085)
    colour = _colour(element.get("fill", "#000000"))
    for stroke in letters.strokes(text):
        points = [(x + dx * size, y + dy * size) for dx, dy in stroke]
        for start, end in pairwise(points):
            image.line(start, end, colour, thick)


def _box(x: float, y: float, width: float, height: float, radius: float) -> Box:
    return Box(x * SCALE, y * SCALE, width * SCALE, height * SCALE, radius * SCALE)


def _colour(text: str) -> Colour:
    """`#rrggbb`; raises ValueError for another way to say a colour."""
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def _plain(colour: Colour, opacity: float) -> Ink:
    return lambda _x, _y: (colour, opacity)


def _pattern(name: str) -> Ink:
    """The patterns of `svg`: diagonal stripes 2 thick and 6 apart (over a ground, if closed), or dots."""
    step = 6 * SCALE

    def stripes(x: float, y: float) -> float:
        return max(0.0, min(1.0, 1.0 + SCALE - abs((x + y) / 2**0.5 % step - step / 2)))

    def closed(x: float, y: float) -> tuple[Colour, float]:
        part = stripes(x, y)
        ground, line = (0xEE, 0xF1, 0xF5), (0xC3, 0xCB, 0xD6)
        red, green, blue = (round(a + (b - a) * part) for a, b in zip(ground, line, strict=True))
        return (red, green, blue), 1.0

    def dots(x: float, y: float) -> tuple[Colour, float]:
        away = hypot(x % step - step / 2, y % step - step / 2) - 1.3 * SCALE
        return (0x1F, 0x27, 0x33), 0.3 * max(0.0, min(1.0, 0.5 - away))

    if name == "closed":
        return closed
    if name == "loader":
        return dots
    return lambda x, y: ((0x1F, 0x27, 0x33), 0.22 * stripes(x, y))


def _dashed(ink: Ink, box: Box, dash: float, gap: float) -> Ink:
    """The ink on the dashes along the edges of a box, none between them."""

    def dashed(x: float, y: float) -> tuple[Colour, float]:
        colour, opacity = ink(x, y)
        near_side = min(abs(x - box.left), abs(x - box.right)) < min(abs(y - box.top), abs(y - box.bottom))
        along = y - box.top if near_side else x - box.left
        return colour, opacity if along % (dash + gap) < dash else 0.0

    return dashed
