"""What a long run says: each kind of finding once, with its input on disk, and the figures at the end."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import typer

from tests.fuzz.judge import Outcome
from tests.fuzz.targets import Target

FINDINGS = Path(tempfile.gettempdir()) / "vxgraph-findings"


@dataclass
class Figures:
    """The verdicts of one target so far."""

    target: Target
    verdicts: Counter[str] = field(default_factory=Counter[str])
    found: Counter[str] = field(default_factory=Counter[str])

    def count(self, outcome: Outcome, data: bytes, hint: str = "") -> None:
        """Adds an execution; the first finding of a kind is printed and its input kept."""
        self.verdicts[outcome.verdict] += 1
        if outcome.verdict != "finding":
            return
        self.found[outcome.key] += 1
        if self.found[outcome.key] == 1:
            FINDINGS.mkdir(exist_ok=True)
            file = FINDINGS / f"{self.target.name}-{len(self.found)}"
            file.write_bytes(data)
            last = outcome.what.strip().splitlines()[-1]
            typer.echo(f"{self.target.name}: {outcome.key}: {last[:200]} ({hint or 'the input'}: {file})")

    def say(self, seconds: float) -> None:
        """The line at the end."""
        total = self.verdicts.total()
        kinds = ", ".join(f"{key} x{count}" for key, count in self.found.items())
        typer.echo(
            f"{self.target.name}: {total} executions, {total / seconds:.0f} a second; "
            f"{self.verdicts['accepted']} accepted, {self.verdicts['refused']} refused, "
            f"{len(self.found)} kinds of findings{': ' if kinds else ''}{kinds}"
        )
