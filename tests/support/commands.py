"""Programs that tests run."""

import subprocess


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """What a program that has ended printed. Raises CalledProcessError, with what it complained of, where it failed."""
    try:
        done.check_returncode()
    except subprocess.CalledProcessError as error:
        error.add_note(done.stderr)
        raise
    return done.stdout
