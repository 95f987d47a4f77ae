"""Models are loaded from the image or the store, or it is said why they are not."""

import asyncio
from pathlib import Path

import pytest

from justitia_api.status import ModelStatus
from justitia_predictor import artifact as artifact_module
from justitia_predictor.artifact import digest
from justitia_sidecar.learning.attempts import Attempts
from justitia_sidecar.learning.evidence import PairedErrors
from justitia_sidecar.learning.loading import NO_STORE, Loading
from justitia_sidecar.learning.model_table import ModelTable
from support.executors import AtOnce, ByHand
from support.learning_room import NAME, WRITTEN, Room, trained

LACKING = "0" * 64


class Rig:
    """The loading of an application's models from a store, and from an image where there is a folder of it."""

    def __init__(self, room: Room, *, image: Path | None = None, store: bool = True) -> None:
        self.models = ModelTable()
        attempts = Attempts(AtOnce(), room.metrics)
        self.loading = Loading(self.models, room.store if store else None, image, attempts)

    async def load(self, *versions: str, name: str = NAME) -> list[ModelStatus]:
        """What is said of each after one round."""
        self.models.want((name, version) for version in versions)
        await self.loading.load()
        return [self.status(version, name) for version in versions]

    def status(self, version: str, name: str = NAME) -> ModelStatus:
        found = self.models.status(name, version, PairedErrors())
        assert found is not None
        return found


def file_of(room: Room, version: str) -> Path:
    return Path(room.store.url.removeprefix("file://")) / NAME / "artifacts" / version


@pytest.fixture
def versions(room: Room) -> tuple[str, str]:
    """Two that are in the store."""
    one, other = (room.store.put_artifact(trained(part)) for part in (WRITTEN, WRITTEN[1:]))
    return one, other


@pytest.fixture
def image(tmp_path: Path) -> Path:
    folder = tmp_path / "image"
    folder.mkdir()
    return folder


async def test_models_of_the_store_are_loaded(room: Room, versions: tuple[str, str]) -> None:
    rig = Rig(room)
    assert await rig.load(*versions) == [ModelStatus(version=version, loaded=True) for version in versions]
    assert list(rig.models.loaded_of(NAME, versions)) == list(versions)
    await rig.loading.load()
    assert room.store.asked == [NAME, NAME], "what is loaded is not asked for"


async def test_a_damaged_model_is_unusable_and_keeps_no_other(room: Room, versions: tuple[str, str]) -> None:
    damaged, good = versions
    file_of(room, damaged).write_bytes(b"damaged")
    problem = f"the artifact {damaged[:12]} is damaged: its content has another digest"
    assert await Rig(room).load(damaged, good) == [
        ModelStatus(version=damaged, loaded=False, problem=problem, unusable=True),
        ModelStatus(version=good, loaded=True),
    ]
    assert room.failures("load") == 1


async def test_a_model_for_other_features_is_not_loaded(
    room: Room, versions: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_module, "FEATURES_VERSION", 99)
    (found,) = await Rig(room).load(versions[0])
    assert (found.problem, found.unusable) == ("the artifact is for features of version 1: train it again", True)


async def test_a_model_that_is_not_in_the_store_is_loaded_when_it_comes(room: Room) -> None:
    model, rig = trained(), Rig(room)
    version = digest(model.to_bytes())
    problem = f"the artifact {version[:12]} is not in the store"
    assert await rig.load(version) == [ModelStatus(version=version, loaded=False, problem=problem)]
    room.store.put_artifact(model)
    assert await rig.load(version) == [ModelStatus(version=version, loaded=True)]


async def test_a_store_that_lacks_a_model_is_asked_for_the_others(room: Room, versions: tuple[str, str]) -> None:
    lacking, good = await Rig(room).load(LACKING, versions[0])
    assert (lacking.loaded, good.loaded) == (False, True)


async def test_a_store_that_is_away_is_asked_once_for_all_models(room: Room, versions: tuple[str, str]) -> None:
    room.store.away = True
    found = await Rig(room).load(*versions)
    assert {each.problem for each in found} == {"the store is away"}
    assert not any(each.unusable for each in found)
    assert room.failures("load") == 1


async def test_an_application_that_the_store_never_answers_for_keeps_no_others_waiting(room: Room) -> None:
    rig, version = Rig(room), room.store.put_artifact(trained(name="c"))
    room.store.away_for = {"a", "b"}
    rig.models.want((name, version) for name in ("a", "b", "c"))
    for _ in range(3):
        await rig.loading.load()
    assert rig.status(version, "c").loaded
    assert room.store.asked == ["a", "b", "c", "a"], "a round ends where the store is away"


@pytest.mark.parametrize("store", [True, False])
async def test_a_model_of_the_image_is_loaded_without_the_store(room: Room, image: Path, store: bool) -> None:
    content = trained().to_bytes()
    version = digest(content)
    (image / version).write_bytes(content)
    assert await Rig(room, image=image, store=store).load(version) == [ModelStatus(version=version, loaded=True)]
    assert room.store.asked == []


async def test_without_a_store_a_model_that_the_image_lacks_says_so(room: Room, image: Path) -> None:
    found = await Rig(room, image=image, store=False).load(LACKING)
    assert found == [ModelStatus(version=LACKING, loaded=False, problem=NO_STORE)]
    assert room.failures("load") == 0


async def test_a_damaged_model_of_the_image_is_looked_for_in_the_store(
    room: Room, image: Path, versions: tuple[str, str]
) -> None:
    (image / versions[0]).write_bytes(b"damaged")
    assert await Rig(room, image=image).load(versions[0]) == [ModelStatus(version=versions[0], loaded=True)]
    assert room.failures("load") == 1


async def test_a_model_that_nobody_wants_when_it_comes_is_dropped(room: Room, versions: tuple[str, str]) -> None:
    thread, models = ByHand(), ModelTable()
    models.want([(NAME, versions[0])])
    loading = asyncio.create_task(Loading(models, room.store, None, Attempts(thread, room.metrics)).load())
    await asyncio.sleep(0)
    models.want([])
    thread.work()
    await loading
    assert models.loaded_of(NAME, versions) == {}
