"""Text to token ids and back, for every file format that a Llama-architecture model comes in.

>>> tokenizer = open_tokenizer("SmolLM2-135M-Instruct.Q4_1.gguf")
>>> tokenizer.encode("The capital of France is")
[504, 3575, 282, 4649, 314]
>>> tokenizer.decode([7042, 30])
' Paris.'

open.py          which reader reads a path
gguf.py          BPE or SentencePiece pieces in GGUF metadata          huggingface.py   a Hugging Face directory
llama2c.py       llama2.c's tokenizer.bin                              sentencepiece.py a SentencePiece .model
byte_level.py    BPE over bytes (GPT-2, Llama 3, SmolLM2)              score_merge.py   SentencePiece's BPE by scores
base.py          Tokenizer and StreamDecoder                           chat.py          chat templates
confined.py      a template in a process of its own                    template.py     what that process does
"""

from examples.llama2.tokenizer.base import StreamDecoder, Tokenizer
from examples.llama2.tokenizer.chat import Message
from examples.llama2.tokenizer.open import open_tokenizer

__all__ = ["Message", "StreamDecoder", "Tokenizer", "open_tokenizer"]
