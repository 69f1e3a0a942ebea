"""The smallest recipe found that still fails in the same way.

Any subset of steps, inputs and places is a recipe, so candidates are what is left when something is left out, the
boldest first; a schedule's choices are left out and zeroed the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.generative.recipe import Body, Recipe, Spot, Step

Item = TypeVar("Item")
PLAIN = Spot("free", 0)


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool], *, tries: int = 1500) -> Recipe:
    """Takes smaller recipes that still fail, again and again, until none does or `tries` are used up."""
    left = iter(range(tries))
    before = None
    while recipe != before:
        before = recipe
        for candidates in (_fewer_steps, _fewer_things, _plainer):
            smaller: Recipe | None = recipe
            while smaller is not None:
                recipe = smaller
                smaller = next((r for r in candidates(recipe) if next(left, None) is not None and fails(r)), None)
    return recipe


def _fewer_steps(r: Recipe) -> Iterator[Recipe]:
    for steps in _step_lists(r.steps, _shorter):
        yield replace(r, steps=steps)


def _fewer_things(r: Recipe) -> Iterator[Recipe]:
    for given in _without(r.given):
        yield replace(r, given=given)
    if len(r.runs) > 1:
        yield from (replace(r, runs=(run,)) for run in r.runs)
    for places in _without(r.places):
        if places:
            yield replace(r, places=places)
    for order in (*_without(r.order), *_zeroed(r.order)):
        yield replace(r, order=order)


def _plainer(r: Recipe) -> Iterator[Recipe]:
    for steps in _step_lists(r.steps, _plain):
        yield replace(r, steps=steps)
    for k, g in enumerate(r.given):
        if g.spot != PLAIN:
            yield replace(r, given=_with(r.given, k, replace(g, spot=PLAIN)))
    for k, run in enumerate(r.runs):
        yield from (replace(r, runs=_with(r.runs, k, smaller)) for smaller in _sizes(*run))
    if r.data > 3:
        yield replace(r, data=r.data % 4)  # the parts of `check` that a recipe has stay the same


def _sizes(t: int, least: int) -> Iterator[tuple[int, int]]:
    if t > 1:
        yield 1, least
        yield t - 1, least
    if least > 1:
        yield t, 1


def _without(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """Without all, halves, quarters, ..., single items."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


def _zeroed(order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for k, choice in enumerate(order):
        if choice:
            yield _with(order, k, 0)


def _with(items: tuple[Item, ...], k: int, item: Item) -> tuple[Item, ...]:
    return (*items[:k], item, *items[k + 1 :])


Change = Callable[[tuple[Step, ...]], Iterator[tuple[Step, ...]]]


def _step_lists(steps: tuple[Step, ...], change: Change) -> Iterator[tuple[Step, ...]]:
    """A change of the list itself, then of the bodies of its loops."""
    yield from change(steps)
    for k, step in enumerate(steps):
        if step.body is not None:
            for inner in _step_lists(step.body.steps, change):
                yield _with(steps, k, replace(step, body=replace(step.body, steps=inner)))


def _shorter(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    yield from _without(steps)
    for k, step in enumerate(steps):
        if step.body is not None:
            yield (*steps[:k], *step.body.steps, *steps[k + 1 :])


def _plain(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for k, step in enumerate(steps):
        for smaller in _steps(step):
            yield _with(steps, k, smaller)


def _steps(step: Step) -> Iterator[Step]:
    if step.body is not None:
        yield from (replace(step, body=body) for body in _bodies(step.body))
    if step.out:
        yield replace(step, out=False)
    if step.spot != PLAIN:
        yield replace(step, spot=PLAIN)
        if step.spot.place:
            yield replace(step, spot=replace(step.spot, place=0))
    for k, pick in enumerate(step.picks):
        if pick:
            yield replace(step, picks=_with(step.picks, k, 0))  # type: ignore[arg-type]  # it stays a four


def _bodies(body: Body) -> Iterator[Body]:
    for carried in _without(body.carried):
        yield replace(body, carried=carried)
    if body.stop is not None:
        yield replace(body, stop=None)
    if body.limit is not None:
        yield replace(body, limit=None)
    if body.max_steps > 1:
        yield replace(body, max_steps=body.max_steps - 1)
    for k, pair in enumerate(body.carried):
        if any(pair):
            yield replace(body, carried=_with(body.carried, k, (0, 0)))
