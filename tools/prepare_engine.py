"""Make the engine's environment ahead of the tests that talk to vLLM, with its progress in sight."""

import sys

from justitia_cli.runtime import EngineSetupError, ensure_engine


def main() -> int:
    try:
        runtime = ensure_engine(lambda line: print(f"engine: {line}", flush=True))
    except EngineSetupError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    print(f"engine: vLLM for {runtime.device.upper()} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
