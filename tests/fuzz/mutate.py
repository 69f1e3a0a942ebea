"""Mutations that know what a format is made of: bytes with lengths in them, or tokens, numbers and lines.

The same seed gives the same mutant, so that a finding is a line: `python -m tests.fuzz gguf --replay 1234`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]

TOKEN = re.compile(rb"[A-Za-z_]\w*|[0-9]+|\s+|.", re.DOTALL)
NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
STRING = re.compile(rb'"[^"\n]*"')
EXTREMES = (
    0,
    1,
    2,
    127,
    128,
    255,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**60,
    2**63 - 1,
    2**64 - 1,
)
NUMBERS = (
    *(str(n).encode() for n in EXTREMES),
    b"-1",
    b"-0",
    b"0.5",
    b"1e400",
    b"-1e-400",
    b"inf",
    b"nan",
    b"1" + b"0" * 30,
    b"9" * 5000,
    b"0x" + b"f" * 5000,
    b"1" + b"0" * 400 + b".5",
)
TEXTS = (
    b"",
    b"../../etc/passwd",
    b"/etc/passwd:1",
    b"\\u001b[31m",
    b"\\ud800",
    b"{0.__class__}",
    b"[red]x[/red]",
    b"<b>x</b>",
    b"<<IMG SRC=x>>",
    b"a\\\\",
    b"%s%n",
    b"\\u202e",
    b"__import__",
    b"a" * 5000,
)
NESTS = (b"[", b"{", b"(", b"{{", b"[[", b'{"a":', b"a=[", b"a.")


def mutant(seed: int, seeds: Sequence[bytes], *, text: bool) -> bytes:
    """One of the seeds, changed in one place or in a few."""
    rng = random.Random(seed)
    return mutate(rng, rng.choice(seeds), seeds, text=text)


def mutate(rng: random.Random, data: bytes, seeds: Sequence[bytes], *, text: bool) -> bytes:
    """The data, changed in one place or in a few; `seeds` are what other pieces come from."""
    mutations = TEXT if text else BINARY
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        data = rng.choice(mutations)(rng, data, seeds)
    return data


def _place(rng: random.Random, data: bytes) -> int:
    """Somewhere, more often near the start: that is where headers are."""
    end = len(data) if rng.random() < 0.3 else min(len(data), rng.choice((16, 64, 512, 4096)))
    return rng.randrange(end + 1)


def flip(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = min(_place(rng, data), len(data) - 1)
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def overwrite(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A field set to an extreme value."""
    width = rng.choice((1, 2, 4, 8))
    at = _place(rng, data) // rng.choice((1, 4)) * 1
    return data[:at] + (rng.choice(EXTREMES) % 2 ** (8 * width)).to_bytes(width, "little") + data[at + width :]


def truncate(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _place(rng, data)]


def delete(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 4, 8, 100)) :]


def repeat(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at, size = _place(rng, data), rng.choice((1, 4, 12, 200))
    return data[:at] + data[at : at + size] * rng.choice((2, 2, 3, 50)) + data[at + size :]


def splice(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return data[: _place(rng, data)] + other[_place(rng, other) :]


def blow_up(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A number made extreme."""
    return _replace_one(rng, data, NUMBER, rng.choice(NUMBERS))


def retext(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """What stands between quotes made something that nobody should use as it is."""
    return _replace_one(rng, data, STRING, b'"' + rng.choice(TEXTS) + b'"')


def swap_tokens(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    tokens = TOKEN.findall(data)
    if not tokens:
        return data
    words = TOKEN.findall(rng.choice(seeds)) or tokens
    tokens[rng.randrange(len(tokens))] = rng.choice(rng.choice((tokens, words)))
    return b"".join(tokens)


def drop_token(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    tokens = TOKEN.findall(data)
    if tokens:
        del tokens[rng.randrange(len(tokens))]
    return b"".join(tokens)


def shuffle_lines(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """A line deleted, doubled, moved, or brought in from another seed."""
    lines, others = data.split(b"\n"), rng.choice(seeds).split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case _:
            lines.insert(at, rng.choice(others))
    return b"\n".join(lines)


def nest(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    tokens = TOKEN.findall(data)
    at = rng.randrange(len(tokens) + 1)
    return b"".join((*tokens[:at], rng.choice(NESTS) * rng.choice((3, 40, 2000)), *tokens[at:]))


def _replace_one(rng: random.Random, data: bytes, pattern: re.Pattern[bytes], new: bytes) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = rng.choice(found)
    return data[: match.start()] + new + data[match.end() :]


BINARY: tuple[Mutation, ...] = (flip, overwrite, overwrite, overwrite, truncate, delete, repeat, splice, blow_up)
TEXT: tuple[Mutation, ...] = (
    *(flip, truncate, delete, repeat, splice, blow_up, blow_up, retext),
    *(swap_tokens, swap_tokens, drop_token, shuffle_lines, shuffle_lines, nest),
)
