"""What paying tenants and adversaries send: plain HTTP/1.1, bodies of which no two share a prompt."""

import json
import random

MODEL = "tiny"
PROMPT = 60
"""Tokens."""
_VOCABULARY = range(3, 500)


def completion(draw: random.Random, *, prompt: int = PROMPT, output: int, stream: bool) -> bytes:
    """A body that asks for exactly so many tokens of output."""
    fields = {
        "model": MODEL,
        "prompt": [draw.choice(_VOCABULARY) for _ in range(prompt)],
        "max_tokens": output,
        "ignore_eos": True,
        "stream": stream,
    }
    return json.dumps(fields).encode()


def head(method: str, path: str, *, key: str = "", length: int | None = None, run: str = "") -> bytes:
    """A request's head, with its blank line."""
    lines = [f"{method} {path} HTTP/1.1", "host: pool"]
    lines += [f"authorization: Bearer {key}"] if key else []
    lines += [f"x-justitia-run: {run}"] if run else []
    lines += ["content-type: application/json", f"content-length: {length}"] if length is not None else []
    return "\r\n".join([*lines, "", ""]).encode()
