"""A LoRA adapter of random weights for the tiny model."""

import json
import random
import struct
from pathlib import Path

from justitia_cli.tiny_model import Shape

RANK = 8
LARGE = 100
"""The weights that vLLM makes for the tiny model are about a thousandth: beside these, the adapter decides."""
_SHAPE = Shape()
_LAYER = "base_model.model.model.layers.{}.self_attn.o_proj.lora_{}.weight"


def make_tiny_adapter(directory: Path, seed: int) -> Path:
    """Writes the adapter's files into `directory`, which is made if need be, and returns it."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["o_proj"],
    }
    (directory / "adapter_config.json").write_text(json.dumps(config))
    (directory / "adapter_model.safetensors").write_bytes(_tensors(random.Random(seed)))
    return directory


def _tensors(rng: random.Random) -> bytes:
    """The matrices of each layer, in the format of safetensors: length of the header, header, numbers."""
    header: dict[str, object] = {}
    data = b""
    for layer in range(_SHAPE.layers):
        for part, shape in (("A", [RANK, _SHAPE.hidden_size]), ("B", [_SHAPE.hidden_size, RANK])):
            numbers = [rng.gauss(0, LARGE) for _ in range(shape[0] * shape[1])]
            packed = struct.pack(f"<{len(numbers)}f", *numbers)
            offsets = [len(data), len(data) + len(packed)]
            header[_LAYER.format(layer, part)] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
            data += packed
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
