"""Makes a model that is small enough to serve anywhere: a Llama of random weights, with a tokenizer of its own.

Its answers mean nothing, but its engine is a real one: tokens, KV blocks, batches and iterations are as with a large
model. Only the configuration is written; vLLM makes the weights itself (`--load-format dummy`). The same call writes
the same bytes everywhere, because the tokenizer is trained on text that is made here.
"""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from justitia_simulator.files import write_bytes

VOCABULARY = 512
MAX_POSITIONS = 4096
HEAD_SIZE = 32

_SPECIAL = ("<|begin|>", "<|end|>", "<|turn|>")
_BEGIN, END, _TURN = range(len(_SPECIAL))


@dataclass(frozen=True)
class Shape:
    """The size of the model, and so its speed. The default is the smallest that vLLM serves well."""

    hidden_size: int = 128
    layers: int = 2


_CHAT_TEMPLATE = (
    "{{ '<|begin|>' }}{% for message in messages %}"
    "{{ '<|turn|>' + message['role'] + '\\n' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
)


def make_tiny_model(directory: Path, shape: Shape = Shape()) -> Path:
    """Write the model's files into `directory`, and return it. The folder is made if needed. Idempotent."""
    directory.mkdir(parents=True, exist_ok=True)
    documents = {
        "tokenizer.json": _tokenizer().to_str(pretty=True),
        "tokenizer_config.json": _json(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": _SPECIAL[_BEGIN],
                "eos_token": _SPECIAL[END],
                "pad_token": _SPECIAL[END],
                "model_max_length": MAX_POSITIONS,
                "clean_up_tokenization_spaces": False,
                "chat_template": _CHAT_TEMPLATE,
            }
        ),
        "generation_config.json": _json({"bos_token_id": _BEGIN, "eos_token_id": END}),
        "config.json": _json(_llama(shape)),
    }
    for name, text in documents.items():
        target = directory / name
        if not target.exists() or target.read_text() != text:
            write_bytes(target, text.encode())
    return directory


def _llama(shape: Shape) -> dict[str, Any]:
    heads = shape.hidden_size // HEAD_SIZE
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden_size,
        "intermediate_size": 2 * shape.hidden_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "initializer_range": 0.02,
        "max_position_embeddings": MAX_POSITIONS,
        "vocab_size": VOCABULARY,
        "bos_token_id": _BEGIN,
        "eos_token_id": END,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sentences(), trainer=trainer)
    return tokenizer


def _sentences() -> list[str]:
    # Enough different words that the vocabulary is full: a token id without text would be a chunk without text.
    subjects = ("A tenant", "The agent", "Every application", "One request", "The scheduler", "Another run")
    manners = ("quietly", "with patience", "for a moment", "under pressure", "once more", "whatever happens")
    verbs = ("waits for", "asks about", "summarises", "finishes before", "shares", "returns to")
    objects = ("the engine", "a long document", "several answers", "the next question", "memory and time", "its turn")
    endings = (
        ".",
        ", and then reports what was found.",
        " because nothing else is running!",
        "; is that fair?",
        " until somebody measures throughput, latency, fairness or utilisation.",
        ", although larger batches would have been cheaper per generated token, measured daily.",
    )
    return [
        f"{subject} {manner} {verb} {thing}{ending}"
        for subject, manner, verb, thing, ending in itertools.product(subjects, manners, verbs, objects, endings)
    ]


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
