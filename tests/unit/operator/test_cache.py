"""What is known of the cluster: the newest wins, whatever the order of news."""

from justitia_operator.runtime.cache import ObjectCache
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.snapshot import Rejection
from support.resources import INSTALLATION

REF = Ref(Kind.CONFIG_MAP, "apps", "x")


def obj(version: int, *, name: str = "x", uid: str = "u") -> Json:
    metadata = {"namespace": "apps", "name": name, "uid": uid, "resourceVersion": str(version), "managedFields": [1]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def everything(_: Ref) -> bool:
    return True


def known(cache: ObjectCache) -> Json | None:
    return cache.snapshot().get(REF)


def test_an_older_version_is_no_news() -> None:
    cache = ObjectCache(INSTALLATION)
    assert cache.put(obj(10))
    assert not cache.put(obj(10))
    assert not cache.put(obj(9))
    assert cache.put(obj(100)), "versions are compared as numbers"


def test_a_deleted_object_is_forgotten_but_not_its_successor() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.put(obj(10))
    assert not cache.remove(obj(11, uid="another"))
    assert cache.remove(obj(11))
    assert not cache.remove(obj(11))
    assert known(cache) is None


def test_what_a_list_lacks_is_gone_unless_it_is_newer_than_the_list() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.put(obj(10))
    cache.put(obj(30, name="y"))
    assert cache.missing([], 20, everything) == [known(cache)]
    assert cache.missing([obj(10)], 20, everything) == []


def test_a_list_says_nothing_of_what_it_does_not_cover() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.put(obj(10))
    assert cache.missing([obj(20, name="y")], 20, lambda ref: ref.namespace == "other") == []


def test_what_is_doubted_is_hidden_until_it_is_seen_again_and_the_same_is_no_news() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.put(obj(10))
    cache.doubt(everything)
    assert known(cache) is None
    assert cache.version(REF) == 10
    assert not cache.put(obj(10))
    assert known(cache) is not None
    cache.doubt(everything)
    assert cache.put(obj(11))


def test_what_is_doubted_twice_without_being_seen_is_forgotten() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.put(obj(10))
    cache.doubt(everything)
    cache.doubt(everything)
    assert cache.put(obj(10))


def test_who_owns_which_fields_is_kept_of_what_pools_consist_of_alone() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.put(obj(10))
    assert "managedFields" not in (known(cache) or {})["metadata"]
    ours = obj(11)
    ours["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "justitia-operator"}
    cache.put(ours)
    assert "managedFields" in (known(cache) or {})["metadata"]


def test_a_rejection_holds_until_the_object_is_taken() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.reject(REF, Rejection("hash", "no"))
    assert cache.snapshot().rejections == {REF: Rejection("hash", "no")}
    cache.accept(REF)
    assert cache.snapshot().rejections == {}


def test_a_rejection_is_tried_again_and_forgotten_where_nobody_tries() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.reject(REF, Rejection("hash", "no"))
    cache.retry_rejections()
    assert cache.snapshot().rejections == {REF: Rejection("hash", "no", retry=True)}
    cache.reject(REF, Rejection("hash", "no"))
    cache.retry_rejections()
    assert cache.snapshot().rejections == {REF: Rejection("hash", "no", retry=True)}
    cache.retry_rejections()
    assert cache.snapshot().rejections == {}


def test_with_a_kind_that_the_cluster_has_no_longer_its_objects_are_gone() -> None:
    cache = ObjectCache(INSTALLATION)
    cache.set_installed(frozenset({Kind.HTTP_ROUTE, Kind.INFERENCE_POOL}))
    route = obj(10) | {"apiVersion": Kind.HTTP_ROUTE.api_version, "kind": "HTTPRoute"}
    cache.put(route)
    cache.put(obj(10))
    cache.set_installed(frozenset({Kind.INFERENCE_POOL}))
    snapshot = cache.snapshot()
    assert snapshot.installed == {Kind.INFERENCE_POOL}
    assert list(snapshot.objects) == [REF]
