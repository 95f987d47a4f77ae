"""`python -m justitia_operator`."""

import asyncio
import sys

import structlog
from pydantic import ValidationError

from justitia_operator.runtime.app import configure_logging, run
from justitia_operator.runtime.kube import Rejected, Unavailable
from justitia_operator.runtime.lease import LeaseLost
from justitia_operator.runtime.settings import Settings


def main() -> int:
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors():
            name = "JUSTITIA_" + "_".join(str(part) for part in problem["loc"]).upper()
            print(f"{name}: {problem['msg']}", file=sys.stderr)  # noqa: T201
        return 2
    configure_logging(settings.log_level)
    try:
        asyncio.run(run(settings))
    except asyncio.CancelledError:
        # By a signal.
        return 0
    except (Unavailable, Rejected, LeaseLost) as error:
        structlog.get_logger().error("ended", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
