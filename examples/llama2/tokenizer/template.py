r"""A chat template is rendered: the program of the process that `confined` starts, and that ends with one answer.

    stdin    {"path": [".../site-packages"], "template": "{{ messages[0].content }}", "messages": [...], "bos": "<s>"}
    stdout   {"text": "Hello"}     or     {"failed": "undefined", "says": "'tools' is undefined", "line": null}

It runs by its path, with the standard library and jinja2 and nothing else, so that it starts quickly and holds nothing
worth stealing. jinja2's sandbox keeps a template from code and files; the kernel keeps it from time and memory. Linux
holds it to every limit here. macOS holds it to the time and may not to the memory; Windows has no such limits, and
`confined`'s clock alone ends a template there.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 2  # of the process; its start is a tenth of one
MEMORY = 256 << 20  # bytes of address space; Python with jinja2 has 25 MB
OWN_TEXT, REPEATS = 1 << 16, 4  # characters that a template may add, and how often it may write the messages
LONGEST_MESSAGE = 500  # characters
OUT_OF_MEMORY = 3  # exit code: an answer would want memory

Answer = dict[str, Any]  # JSON


class RefusedError(Exception):
    """The template called `raise_exception`: these messages are not for its model."""


def render(template: str, messages: Sequence[Mapping[str, str]], *, bos: str) -> str:
    """The text, with the environment that Hugging Face's `transformers` gives templates, less the clock."""
    return environment().from_string(template).render(messages=messages, bos_token=bos, add_generation_prompt=True)


def environment() -> ImmutableSandboxedEnvironment:
    """jinja2's sandbox, with the settings and the name that chat templates are written for."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    names: dict[str, Any] = made.globals
    names["raise_exception"] = _refuse
    return made


def _refuse(message: object) -> NoReturn:
    raise RefusedError(str(message))  # here, where what a stranger's object does when it is shown is the template's


def answer(template: str, messages: Sequence[Mapping[str, str]], *, bos: str) -> Answer:
    """The text, or why there is none. The template is a stranger's code: whatever it raises is its own failure."""
    from jinja2 import TemplateSyntaxError, UndefinedError

    try:
        text = render(template, messages, bos=bos)
        text.encode()  # a template may write half a character
    except MemoryError:
        raise
    except RefusedError as error:
        return _failed("refused", error)
    except UndefinedError as error:
        return _failed("undefined", error)
    except TemplateSyntaxError as error:
        return _failed("broken", error, error.lineno)
    except Exception as error:
        return _failed("broken", error)
    most = OWN_TEXT + REPEATS * sum(len(text) for message in messages for text in message.values())
    return (
        {"text": text}
        if len(text) <= most
        else {"failed": "long", "says": f"{len(text):,} characters, at most {most:,} are allowed"}
    )


def _failed(kind: str, error: Exception, line: int | None = None) -> Answer:
    return {"failed": kind, "says": str(error)[:LONGEST_MESSAGE] or type(error).__name__, "line": line}


def limit() -> None:
    """From here on the kernel ends this process at `CPU_SECONDS`, and refuses it more than `MEMORY`."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = CPU_SECONDS + int(used.ru_utime + used.ru_stime)
    for which, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, seconds, seconds + 1),  # at the first a signal with a name, at the second SIGKILL
        (resource.RLIMIT_AS, MEMORY, MEMORY),
    ):
        most = resource.getrlimit(which)[1]
        limits = (soft, hard) if most == resource.RLIM_INFINITY else (min(soft, most), min(hard, most))
        # macOS refuses an address space below what it has mapped itself.
        with nullcontext() if sys.platform == "linux" else suppress(ValueError, OSError):
            resource.setrlimit(which, limits)


def main() -> None:
    """Answers the request on standard input."""
    gc.disable()  # the process ends before garbage counts; a fifth of its start
    request = json.load(sys.stdin.buffer)
    sys.path += request["path"]
    environment()  # what it imports is not the template's time
    limit()
    try:
        found = answer(request["template"], request["messages"], bos=request["bos"])
        sys.stdout.write(json.dumps(found))
        sys.stdout.flush()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
