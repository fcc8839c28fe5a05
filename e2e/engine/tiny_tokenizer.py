"""The tokenizer of the tiny checkpoints: 512 tokens, and lengths that a test can count on.

A byte is one token, and each of `words()` with the space before it is one token. Nothing is added
in front of a prompt, so `" hello" * n` is n tokens. A chat adds two tokens for each message and
one at the end.
"""

from typing import Any

Config = dict[str, Any]

VOCABULARY = 512

SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
PAD_ID = 0
END_ID = 1
FIRST_WORD_ID = len(SPECIAL_TOKENS) + 256

_NAMED_WORDS = """
hello world the a and of to in is are you we it model token prompt answer question cache
memory block layer head query key value batch queue load user system server engine pool node
pod cluster prefill decode gate tide high low one two three
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% set role = message['role'] %}"
    "{{ '<|' + (role if role in ['system', 'assistant', 'tool'] else 'user') + '|>' }}"
    "{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def words() -> list[str]:
    """Return the words that are one token with the space before them."""
    syllables = (
        consonant + vowel + end
        for end in ("", "n", "r")
        for consonant in "bcdfghjklmnpqrstvwxz"
        for vowel in "aeiou"
    )
    unique = dict.fromkeys((*_NAMED_WORDS.split(), *syllables))
    return list(unique)[: VOCABULARY - FIRST_WORD_ID]


def tokenizer() -> Config:
    """Return a `tokenizer.json`: byte-level BPE without merges, whole words looked up first."""
    alphabet = _byte_alphabet()
    tokens = [*SPECIAL_TOKENS, *alphabet, *(alphabet[ord(" ")] + word for word in words())]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special_token(i, token) for i, token in enumerate(SPECIAL_TOKENS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [],
        },
    }


def tokenizer_config(max_position: int) -> Config:
    """Return a `tokenizer_config.json` with the chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_position,
        "eos_token": SPECIAL_TOKENS[END_ID],
        "pad_token": SPECIAL_TOKENS[PAD_ID],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _byte_alphabet() -> list[str]:
    """Return a printable character for each byte, as byte-level BPE writes them."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _special_token(index: int, token: str) -> Config:
    return {
        "id": index,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
