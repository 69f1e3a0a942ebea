"""Many seeds through pairs of processes: one checks a chunk, the other one compiles a sample of it again.

The two have different PYTHONHASHSEEDs and change places with each chunk; digests that differ are a failure like any
other. One process of a pair works at a time, so that `jobs` is the number of cores in use.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from tests.generative.check import check
from tests.generative.recipe import Recipe, recipe_of
from tests.generative.shrink import shrink

ROOT = Path(__file__).parents[2]
CHUNK = 50
ELSEWHERE = "another process with another hash seed gives other texts"


@dataclass
class Failure:
    """A seed that fails, and the smallest recipe found that fails in the same way."""

    seed: int
    why: str
    recipe: Recipe | None = None


@dataclass
class Report:
    """What a sweep came to."""

    graphs: int = 0
    again: int = 0  # compiled again in another process
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])
    failures: list[Failure] = field(default_factory=list[Failure])


class Process:
    """A worker; `ask` sends a line and returns the answer. RuntimeError where it died."""

    def __init__(self, hash_seed: int) -> None:
        env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.generative.worker"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, cwd=ROOT, env=env, text=True, start_new_session=True
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the process ended with status {process.wait()} at {request}; its stack is above")
        return json.loads(line)

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process.wait()


class Pair:
    """Two processes that change places."""

    def __init__(self, number: int) -> None:
        self.processes = [Process(2 * number + 1), Process(2 * number + 2)]

    def chunk(self, first: int, count: int, sample: int) -> Report:
        """The seeds from `first` on, every `sample`-th of them compiled again."""
        one, other = self.processes
        self.processes = [other, one]
        found = one.ask(check=[first, count])
        report = Report(count, counts=Counter(found["counts"]))
        report.failures = [Failure(int(seed), why) for seed, why in found["failures"].items()]
        seeds = [s for s in range(first, first + count) if s % sample == 0]
        again = other.ask(digest=seeds)["digests"]
        report.again = len(seeds)
        differ = [s for s, d in zip(seeds, again, strict=True) if found["digests"][s - first] not in ("", d)]
        report.failures += [Failure(s, ELSEWHERE) for s in differ]
        return report

    def differs(self, recipe: Recipe) -> bool:
        """Whether the two give different texts."""
        text = pickle.dumps(recipe).hex()
        a, b = (p.ask(recipe=text)["digests"] for p in self.processes)
        return a != b

    def close(self) -> None:
        for process in self.processes:
            process.close()


def sweep(seeds: range, *, jobs: int, sample: int, progress: Callable[[Report], None] | None = None) -> Report:
    """Checks all seeds, or until it is interrupted; failures come with recipes made small, the first few of them."""
    started = perf_counter()
    total = Report()
    pairs = [Pair(k) for k in range(jobs)]
    free: SimpleQueue[Pair] = SimpleQueue()
    for pair in pairs:
        free.put(pair)

    def work(first: int) -> Report:
        pair = free.get()
        try:
            return pair.chunk(first, min(CHUNK, seeds.stop - first), sample)
        finally:
            free.put(pair)

    chunks = iter(seeds[::CHUNK])
    try:
        with ThreadPoolExecutor(jobs) as pool:
            pending = {pool.submit(work, first) for first in islice(chunks, jobs)}
            while pending:
                try:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt:  # no more chunks; what was done is reported
                    chunks = iter(range(0))
                    continue
                for future in done:
                    _add(total, future)
                    total.seconds = perf_counter() - started
                    if progress is not None:
                        progress(total)
                    if len(total.failures) < ENOUGH:
                        pending.update(pool.submit(work, first) for first in islice(chunks, 1))
        for failure in total.failures[:SHRUNK]:
            failure.recipe = smallest(failure, pairs[0])
    finally:
        for pair in pairs:
            pair.close()
    return total


ENOUGH = 50  # failures after which a sweep ends
SHRUNK = 5  # failures that are made small


def _add(total: Report, future: Future[Report]) -> None:
    part = future.result()
    total.graphs += part.graphs
    total.again += part.again
    total.counts.update(part.counts)
    total.failures += part.failures


def smallest(failure: Failure, pair: Pair | None = None) -> Recipe:
    """The smallest recipe found that fails as the seed's does."""
    recipe = recipe_of(failure.seed)
    if failure.why == ELSEWHERE:
        assert pair is not None
        return shrink(recipe, pair.differs)
    wanted = kind(failure.why)
    return shrink(recipe, lambda r: kind(why_of(r)) == wanted)


def why_of(recipe: Recipe) -> str:
    """Why the recipe fails, or nothing."""
    try:
        check(recipe)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def kind(why: str) -> str:
    """What failures of one cause have in common: the first words of the message that are neither names nor numbers."""
    words: Sequence[str] = why.split()
    plain = [w for w in words[:12] if w.replace(",", "").replace(":", "").isalpha()]
    return " ".join(plain[:5])
