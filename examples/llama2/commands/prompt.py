"""The text that a command is given, and its tokens."""

from __future__ import annotations

import sys

import vxgraph as vx

STDIN = "-"


def read_prompt(prompt: str) -> str:
    """The text itself, or standard input for `-`."""
    if prompt != STDIN:
        return prompt
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise vx.VxError(
            f"standard input is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02X}"
        ) from None
