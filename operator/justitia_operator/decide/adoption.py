"""Whether an object that exists under the name of one of ours is ours to change."""

from enum import Enum

from justitia_operator.world.objects import MANAGED_BY_LABEL, Json, labels_of, ref_of


class Standing(Enum):
    """Whose an object is."""

    OURS = "Ours"
    """Its controller is the resource for which it is wanted; or it has none, and all labels that we give it."""
    GOING = "Going"
    """It is being deleted, or an earlier resource's of the same name, and so goes by itself."""
    FOREIGN = "Foreign"


def standing_of(found: Json, wanted: Json) -> Standing:
    """Of an object, to one that is wanted under its name and has a controller."""
    owner, wanted_owner = controller_of(found), controller_of(wanted)
    labels = labels_of(wanted)
    if owner is not None and wanted_owner is not None and owner["uid"] == wanted_owner["uid"]:
        return Standing.OURS
    if found["metadata"].get("deletionTimestamp"):
        return Standing.GOING
    if owner is not None:
        same_name = wanted_owner is not None and all(owner.get(k) == wanted_owner[k] for k in ("kind", "name"))
        return Standing.GOING if same_name else Standing.FOREIGN
    labelled = MANAGED_BY_LABEL in labels and labels.items() <= labels_of(found).items()
    return Standing.OURS if labelled else Standing.FOREIGN


def foreign_message(wanted: Json) -> str:
    """What is wrong, and what to do."""
    owner = controller_of(wanted)
    whose = "this installation" if owner is None else f"{owner['kind']} {owner['name']}"
    return (
        f"{ref_of(wanted)} exists and does not belong to {whose}, so it is left as it is: "
        f"give {whose} another name, or delete that object if nobody needs it"
    )


def controller_of(obj: Json) -> Json | None:
    """The owner reference of what made the object."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)
