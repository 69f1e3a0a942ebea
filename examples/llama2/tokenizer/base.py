"""A tokenizer is an encoder of plain text and a table of the bytes that each token prints.

Every format and algorithm comes down to these two, so that decoding, streaming, the BOS rule and chat are written once.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from examples.llama2.tokenizer.chat import Message, render, split_special
from vxgraph.errors import VxError

# Control tokens that end a turn or a text in Llama-architecture models, whether or not the file names them as EOS.
# llama.cpp stops at them by name too: many files name one of the two that their model was trained to end with.
ENDINGS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The vocabulary and rules of one model. `source` is the file, for messages."""

    source: str
    pieces: tuple[bytes, ...]  # what each id prints; control tokens print nothing
    special: Mapping[str, int]  # control tokens by name: only a chat template may write them
    encode_text: Callable[[str], list[int]]  # plain text to ids; to it the name of a control token is plain text
    bos_id: int | None = None
    add_bos: bool = False  # the model's own rule, where it has a BOS
    stop_ids: tuple[int, ...] = ()
    space_prefix: bool = False  # a space is put before a text when it is encoded, and taken away when decoded
    chat_template: str | None = None

    @property
    def vocab(self) -> int:
        """The number of token ids."""
        return len(self.pieces)

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        """The ids of plain `text`, after at most one BOS: `None` follows the model's own rule.

        Raises `VxError` where BOS is asked of a model that has none, or the text is not Unicode.
        """
        check_unicode(text)
        return self._with_bos(self.encode_text(text), self._adds_bos if bos is None else bos)

    def decode(self, ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
        """The text of `ids`, given that the ids `after` stand before them. Bytes that are no UTF-8 become U+FFFD."""
        stream = self.stream(after=after)
        return "".join(map(stream.push, ids)) + stream.flush()

    def stream(self, *, after: Sequence[int] = ()) -> StreamDecoder:
        """A decoder of one id at a time, for text that goes on from the ids `after` (the prompt)."""
        return StreamDecoder(self, after=after)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """The ids that ask for the assistant's next turn, as the model's chat template writes them.

        Names of control tokens are tokens in the template and plain text in the messages.
        Raises `VxError` where the model has no template or the template refuses the messages, `CheckpointError` where
        the template is broken or asks for too much time or memory.
        """
        if self.chat_template is None:
            raise VxError(f"{self.source} has no chat template: drop --chat to give the prompt as plain text")
        for text in (text for message in messages for text in message.values()):
            check_unicode(text)
        rendered = render(self.chat_template, messages, special=self.special, bos=self._bos_name(), source=self.source)
        ids: list[int] = []
        for part in split_special(rendered, self.special):
            ids += [part] if isinstance(part, int) else self.encode_text(part)
        return self._with_bos(ids, self._adds_bos and ids[:1] != [self.bos_id])

    def piece(self, token: int) -> bytes:
        """The bytes that an id prints. Raises `VxError` for an id outside the vocabulary."""
        if not 0 <= token < self.vocab:
            raise VxError(
                f"token id {token} is not in the vocabulary of {self.source}, whose ids are 0..{self.vocab - 1}"
            )
        return self.pieces[token]

    @property
    def _adds_bos(self) -> bool:
        return self.add_bos and self.bos_id is not None

    def _bos_name(self) -> str:
        return next((name for name, token in self.special.items() if token == self.bos_id), "")

    def _with_bos(self, ids: list[int], bos: bool) -> list[int]:
        if not bos:
            return ids
        if self.bos_id is None:
            raise VxError(f"{self.source} names no BOS token, so none can be put before the text")
        return [self.bos_id, *ids]


class StreamDecoder:
    """Turns ids into text as they come. What it returns, joined, is what `Tokenizer.decode` returns.

    The bytes of an unfinished UTF-8 character are held back until the ids that finish it, or `flush`.
    """

    def __init__(self, tokenizer: Tokenizer, *, after: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._hide_space = tokenizer.space_prefix and (not after or after[-1] == tokenizer.bos_id)

    def push(self, token: int) -> str:
        """The text that `token` completes; may be empty."""
        piece = self._tokenizer.piece(token)
        if token == self._tokenizer.bos_id:
            self._hide_space = self._tokenizer.space_prefix
        elif piece and self._hide_space:
            piece, self._hide_space = piece.removeprefix(b" "), False
        return self._utf8.decode(piece)

    def flush(self) -> str:
        """The end of the text: an unfinished character, if one is held back, as U+FFFD."""
        return self._utf8.decode(b"", final=True)


def stops(special: Mapping[str, int], *named: int | None) -> tuple[int, ...]:
    """The ids that end a generation: those a file names, and those of `ENDINGS` that the model has."""
    known = (special[name] for name in ENDINGS if name in special)
    return tuple(sorted({token for token in (*named, *known) if token is not None}))


def check_unicode(text: str) -> None:
    """Raises `VxError` for a text that has no UTF-8 form, such as a command line argument of stray bytes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"U+{ord(text[error.start]):04X}, half of a character,"
        raise VxError(f"the text is not Unicode: {found} stands at position {error.start}; give it as UTF-8") from None
