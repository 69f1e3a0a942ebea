"""A loop's body in its steady state: runs of dispatches that a backend takes as one.

    launch %a, launch %b, launch %c, download %c, launch %d    ->    batch(%a %b %c), download %c, launch %d

A launch that waits for another queue begins a new batch. The first step of a loop runs as it is, so that each of its
instructions is observed; an audit or a trace, which observe every one of them, never batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from vxgraph.ir.types import Sizes
from vxgraph.runtime.prepare import Batch, Block, Launch, Move, Repeat, Step

KEPT = 8  # blocks whose batches are kept


class Batcher:
    """Makes the batches of a block, once."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[int, ...], tuple[Block, Block]] = OrderedDict()

    def block(self, block: Block, sizes: Sizes) -> Block:
        """The block with its runs of launches batched where the backends take them."""
        key = tuple(map(id, block.steps))  # steps without symbols are the same objects for all sizes
        if key not in self._blocks:
            while len(self._blocks) >= KEPT:
                self._blocks.popitem(last=False)  # first: a backend frees its batches before it makes others
            self._blocks[key] = (block, self._batched(block, sizes))
        self._blocks.move_to_end(key)
        return self._blocks[key][1]

    def _batched(self, block: Block, sizes: Sizes) -> Block:
        waited = {name for _, name in block.tails}
        for step in block.steps:
            match step:
                case Launch() | Move():
                    waited.update((*step.after, *(name for _, name in step.foreign)))
                case Repeat():
                    waited.update(name for _, name in step.before)
                case _:
                    pass
        steps: list[Step] = []
        run: list[Launch] = []
        for step in block.steps:
            if isinstance(step, Launch) and run and _follows(step, run[-1]):
                run.append(step)
                continue
            steps += _close(run, waited, sizes)
            run = []
            if isinstance(step, Launch):
                run = [step]
            else:
                steps.append(step)
        return Block((*steps, *_close(run, waited, sizes)), block.tails)


def _follows(step: Launch, before: Launch) -> bool:
    return step.topology == before.topology and not step.after and not step.foreign


def _close(run: list[Launch], waited: set[str], sizes: Sizes) -> Iterable[Step]:
    if len(run) < 2:
        return run
    first = run[0]
    kernel = first.backend.batch([(s.kernel, s.ins, s.outs) for s in run], first.topology, sizes=sizes)
    if kernel is None:
        return run
    return [Batch(tuple(run), kernel, tuple(s.name for s in run if s.name in waited))]
