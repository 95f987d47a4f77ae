"""Result files, the same for simulation and live replay.

A folder holds, for one or several policies (labels):

- `requests.jsonl`: policy, run, tenant, application, stage, arrival, ready, admitted, first_token, finished,
  prompt_tokens, output_tokens, preemptions, status, cached_tokens;
- `runs.jsonl`: policy, run, tenant, application, arrival, finished, cost, jct;
- `service.jsonl`: policy, time, tenant, service, queued, running. A time series: `service` is what the tenant has been
  charged until `time` in the pool's cost model, `queued` and `running` are its requests at that moment;
- `summary.json`: per policy what :mod:`justitia_simulator.summary` computes.

The fields' meaning stands in :mod:`justitia_simulator.records`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from justitia_simulator.files import write_bytes, write_lines
from justitia_simulator.records import PolicyResults, RequestResult, RunResult, ServiceSample
from justitia_simulator.summary import summarise


class ResultsError(ValueError):
    """A result folder cannot be used. The text says which file, which line and what is wrong."""


def write_results(folder: Path, results: Iterable[PolicyResults]) -> None:
    """Write or replace these policies in the folder; other policies that it holds stay. Each file is atomic."""
    kept = {r.policy: r for r in read_results(folder)} if (folder / "summary.json").exists() else {}
    kept |= {r.policy: r for r in results}
    encode = msgspec.json.Encoder().encode
    write_lines(folder / "requests.jsonl", (encode(r) for p in kept.values() for r in p.requests))
    write_lines(folder / "runs.jsonl", (encode(r) for p in kept.values() for r in p.runs))
    write_lines(folder / "service.jsonl", (encode(s) for p in kept.values() for s in p.service))
    summary = {label: summarise(p) for label, p in kept.items()}
    write_bytes(folder / "summary.json", msgspec.json.format(encode(summary), indent=2) + b"\n")


def read_results(folder: Path) -> list[PolicyResults]:
    """The policies of a folder in the order they were written. Raises ResultsError or OSError."""
    if not (folder / "summary.json").is_file():
        raise ResultsError(f"{folder}: no summary.json there: not a folder of results")
    try:
        summary = msgspec.json.decode((folder / "summary.json").read_bytes(), type=dict[str, _Conditions])
    except msgspec.DecodeError as error:
        raise ResultsError(f"{folder / 'summary.json'}: {error}") from None
    requests = _grouped(_read_lines(folder / "requests.jsonl", RequestResult))
    runs = _grouped(_read_lines(folder / "runs.jsonl", RunResult))
    series = folder / "service.jsonl"
    service = _grouped(_read_lines(series, ServiceSample)) if series.exists() else {}
    return [
        PolicyResults(
            label,
            requests.get(label, []),
            runs.get(label, []),
            service.get(label, []),
            {tenant: t.weight for tenant, t in meta.tenants.items()},
            meta.service_unit,
            meta.conditions,
        )
        for label, meta in summary.items()
    ]


class _TenantWeight(msgspec.Struct):
    weight: float


class _Conditions(msgspec.Struct):
    """The part of a policy's summary that cannot be computed again from the other files."""

    tenants: dict[str, _TenantWeight]
    service_unit: str
    conditions: dict[str, object]


_Row = TypeVar("_Row", RequestResult, RunResult, ServiceSample)


def _read_lines(path: Path, row: type[_Row]) -> list[_Row]:
    decoder = msgspec.json.Decoder(row)
    rows = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                rows.append(decoder.decode(line))
            except msgspec.DecodeError as error:
                raise ResultsError(f"{path}:{number}: {error}") from None
    return rows


def _grouped(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    grouped: dict[str, list[_Row]] = {}
    for row in rows:
        grouped.setdefault(row.policy, []).append(row)
    return grouped
