"""TRL: supervised fine-tuning of a very small model that is made here, so that nothing is downloaded."""

from __future__ import annotations

import os

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

WORDS = ("<pad>", "<eos>", "a", "b", "c", "d")


def main() -> None:
    """Train five steps; each rank prints its number and the loss."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(WORDS), n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1, pad_token_id=0
        )
    )  # fmt: skip
    settings = SFTConfig(
        output_dir="out", max_steps=5, per_device_train_batch_size=4, logging_steps=1, report_to=[], save_strategy="no",
        use_cpu=not torch.cuda.is_available(), bf16=False,
    )  # fmt: skip
    data = Dataset.from_list([{"text": "a b c d a b c d"}] * 64)
    trainer = SFTTrainer(model=model, args=settings, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    loss = trainer.state.log_history[-1]["train_loss"]
    print(f"rank {os.environ['RANK']} of {torch.distributed.get_world_size()}: loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
