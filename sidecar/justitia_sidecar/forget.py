"""`python -m justitia_sidecar.forget NAME`: erases an application's samples on this pod's disk, beside the sidecar.

NAME is the application's name in the store. Samples that the sidecar has not written yet still reach the disk later.
"""

import os
import sys
from pathlib import Path

from justitia_sidecar.learning.samples import Samples, SamplesError


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m justitia_sidecar.forget NAME\n")
        return 2
    file = os.environ.get("JUSTITIA_SAMPLES_FILE")
    if file is None:
        return 0
    try:
        samples = Samples(Path(file))
        samples.erase(sys.argv[1])
        samples.close()
    except SamplesError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
