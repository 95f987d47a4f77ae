"""The model that the project makes itself. That vLLM serves it is shown by the tests against the real engine."""

import hashlib
import json
from pathlib import Path

from tokenizers import Tokenizer

from justitia_cli.tiny_model import VOCABULARY, make_tiny_model


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


def test_the_same_files_come_out_every_time(tmp_path: Path) -> None:
    assert digests(make_tiny_model(tmp_path / "one")) == digests(make_tiny_model(tmp_path / "two"))


def test_a_second_call_leaves_the_files_alone(tmp_path: Path) -> None:
    def written() -> dict[str, int]:
        return {file.name: file.stat().st_mtime_ns for file in make_tiny_model(tmp_path).iterdir()}

    assert written() == written()


def test_a_damaged_file_is_written_again(tmp_path: Path) -> None:
    intact = digests(make_tiny_model(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{")
    assert digests(make_tiny_model(tmp_path)) == intact


def test_every_token_that_the_model_can_produce_has_text(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(make_tiny_model(tmp_path) / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == VOCABULARY == json.loads((tmp_path / "config.json").read_text())["vocab_size"]
    assert all(tokenizer.id_to_token(token) for token in range(VOCABULARY))


def test_any_text_survives_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(make_tiny_model(tmp_path) / "tokenizer.json"))
    text = "Größe: 3 µs — {'prompt': \"¿qué?\"}\n\t模型 🚀"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
