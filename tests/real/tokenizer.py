"""The tokenizer.json of a byte-level BPE that a GGUF file holds: tokenizer.py FILE.gguf > NAME.json"""

import json
import sys

from gguf import GGUFReader

SPECIAL = 3  # llama.cpp's type of tokens that stand for no text

fields = GGUFReader(sys.argv[1]).fields


def texts(name):
    field = fields[f"tokenizer.ggml.{name}"]
    return [bytes(field.parts[at]).decode() for at in field.data]


kinds = fields["tokenizer.ggml.token_type"]
kinds = [int(kinds.parts[at][0]) for at in kinds.data]
tokens = texts("tokens")
plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
digits = {"type": "Digits", "individual_digits": True}
json.dump(
    {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": at, "content": token, **plain}
            for at, (token, kind) in enumerate(zip(tokens, kinds))
            if kind == SPECIAL
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
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
            "ignore_merges": False,
            "vocab": {token: at for at, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in texts("merges")],
        },
    },
    sys.stdout,
)
