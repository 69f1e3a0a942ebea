"""A process of its own, with its own PYTHONHASHSEED, that checks recipes by seed: one line of JSON in, one out.

{"check": [1000, 50]}        -> {"digests": ["sha256", ...], "counts": {"op:add": 12}, "failures": {"1007": "why"}}
{"digest": [1000, 1004]}     -> {"digests": [...]}      compiled only
{"recipe": "pickle, hex"}    -> {"digests": [...]}      the same for one recipe, while a failure is made smaller
"""

from __future__ import annotations

import faulthandler
import gc
import json
import pickle
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.generative.check import check, compiled
from tests.generative.recipe import Recipe, recipe_of

HANGS = 300  # seconds for one line, after which the process shows its stack and ends


def main() -> None:
    """Answers until its input ends."""
    gc.disable()  # graphs are small and many: a collection between lines does, and saves a quarter of the time
    for line in sys.stdin:
        faulthandler.dump_traceback_later(HANGS, exit=True)
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
        faulthandler.cancel_dump_traceback_later()
        gc.collect()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one line."""
    match request:
        case {"check": [first, count]}:
            return checked(range(first, first + count))
        case {"digest": seeds}:
            return {"digests": [digest(recipe_of(seed)) for seed in seeds]}
        case {"recipe": text}:
            return {"digests": [digest(pickle.loads(bytes.fromhex(text)))]}
        case _:
            raise ValueError(request)


def checked(seeds: Iterable[int]) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    digests: list[str] = []
    failures: dict[int, str] = {}
    for seed in seeds:
        try:
            found = check(recipe_of(seed))
        except Exception as error:  # whatever it is, it is a finding
            failures[seed] = f"{type(error).__name__}: {error}"
            digests.append("")
            continue
        counts.update(found.counts)
        digests.append(found.digest)
    return {"digests": digests, "counts": counts, "failures": failures}


def digest(recipe: Recipe) -> str:
    """Of all texts; empty where it does not compile, which `check` reports."""
    try:
        return compiled(recipe).digest
    except Exception:
        return ""


if __name__ == "__main__":
    main()
