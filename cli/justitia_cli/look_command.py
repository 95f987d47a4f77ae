"""`justitia top` and `justitia explain`: what happens in the engines of a pool, and why requests wait."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from justitia_api.status import LimitScope, PoolStatus, QueuedRequest, QueueStatus
from justitia_cli.console import ContextOption, KubeconfigOption, errors, fail, output
from justitia_cli.explanation import explain, matching
from justitia_cli.live_table import applications_table, live_table, objectives_table
from justitia_cli.printing import plain_table, print_json
from justitia_cli.sidecars import At, OnCluster, Sidecars, SidecarsError, ask

D = TypeVar("D", PoolStatus, QueueStatus)

LIMITS_OVER = {
    LimitScope.POOL: "limits over the pool",
    LimitScope.PART: "a part of each limit here",
    LimitScope.ENGINE: "limits in each engine",
}
LISTED = 30
"""The most requests of a queue in a table."""

PoolOption = Annotated[str | None, typer.Option(help="Name of the pool; all pools of the namespace unless given")]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the pool; the context's unless given")
]
UrlOption = Annotated[
    str | None,
    typer.Option(help="Ask this sidecar instead of a cluster's: its admin address, as `justitia local up` prints it"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print once, as JSON")]


def top_command(  # noqa: PLR0917
    pool: PoolOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    url: UrlOption = None,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two refreshes")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print once; the default if the output is no terminal")] = False,
    json: JsonOption = False,
) -> None:
    """Show how engines are shared between tenants, live.

    Needs the right to list pods and to forward their ports. Exit code 1 if no sidecar answers.
    """
    with _asking(pool, namespace, kubeconfig, context, url) as sidecars:
        if json:
            print_json({name: _dumped(status) for name, status in _look(sidecars, "/internal/status", PoolStatus)})
        elif once or not output.is_terminal:
            output.print(_tables(sidecars))
        else:
            with Live(_tables(sidecars), console=output, auto_refresh=False) as live:
                while True:
                    time.sleep(every)
                    live.update(_tables_or_why_not(sidecars), refresh=True)


def explain_command(  # noqa: PLR0917
    request: Annotated[
        str | None,
        typer.Argument(help="A request, or a run by the name that its client gave it; the whole queue unless given"),
    ] = None,
    pool: PoolOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Say why requests wait, and which requests are before them.

    Needs the right to list pods and to forward their ports. Exit code 1 if no sidecar answers, or if the given request
    or run does not wait.
    """
    with _asking(pool, namespace, kubeconfig, context, url) as sidecars:
        queues = dict(_look(sidecars, "/internal/queue", QueueStatus))
    rows = {
        name: queue.requests if request is None else matching(queue.requests, request) for name, queue in queues.items()
    }
    if request is not None and not any(rows.values()):
        fail(f"{request} does not wait: it runs, is over, or never arrived; `justitia explain` lists what waits")
    if json:
        print_json({name: [_dumped(each) for each in found] for name, found in rows.items()})
    elif request is None:
        for name, queue in queues.items():
            output.print(_queue_table(name, queue))
    else:
        for name, found in rows.items():
            for each in found:
                for line in (f"{name}:", *explain(each, queues[name].requests)):
                    output.print(line, highlight=False, soft_wrap=True)


@contextmanager
def _asking(
    pool: str | None, namespace: str | None, kubeconfig: str | None, context: str | None, url: str | None
) -> Iterator[Sidecars]:
    """Turn errors into one line. Ctrl-C ends the look without an error."""
    try:
        if url is not None:
            yield At(url)
            return
        with OnCluster(pool, namespace, kubeconfig, context) as sidecars:
            yield sidecars
    except SidecarsError as error:
        fail(str(error))
    except KeyboardInterrupt:
        return


def _look(sidecars: Sidecars, path: str, kind: type[D]) -> list[tuple[str, D]]:
    """Ask all sidecars. Returns the answers by name. Raises SidecarsError if none answers."""
    said, problems = [], []
    for name, address in sidecars.addresses().items():
        try:
            said.append((name, ask(address, path, kind)))
        except SidecarsError as error:
            problems.append(f"{name}: {error}")
            sidecars.forget(name)
    if not said:
        none = "no pod runs a sidecar: see `kubectl get spool`, or name another --namespace"
        raise SidecarsError("; ".join(problems) or none)
    for problem in problems:
        errors.print(problem, highlight=False, soft_wrap=True)
    return said


def _tables(sidecars: Sidecars) -> RenderableType:
    said = _look(sidecars, "/internal/status", PoolStatus)
    tables: list[RenderableType] = []
    for name, status in said:
        tables.append(live_table(_title(name, status), status))
        if len({each.tenant for each in status.applications}) < len(status.applications):
            tables.append(applications_table(status))
        if status.objectives:
            tables.append(objectives_table(status))
    return Group(*tables)


def _tables_or_why_not(sidecars: Sidecars) -> RenderableType:
    """The tables, or the reason why there are none: engines come and go during a look."""
    try:
        return _tables(sidecars)
    except SidecarsError as error:
        return str(error)


def _title(name: str, status: PoolStatus) -> str:
    queued, running = (sum(getattr(each, what) for each in status.tenants) for what in ("queued", "running"))
    state = "draining" if status.draining else "" if status.engine_ready else "engine away"
    capacity, memory = status.kv_capacity_tokens, ""
    if capacity:
        memory = f"{status.kv_held_tokens / capacity:.0%} of {capacity:,} KV tokens"
    which = f"{status.namespace}/{status.name}   {name}   {status.policy.value}"
    if status.boost is not None:
        which += f", gamma {status.boost.gamma:.2g} per second"
    limits = "" if status.sharing is None else f"\n{LIMITS_OVER[status.limits_over]}"
    load = filter(None, (f"{queued} queued", f"{running} running", f"{status.open_runs} runs", memory, state))
    return f"{which}\n{'   '.join(load)}{limits}"


def _queue_table(name: str, queue: QueueStatus) -> Table:
    table = plain_table(f"{name}   {queue.waiting} waiting")
    table.add_column("", justify="right")
    for column in ("request", "tenant", "application", "run"):
        table.add_column(column)
    table.add_column("waits", justify="right")
    table.add_column("why")
    for each in queue.requests[:LISTED]:
        table.add_row(*_queue_row(each))
    if len(queue.requests) > LISTED:
        table.add_row("", f"and {queue.waiting - LISTED} more")
    return table


def _queue_row(request: QueuedRequest) -> Sequence[str]:
    whose = (request.request, request.tenant, request.application, request.run_name or request.run)
    return (str(request.position), *whose, f"{request.waiting_seconds:.1f} s", request.reason.value)


def _dumped(document: PoolStatus | QueuedRequest) -> dict[str, object]:
    return document.model_dump(mode="json", by_alias=True)
