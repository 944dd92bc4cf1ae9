"""Shapes as pixels with soft edges, in an image that becomes PNG; the standard library alone is needed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from math import ceil, floor, hypot
from typing import TypeAlias

Colour: TypeAlias = tuple[int, int, int]
Ink: TypeAlias = Callable[[float, float], tuple[Colour, float]]
"""Colour and opacity (0 to 1) at a place."""


class Image:
    """A white image; coordinates are pixels, y grows downwards, a pixel covers one unit from its number on."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(b"\xff" * (3 * width)) for _ in range(height)]

    def pixel(self, x: int, y: int) -> Colour:
        """The colour of one pixel."""
        red, green, blue = self._rows[y][3 * x : 3 * x + 3]
        return red, green, blue

    def png(self) -> bytes:
        """The image as PNG (RFC 2083): eight bits a channel, no filters."""
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        data = zlib.compress(b"".join(b"\0" + row for row in self._rows), 6)
        chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
            for name, body in chunks
        )

    def blend(self, x: int, y: int, colour: Colour, opacity: float) -> None:
        """Lay a colour over a pixel; outside of the image nothing happens."""
        if opacity <= 0 or not (0 <= x < self.width and 0 <= y < self.height):
            return
        row, start = self._rows[y], 3 * x
        for i in range(3):
            row[start + i] = round(row[start + i] + (colour[i] - row[start + i]) * min(opacity, 1.0))

    def span(self, y: int, left: int, right: int, colour: Colour) -> None:
        """Set the pixels of a row from `left` up to, not including, `right`."""
        left, right = max(left, 0), min(right, self.width)
        if 0 <= y < self.height and left < right:
            self._rows[y][3 * left : 3 * right] = bytes(colour) * (right - left)

    def fill(self, box: Box, ink: Ink, *, solid: Colour | None = None) -> None:
        """Fill a box; `solid` is the ink's colour if it is the same everywhere and opaque (much faster)."""
        for y in range(floor(box.top), ceil(box.bottom)):
            inner = box.inner(y) if solid is not None else (0, 0)
            if solid is not None and inner[0] < inner[1]:
                self.span(y, *inner, solid)
            for x in _around(floor(box.left), ceil(box.right), inner):
                colour, opacity = ink(x, y)
                self.blend(x, y, colour, opacity * _cover(box.distance(x + 0.5, y + 0.5)))

    def outline(self, box: Box, ink: Ink, thick: float) -> None:
        """Draw along the edge of a box, half of the thickness on each side of it."""
        half = thick / 2
        for y in range(floor(box.top - half), ceil(box.bottom + half)):
            edge = half + box.radius + 1
            across = box.top + edge <= y < box.bottom - edge
            hollow = (ceil(box.left + half + 1), floor(box.right - half - 1)) if across else (0, 0)
            if not across and box.top + half + 1 <= y < box.bottom - half - 1:
                hollow = (ceil(box.left + edge), floor(box.right - edge))
            for x in _around(floor(box.left - half), ceil(box.right + half), hollow):
                colour, opacity = ink(x, y)
                self.blend(x, y, colour, opacity * _cover(abs(box.distance(x + 0.5, y + 0.5)) - half))

    def line(
        self, start: tuple[float, float], end: tuple[float, float], colour: Colour, thick: float
    ) -> None:
        """Draw a line with round ends."""
        half = thick / 2
        (x0, y0), (x1, y1) = start, end
        dx, dy = x1 - x0, y1 - y0
        length = dx * dx + dy * dy
        for y in range(floor(min(y0, y1) - half), ceil(max(y0, y1) + half) + 1):
            for x in range(floor(min(x0, x1) - half), ceil(max(x0, x1) + half) + 1):
                px, py = x + 0.5 - x0, y + 0.5 - y0
                along = min(max((px * dx + py * dy) / length, 0.0), 1.0) if length else 0.0
                away = hypot(px - along * dx, py - along * dy) - half
                if away < 0.5:
                    self.blend(x, y, colour, _cover(away))


class Box:
    """A rectangle with round corners; a circle if the corners meet."""

    def __init__(self, left: float, top: float, width: float, height: float, radius: float = 0.0) -> None:
        self.left, self.top, self.right, self.bottom = left, top, left + width, top + height
        self.radius = min(radius, width / 2, height / 2)

    def distance(self, x: float, y: float) -> float:
        """How far a point is from the edge: negative inside."""
        across = abs(x - (self.left + self.right) / 2) - (self.right - self.left) / 2 + self.radius
        down = abs(y - (self.top + self.bottom) / 2) - (self.bottom - self.top) / 2 + self.radius
        return min(max(across, down), 0.0) + hypot(max(across, 0.0), max(down, 0.0)) - self.radius

    def inner(self, y: int) -> tuple[int, int]:
        """Pixels of a row that are whole inside, whatever the corners."""
        if y < self.top or y + 1 > self.bottom:
            return 0, 0
        corner = y < self.top + self.radius or y + 1 > self.bottom - self.radius
        aside = self.radius if corner else 0.0
        return ceil(self.left + aside), floor(self.right - aside)


def _cover(distance: float) -> float:
    """How much of a pixel is inside an edge that is so far from its middle."""
    return min(max(0.5 - distance, 0.0), 1.0)


def _around(first: int, last: int, hollow: tuple[int, int]) -> Iterator[int]:
    """Numbers from `first` up to `last` without those of a range."""
    left, right = hollow
    if left >= right:
        yield from range(first, last)
    else:
        yield from range(first, left)
        yield from range(right, last)
