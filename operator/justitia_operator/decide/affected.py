"""Which resources are to be reconciled when an object changes."""

from collections.abc import Iterable, Iterator

from justitia_operator.world.catalog import key_secret, refers_to
from justitia_operator.world.names import pools_of_child
from justitia_operator.world.objects import OWN_KINDS, Kind, Ref
from justitia_operator.world.snapshot import Snapshot


def _tenants_of_keys(world: Snapshot, secrets: Iterable[Ref]) -> Iterator[Ref]:
    """Tenants whose keys are in these Secrets, or whose keys have the same value: a key belongs to one tenant only."""
    for secret in secrets:
        values = refers_to(world.objects[secret]) if secret in world.objects else ()
        alike = {other for value in values for other in world.objects.referrers(value, Kind.SECRET)}
        for each in {secret, *alike}:
            yield from world.objects.referrers(key_secret(each.name), Kind.TENANT)


def affected(world: Snapshot, ref: Ref) -> frozenset[Ref]:
    """Resources whose plan may change when the object does: those that refer to it, and the one it belongs to."""
    objects, concerned = world.objects, {ref}
    if ref.kind is Kind.SECRET and ref.namespace == world.installation.namespace:
        concerned.update(_tenants_of_keys(world, {ref}))
    if ref.kind is Kind.TENANT and ref in objects:
        keys = {Ref(Kind.SECRET, world.installation.namespace, key.name) for key in refers_to(objects[ref])}
        concerned.update(_tenants_of_keys(world, keys))
    if ref.kind not in OWN_KINDS:
        concerned |= refers_to(objects[ref]) if ref in objects else pools_of_child(ref)
    applications = {app for other in concerned for app in objects.referrers(other, Kind.LLM_APPLICATION)}
    if ref.kind is Kind.LLM_APPLICATION and ref in objects:
        applications.add(ref)
    beside = {other for app in applications for other in refers_to(objects[app])}
    return frozenset(other for other in concerned | applications | beside if other.kind in OWN_KINDS)
