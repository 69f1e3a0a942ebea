"""The example's command line.

python -m examples.llama2 generate --chat --prompt "Write one sentence about the moon." --place disaggregated
python -m examples.llama2 compile --model llama2-7b --place disaggregated -m h200-x2 -o llama.vxp
python -m examples.llama2 compare --weights int8 --prompt "The sun is a star."
python -m examples.llama2 fetch
python -m examples.llama2 models
"""

from __future__ import annotations

import typer

from examples.llama2.commands.compare import compare
from examples.llama2.commands.compile import compile
from examples.llama2.commands.generate import generate
from examples.llama2.commands.models import fetch, models
from vxgraph.tools.exits import EXIT_CODES, start

app = typer.Typer(
    name="python -m examples.llama2",
    help="Llama on one device or several: prefill in one place, decode in another, from one program.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (generate, compile, compare, fetch, models):
    app.command()(command)

if __name__ == "__main__":
    start(app)
