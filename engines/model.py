"""Makes a tiny model offline: the shape of Qwen3, random weights from a fixed seed, a byte-level tokenizer.

Usage: model.py FOLDER [--shape gqa|mha]. Needs torch, transformers and tokenizers.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

SEED = 0
VOCABULARY = 2048
MAX_POSITIONS = 16_384
SPECIAL = ["<pad>", "<bos>", "<eos>"]
# The token ids of prompts: real tokens of the vocabulary, without special tokens.
PROMPT_IDS = range(len(SPECIAL), 250)


@dataclass(frozen=True)
class Shape:
    """The sizes of a model. They determine the bytes of KV cache per token."""

    key_value_heads: int
    hidden: int = 768
    layers: int = 12
    intermediate: int = 2048
    heads: int = 12
    head_size: int = 64

    @property
    def token_bytes(self) -> int:
        """The bytes of KV cache of one token, in bfloat16."""
        return self.layers * 2 * self.key_value_heads * self.head_size * 2


# 12 KiB and 36 KiB of KV cache per token: 48 MiB and 144 MiB for a prompt of 4,096 tokens.
SHAPES = {"gqa": Shape(key_value_heads=4), "mha": Shape(key_value_heads=12)}


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    pad, begin, end = SPECIAL
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end, pad_token=pad)
    fast.save_pretrained(folder)


def write_weights(folder: Path, shape: Shape) -> None:
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_size,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=False,
        dtype="bfloat16",
        **tokens,
    )
    torch.manual_seed(SEED)
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(**tokens)
    model.save_pretrained(folder, safe_serialization=True)


def write_model(folder: Path, shape: Shape) -> None:
    """Writes configuration, tokenizer and weights. Creates the file `.complete` last."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    write_weights(folder, shape)
    (folder / ".complete").touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="gqa")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    write_model(arguments.folder, shape)
    print(f"{arguments.folder}: {shape.token_bytes >> 10} KiB of KV cache a token")


if __name__ == "__main__":
    main()
