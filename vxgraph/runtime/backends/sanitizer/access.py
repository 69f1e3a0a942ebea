"""An operand or a result of a call, as bytes of a topology's memory."""

from __future__ import annotations

from dataclasses import dataclass

from vxgraph.runtime.backends.sanitizer.work import Work


@dataclass(frozen=True, slots=True)
class Access:
    """An operand or a result of a call: where its bytes are, and what they should be."""

    name: str  # "%h", or "operand 0" where no program is followed
    start: int
    end: int
    base: int  # where the buffer starts
    maker: Work | None = None  # the call that made the value in program order
    followed: bool = False  # whether `maker` is known

    @property
    def bytes(self) -> str:
        """As offsets into its buffer."""
        return f"{self.start - self.base} to {self.end - self.base}"
