"""An API server's client that misbehaves on purpose: it takes everything, but raises for some objects whatever it is
told to.
"""

from datetime import datetime

from justitia_operator.world.objects import Json, Kind, Note, Ref, StatusPatch, ref_of
from support.owners import owned_by_us


class MisbehavingKube:
    """`errors`: raised for each write of the object; `once`: for its next apply. `version`: the last that was given to
    one. `owners`: what became of objects whose fields have other owners now.
    """

    def __init__(self) -> None:
        self.errors: dict[Ref, Exception] = {}
        self.once: dict[Ref, Exception] = {}
        self.owners: dict[Ref, Json] = {}
        self.applied: list[Ref] = []
        self.disowned: list[Ref] = []
        self.statuses: list[StatusPatch] = []
        self.notes: list[Note] = []
        self.listed: dict[Kind, list[Json]] = {}
        self.version = 1000

    def _answer(self, obj: Json) -> Json:
        if (error := self.errors.get(ref_of(obj))) is not None:
            raise error
        self.version += 1
        metadata = {"uid": "u", **obj["metadata"], "resourceVersion": str(self.version)}
        return obj | {"metadata": metadata}

    async def get(self, ref: Ref) -> Json | None:
        return None

    async def look(self, ref: Ref) -> Json | None:
        return None

    async def apply(self, obj: Json, before: Json | None) -> Json:
        if (error := self.once.pop(ref_of(obj), None)) is not None:
            raise error
        entries = () if before is None else before["metadata"].get("managedFields", ())
        answer = owned_by_us(self._answer(obj), *(each for each in entries if each["operation"] != "Apply"))
        self.applied.append(ref_of(obj))
        return answer

    async def set_owners(self, before: Json, managed_fields: list[Json]) -> Json:
        ref = ref_of(before)
        self.disowned.append(ref)
        changed = before | {"metadata": before["metadata"] | {"managedFields": managed_fields}}
        answer = self.owners[ref] = self._answer(changed)
        return answer

    async def apply_status(self, patch: StatusPatch, before: Json) -> Json | None:
        if (error := self.errors.get(patch.ref)) is not None:
            raise error
        self.statuses.append(patch)
        return None

    async def delete(self, before: Json) -> None:
        if (error := self.errors.get(ref_of(before))) is not None:
            raise error

    async def record(self, note: Note, now: datetime) -> None:
        self.notes.append(note)

    async def list(self, kind: Kind, namespace: str = "", labels: str = "") -> tuple[list[Json], int]:
        return self.listed.get(kind, []), self.version
