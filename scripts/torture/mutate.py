"""Damaged copies of a file: number `index` of `name` is always the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

__all__ = ["mutate"]

NUMBERS = (0, 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
WORDS = (
    *(b"-1", b"1e309", b"nan", b"9" * 25, b"1099511627776", b"4611686018427387904"),
    *(b'"', b"'", b",", b"\n", b"\r", b"\t", b"\0", b"\xff", b":", b"{", b"[", b"}", b"\\"),
)
DIGITS = re.compile(rb"\d+")


def mutate(data: bytes, name: str, index: int) -> bytes:
    """One to three changes; never the same bytes again, nor the file after itself, which is whole
    where parts may be joined (gzip, zstandard).
    """
    rng = random.Random(f"{name}:{index}")
    while True:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            rng.choice(CHANGES)(changed, rng)
        if changed != data * (len(changed) // max(len(data), 1)):
            return bytes(changed)


def _span(data: bytearray, rng: random.Random) -> tuple[int, int]:
    """A block, short ones more often."""
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 16, 64, 512, 4096)))


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random) -> None:
    if data:
        value = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x30, rng.randrange(256)))
        data[rng.randrange(len(data))] = value


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _append(data: bytearray, rng: random.Random) -> None:
    start, stop = _span(data, rng)
    data += rng.choice((bytes(data[start:stop]), rng.randbytes(rng.randrange(1, 64)), b"\0" * 8))


def _splice(data: bytearray, rng: random.Random) -> None:
    start, stop = _span(data, rng)
    at = rng.randrange(len(data) + 1)
    data[at : at + stop - start] = data[start:stop]


def _duplicate(data: bytearray, rng: random.Random) -> None:
    start, stop = _span(data, rng)
    data[stop:stop] = data[start:stop]


def _remove(data: bytearray, rng: random.Random) -> None:
    start, stop = _span(data, rng)
    del data[start:stop]


def _length(data: bytearray, rng: random.Random) -> None:
    """Another number where one may stand: the readers take lengths from such places."""
    width = rng.choice((2, 4, 4, 8))
    if len(data) < width:
        return
    at = rng.randrange(len(data) - width + 1)
    if rng.random() < 0.5:
        at -= at % 4
    order = rng.choice(("little", "little", "big"))
    old = int.from_bytes(data[at : at + width], order)
    new = rng.choice((old + 1, old - 1, 2 * old, old // 2, *NUMBERS)) % 2 ** (8 * width)
    data[at : at + width] = new.to_bytes(width, order)


def _number(data: bytearray, rng: random.Random) -> None:
    """Another number, written in digits."""
    found = [*DIGITS.finditer(data)]
    if found:
        digits = rng.choice(found)
        data[digits.start() : digits.end()] = str(rng.choice(NUMBERS)).encode()


def _word(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(WORDS) * rng.choice((1, 1, 1, 200))


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip, _flip, _set, _set, _truncate, _append, _splice, _duplicate, _remove),
    *(_length, _length, _number, _word),
)
