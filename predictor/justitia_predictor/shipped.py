"""Reads models that came with an image: a folder with a file for each model, named by its digest."""

from pathlib import Path

from justitia_predictor.artifact import MOST_BYTES, Artifact, ArtifactError


def shipped_artifact(folder: Path, version: str) -> Artifact | None:
    """The model of a version. None if the folder does not have it. Raises ArtifactError."""
    path = folder / version
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ArtifactError(f"{path} is larger than any artifact: at most {MOST_BYTES} bytes are read")
        return Artifact.of_version(version, path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}") from None
