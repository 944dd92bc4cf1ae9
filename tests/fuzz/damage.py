"""Valid texts and JSON values, damaged as a full disk, a slip of the hand or an attacker damages them."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from functools import cache
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import yaml as parser

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 10**400, 1.5, 1e308, -1e308, float("nan"), float("inf"), "", "x", "²", "٣",
    "--user=victim", "\0", "\x1b[31m", "a\nb", "../../x", "/etc/passwd", "{{ x }}", "$(touch x)", "'", "`x`", "é", "\udc80",
    "9" * 5000, [], {}, [[]], [None], {"": 1},
)  # fmt: skip
WORDS = ("²", "-1", "--1", "nan", "inf", "1e999", "9" * 400, "\0", "\x1b]0;x\a", "\u202e", "(((", "{{", "}}", "${x}", "`x`", "&x",
         "*x", "!!python/object", "<!DOCTYPE", "None", "[", "]", ",", ":", "|", "%s", "0x", "+0000", "-99:99", "\r")  # fmt: skip


def text(good: str, chance: random.Random, most: int = 4) -> str:
    """The text with a few pieces cut, doubled, swapped or replaced."""
    for _ in range(chance.randint(1, most)):
        a, b = sorted(chance.randrange(len(good) + 1) for _ in range(2))
        b = min(b, a + chance.choice((1, 3, 20, 400)))
        match chance.randrange(6):
            case 0:
                good = good[:a] + good[b:]
            case 1:
                good = good[:b] + good[a:]
            case 2:
                good = good[:a] + chance.choice(WORDS) + good[b:]
            case 3:
                good = good[:a] + chance.choice(WORDS) + good[a:]
            case 4:
                good = good[:a] + "".join(chance.choice(good or "x") for _ in range(b - a)) + good[b:]
            case 5:
                good = (
                    good[:a]
                    if chance.random() < 0.2
                    else good[:a] + good[a:b] * chance.randint(2, 50) + good[b:]
                )
    return good


def value(good: Any, chance: random.Random, most: int = 3) -> Any:
    """A JSON value with a few of its parts of another type, gone, or doubled."""
    found = json.loads(json.dumps(good))
    for _ in range(chance.randint(1, most)):
        found = _one(found, chance)
    return found


def yaml(good: str, chance: random.Random) -> str:
    """A YAML document that a parser takes, with a few of its values of another type, gone, or doubled."""
    return parser.dump(_words(value(_loaded(good), chance, 2)), Dumper=_Plain, width=1000, sort_keys=False)


class _Plain(parser.SafeDumper):
    """Scalars without quotes wherever they may be: what they are is the reader's to find out."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _words(node: Any) -> Any:
    if isinstance(node, dict):
        return {_words(key): _words(each) for key, each in node.items()}
    if isinstance(node, list):
        return [_words(each) for each in node]
    return node if isinstance(node, str) else json.dumps(node)


@cache
def _loaded(good: str) -> Any:
    return parser.load(good, Loader=parser.BaseLoader)  # noqa: TID251 - texts of our own; every scalar as it is written


def xml(good: str, chance: random.Random) -> str:
    """An XML document that a parser takes, with attributes changed, and elements gone, doubled or moved."""
    root = deepcopy(_tree(good))
    for _ in range(chance.randint(1, 4)):
        parents = [node for node in root.iter() if len(node)]
        nodes = [node for node in root.iter() if node.attrib]
        kind = chance.randrange(5)
        if kind < 3 and nodes:
            node = chance.choice(nodes)
            key = chance.choice(list(node.attrib))
            if kind == 0:
                del node.attrib[key]
            else:
                other = chance.choice(nodes)
                odd = [one for one in ODD if isinstance(one, str) and one.isprintable()]
                node.attrib[key] = chance.choice(
                    (*odd, *other.attrib.values(), "0x0", "0xf...f", "0-3", "-1", "4294967296")
                )
        elif parents:
            parent = chance.choice(parents)
            child = chance.choice(list(parent))
            if kind == 3:
                parent.remove(child)
            else:
                chance.choice(parents).append(deepcopy(child))
    return ET.tostring(root, encoding="unicode")


@cache
def _tree(good: str) -> ET.Element:
    return ET.fromstring(good)


def _one(node: Any, chance: random.Random) -> Any:
    if chance.random() < 0.05 or not isinstance(node, dict | list) or not node:
        alike = [odd for odd in ODD if type(odd) is type(node)]
        return deepcopy(chance.choice(alike if alike and chance.random() < 0.8 else ODD))
    key = chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
    if chance.random() < 0.1:
        del node[key]
    elif isinstance(node, dict) and chance.random() < 0.05:
        node[str(chance.choice(ODD))] = deepcopy(node[key])
    else:
        node[key] = _one(node[key], chance)
    return node
