"""BPE over bytes, as GPT-2, Llama 3 and SmolLM2 have it. The merging is done by the `tokenizers` package.

In these vocabularies a byte is written as one printable character: a space as 'Ġ', a newline as 'Ċ'.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Split
from tokenizers.pre_tokenizers import Sequence as InOrder

from vxgraph.errors import CheckpointError, VxError

# Llama 3's, as Meta's tokenizer.py has it.
LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _smollm() -> PreTokenizer:
    return InOrder([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])


def _llama_bpe() -> PreTokenizer:
    words = Split(Regex(LLAMA3_WORDS), behavior="isolated")
    return InOrder([words, ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS: Mapping[str, Callable[[], PreTokenizer]] = {"smollm": _smollm, "llama-bpe": _llama_bpe}


def byte_level(
    names: Sequence[str], merges: Sequence[str], *, pre: str, whole: Sequence[str], source: str
) -> Callable[[str], list[int]]:
    """The encoder of the vocabulary `names`, by id, with `merges` 'left right', best first.

    `pre` is what GGUF calls tokenizer.ggml.pre; the pieces `whole` are matched before a text is split into words.
    Raises `CheckpointError` for a `pre` that is not known, and for merges of pieces that are not in the vocabulary.
    """
    if pre not in PRE_TOKENIZERS:
        known = ", ".join(PRE_TOKENIZERS)
        raise CheckpointError(
            f"{source}: the pre-tokenizer {pre!r} (tokenizer.ggml.pre) is not known; known are {known}"
        )
    ids = {name: token for token, name in enumerate(names)}
    pairs = _pairs(merges, ids, source)
    with package_errors(f"{source}: not a vocabulary of byte-level BPE"):
        tokenizer = Tokenizer(BPE(vocab=ids, merges=pairs, ignore_merges=pre == "llama-bpe"))
        tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
        tokenizer.add_tokens([AddedToken(name, normalized=False) for name in whole])  # pyright: ignore[reportUnknownMemberType]
    return plain_encoder(tokenizer, source=source)


@contextmanager
def package_errors(what: str) -> Generator[None]:
    """Whatever the package raises as one `CheckpointError`: plain Exceptions, and panics, which are none."""
    try:
        yield
    except (VxError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise CheckpointError(f"{what}: {error!s:.200}") from None


def plain_encoder(tokenizer: Tokenizer, *, source: str) -> Callable[[str], list[int]]:
    """Plain text to ids, with nothing added, cut or padded, and no control token made of text.

    What it returns raises `VxError` for a text with a byte that a byte-level vocabulary does not have.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    absent = _absent_bytes(tokenizer)

    def encode(text: str) -> list[int]:
        _check_bytes(text, absent, source)
        with package_errors(f"{source}: the text cannot be encoded"):
            return tokenizer.encode(text, add_special_tokens=False).ids

    return encode


def _absent_bytes(tokenizer: Tokenizer) -> frozenset[int]:
    if "ByteLevel" not in repr(tokenizer.pre_tokenizer):
        return frozenset()
    return frozenset(byte for letter, byte in byte_letters().items() if tokenizer.token_to_id(letter) is None)


def byte_letters() -> dict[str, int]:
    """The byte that each character stands for: itself where Latin-1 prints it, else from U+0100 up (GPT-2)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + at): byte for at, byte in enumerate(others)}


def printed(name: str, letters: Mapping[str, int]) -> bytes:
    """The bytes that a piece prints. One that is not written in byte letters was added by hand and prints itself."""
    if all(letter in letters for letter in name):
        return bytes(letters[letter] for letter in name)
    return name.encode()


def _check_bytes(text: str, absent: frozenset[int], source: str) -> None:
    """The package drops a byte that has no piece without a word, and SmolLM2 has none for eight of them."""
    if absent.isdisjoint(text.encode()):
        return
    at, letter = next((at, letter) for at, letter in enumerate(text) if not absent.isdisjoint(letter.encode()))
    raise VxError(
        f"{source} has no tokens for U+{ord(letter):04X}, which stands at position {at} of the text; leave it out"
    )


def _pairs(merges: Sequence[str], ids: Mapping[str, int], source: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for at, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if absent := [piece for piece in (left, right, left + right) if piece not in ids]:
            raise CheckpointError(f"{source}: merge {at} is {merge!r}, but {absent[0]!r} is not in the vocabulary")
        pairs.append((left, right))
    return pairs
