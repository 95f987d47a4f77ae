"""The picture of the effect: how long a light tenant waits for its first tokens while two others flood.

It is drawn from a simulation with a fixed seed, so it comes out the same each time: `make picture`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from justitia_scheduling.baselines.registry import build_cost_model, build_policy
from justitia_simulator.engine import Engine
from justitia_simulator.profiles import find_profile
from justitia_simulator.records import RequestResult
from justitia_simulator.traces import demo_workload, load_trace
from justitia_vocabulary.units import Seconds

TRACE = Path("examples/traces/azure2023-conversation.csv")
ENGINE = "a10g-llama2-7b"
SEED = 1
WEIGHTS = {"research": 1.0, "batch": 2.0, "support": 4.0}
LIGHT = "support"
FLOOD_SECONDS, SHOWN_SECONDS, LONGEST_SHOWN = 60, 180, 115
LIGHT_WORK = 90_000
"""Weighted tokens of the light tenant: as many a second as in `justitia workload demo`, for three times as long."""

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 36, 56, 62
STYLE = """
.paper { fill: #ffffff } .ink { fill: #1c2126 } .faint { fill: #57606a } .grid { stroke: #d5dade }
.flood { fill: #eef1f4 } .fcfs { fill: #b8500f } .justitia { fill: #0b6fc2 }
text { font-family: system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; font-size: 18px }
text.title { font-size: 21px; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  .paper { fill: #15191d } .ink { fill: #e4e8eb } .faint { fill: #a5afb8 } .grid { stroke: #3a434b }
  .flood { fill: #20262c } .fcfs { fill: #f0883e } .justitia { fill: #58a6ff }
}
"""


@dataclass(frozen=True)
class Curve:
    """An order of service, and how the picture names it."""

    policy: str
    mark: str
    name: str


CURVES = (Curve("fcfs", "fcfs", "First come, first served"), Curve("tiered-justitia", "justitia", "Default policy"))


@dataclass(frozen=True)
class Wait:
    """What one request of the light tenant saw."""

    arrival: Seconds
    first_token: Seconds


def simulate(policy: str) -> list[Wait]:
    """The light tenant's requests on the simulated engine under the policy."""
    runs = demo_workload(
        load_trace(TRACE),
        seed=SEED,
        flood_seconds=FLOOD_SECONDS,
        support_work=LIGHT_WORK,
        support_seconds=SHOWN_SECONDS,
    )
    profile = find_profile(ENGINE)
    built = build_policy(policy, build_cost_model("engine-time", profile.charge))
    return waits(Engine([built], profile, label=policy).serve(runs, WEIGHTS).requests)


def waits(requests: Sequence[RequestResult]) -> list[Wait]:
    return [
        Wait(request.ready, request.first_token - request.ready)
        for request in requests
        if request.tenant == LIGHT and request.first_token is not None
    ]


def draw(series: Sequence[tuple[Curve, Sequence[Wait]]]) -> str:
    """The picture as SVG. It brings its own background, so it can be read on a light page and on a dark one."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title">',
        '<title id="title">Seconds that requests of a light tenant wait for their first token</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        _text(24, 36, "A light tenant’s wait for the first token while two others flood", "title ink"),
        _rectangle(_x(0), _y(LONGEST_SHOWN), _x(FLOOD_SECONDS) - _x(0), _y(0) - _y(LONGEST_SHOWN), "flood"),
        _text(_x(FLOOD_SECONDS / 2), _y(LONGEST_SHOWN) + 24, "the two others send", "faint", "middle"),
        *_axes(),
    ]
    for curve, seen in series:
        parts += [
            f'<circle class="{curve.mark}" cx="{_x(wait.arrival):.1f}" cy="{_y(wait.first_token):.1f}" r="4.5"/>'
            for wait in seen
        ]
    for row, (curve, seen) in enumerate(series):
        middle = median(wait.first_token for wait in seen)
        label = f"{curve.name}: median {_figure(middle)} s, worst {_figure(max(w.first_token for w in seen))} s"
        y = _y(LONGEST_SHOWN) + 24 + 28 * row
        parts.append(f'<circle class="{curve.mark}" cx="{_x(74)}" cy="{y - 6}" r="6"/>')
        parts.append(_text(_x(74) + 14, y, label, curve.mark))
    return "\n".join([*parts, "</svg>\n"])


def _axes() -> list[str]:
    parts = []
    for seconds in range(0, LONGEST_SHOWN + 1, 20):
        y = _y(seconds)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        parts.append(_text(LEFT - 10, y + 6, f"{seconds} s", "faint", "end"))
    for seconds in range(0, SHOWN_SECONDS + 1, 30):
        parts.append(_text(_x(seconds), HEIGHT - BOTTOM + 24, f"{seconds} s", "faint", "middle"))
    parts.append(_text(_x(SHOWN_SECONDS / 2), HEIGHT - 12, "moment at which the request came", "faint", "middle"))
    return parts


def _text(x: float, y: float, text: str, marks: str, anchor: str = "start") -> str:
    return f'<text class="{marks}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'


def _rectangle(x: float, y: float, width: float, height: float, mark: str) -> str:
    return f'<rect class="{mark}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}"/>'


def _x(arrival: Seconds) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * arrival / SHOWN_SECONDS


def _y(wait: Seconds) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * wait / LONGEST_SHOWN


def _figure(seconds: Seconds) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"


def main(arguments: list[str]) -> int:
    (target,) = arguments
    Path(target).write_text(draw([(curve, simulate(curve.policy)) for curve in CURVES]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
