"""What vLLM loads with `--scheduler-cls justitia_engine.scheduler.JustitiaScheduler`.

It is the scheduler of `ordering.py` in a vLLM that it is made for (`supported.py`). In any other it is vLLM's own,
which tells the sidecar why: the sidecar then keeps the order in front of the engine.
"""

import os
from typing import Any

import vllm
from vllm.logger import init_logger

from justitia_engine.supported import problem

logger = init_logger(f"vllm.{__name__}")  # vLLM formats and shows what is below its own name

try:
    unsupported = problem(vllm.__version__)
    if unsupported is None:
        from justitia_engine.ordering import JustitiaScheduler
except Exception as error:
    unsupported = f"the scheduler cannot be imported in vLLM {vllm.__version__}: {error!r}"

if unsupported is not None:
    try:
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler as Own
    except ImportError:
        from vllm.v1.core.sched.scheduler import Scheduler as Own

    from justitia_channel.messages import About
    from justitia_engine.link import Link

    logger.error(
        "Justitia cannot order requests in this vLLM, which serves in its own order: %s. Use a vLLM that "
        "Justitia supports, or set scheduling.enforcement to Sidecar.",
        unsupported,
    )

    class JustitiaScheduler(Own):  # type: ignore[no-redef]
        """vLLM's own scheduler. The link tells each sidecar so, and throws away what it hears."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            about = About(vllm.__version__, unsupported=unsupported)
            link = Link(os.environ.get("JUSTITIA_SOCKET", "/run/justitia/engine.sock"), about, logger.warning)
            link.start(link.inbox.clear)


__all__ = ["JustitiaScheduler"]
