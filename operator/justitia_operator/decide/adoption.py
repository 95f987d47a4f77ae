"""Whether an existing object of a name that we use is ours to change."""

from enum import Enum

from justitia_operator.world.objects import MANAGED_BY_LABEL, Json, labels_of, ref_of


class Adoption(Enum):
    """Who an object belongs to."""

    OURS = "Ours"
    """Its controller is the resource that wants it; or it has no controller, and all labels that we give it."""
    GOING = "Going"
    """It is being deleted, or belongs to an earlier resource of the same name, and will be garbage-collected."""
    FOREIGN = "Foreign"


def adoption_of(found: Json, wanted: Json) -> Adoption:
    """Compares an existing object with the wanted one of the same name, which has a controller."""
    owner, wanted_owner = controller_of(found), controller_of(wanted)
    labels = labels_of(wanted)
    if owner is not None and wanted_owner is not None and owner["uid"] == wanted_owner["uid"]:
        return Adoption.OURS
    if found["metadata"].get("deletionTimestamp"):
        return Adoption.GOING
    if owner is not None:
        same_name = wanted_owner is not None and all(owner.get(k) == wanted_owner[k] for k in ("kind", "name"))
        return Adoption.GOING if same_name else Adoption.FOREIGN
    labelled = MANAGED_BY_LABEL in labels and labels.items() <= labels_of(found).items()
    return Adoption.OURS if labelled else Adoption.FOREIGN


def foreign_message(wanted: Json) -> str:
    """Explains why the object stays as it is, and what to do."""
    owner = controller_of(wanted)
    whose = "this installation" if owner is None else f"{owner['kind']} {owner['name']}"
    return (
        f"{ref_of(wanted)} exists and does not belong to {whose}, so the operator does not change it: "
        f"rename {whose}, or delete that object if nobody needs it"
    )


def controller_of(obj: Json) -> Json | None:
    """Returns the owner reference of the object's controller."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)
