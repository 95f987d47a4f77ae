"""A pool whose engines share over Valkey: what its pods are told, and what the pool says of its fairness."""

from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from justitia_api.config import ServerKind, ValkeyConfig
from justitia_api.pool import ServingPool
from justitia_api.status import SharingStatus
from justitia_operator.build.documents import read_pool_config
from justitia_operator.build.shared_valkey import pool_users
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.installation import InstalledValkey
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot
from support.resources import (
    INSTALLATION,
    NOW,
    ROOT,
    application,
    child,
    key,
    pod,
    pool,
    put,
    settled,
    tenant,
    with_ready_engines,
    without,
    world,
)

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
VALKEY = {"addresses": ["valkey.shared:6379"], "secretRef": {"name": "valkey"}}
ONE, TWO = "justitia-shared-1", "justitia-shared-2"


def of_two(valkey: Json | None = VALKEY, **scheduling: str) -> Snapshot:
    """A pool of two engines, whose pods serve."""
    made = pool(replicas=2, scheduling=scheduling, **({} if valkey is None else {"valkey": valkey}))
    warm = settled(with_ready_engines(settled(world(tenant(), key(), made, application())), 2))
    return put(put(warm, pod(ONE)), pod(TWO))


def fairness(snapshot: Snapshot, *told: SharingStatus | None) -> tuple[str, str, str]:
    """The pool's condition, when its pods have reported so."""
    reports = {
        Ref(Kind.POD, "apps", name): Report("containerd://one", 1, 1, sharing=sharing)
        for name, sharing in zip((ONE, TWO), told, strict=False)
    }
    unknown = put(snapshot, snapshot.objects[POOL] | {"status": {}})
    (patch,) = reconcile(replace(unknown, reports=reports), POOL, NOW).statuses
    (found,) = (c for c in patch.status["conditions"] if c["type"] == "PoolFairness")
    return found["status"], found["reason"], found["message"]


HEARS = SharingStatus(connected=True, others=1)


def test_pods_get_the_address_in_their_configuration_and_the_secret_as_files() -> None:
    snapshot = of_two({**VALKEY, "kind": "Sentinel", "primaryName": "ours", "tls": True})
    config = read_pool_config(child(snapshot, Kind.CONFIG_MAP))
    assert config is not None
    assert config.valkey == ValkeyConfig(
        pool="apps/shared", addresses=("valkey.shared:6379",), kind=ServerKind.SENTINEL, primary="ours", tls=True
    )
    spec = child(snapshot, Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    (sidecar,) = (c for c in spec["initContainers"] if c["name"] == "sidecar")
    (mount,) = (m for m in sidecar["volumeMounts"] if m["name"] == "valkey")
    assert {"name": "JUSTITIA_VALKEY_FOLDER", "value": mount["mountPath"]} in sidecar["env"]
    (volume,) = (v for v in spec["volumes"] if v["name"] == "valkey")
    assert volume["secret"] == {"secretName": "valkey", "optional": True, "defaultMode": 0o440}
    assert all(m["name"] != "valkey" for c in spec["containers"] for m in c["volumeMounts"])


def test_without_a_secret_nothing_is_mounted_and_without_valkey_nothing_is_told() -> None:
    bare = child(of_two({"addresses": ["valkey.shared:6379"]}), Kind.DEPLOYMENT)
    assert "valkey" not in str(bare)
    config = read_pool_config(child(of_two(None), Kind.CONFIG_MAP))
    assert config is not None
    assert config.valkey is None


def test_a_pool_whose_engines_all_hear_of_each_other_is_fair() -> None:
    assert fairness(of_two(), HEARS, HEARS)[:2] == ("True", "Shared")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (SharingStatus(connected=False, others=0, failure="no route"), f"pod {TWO} shares on its own: it does not rea"),
        (SharingStatus(connected=True, others=0), "it hears of 0 of 1 other pods"),
        (None, "it does not report whether it shares"),
    ],
)
def test_a_pool_of_which_one_does_not_hear_of_the_others_is_not(second: SharingStatus | None, said: str) -> None:
    status, reason, message = fairness(of_two(), HEARS, second)
    assert (status, reason) == ("False", "NotReached")
    assert said in message


def test_a_pool_of_which_nobody_has_reported_is_not() -> None:
    assert fairness(of_two())[:2] == ("False", "NotReached")


def test_until_the_second_engine_takes_requests_the_first_has_all_shares() -> None:
    """And once it does, its pod has to be known."""
    snapshot = of_two()
    one = put(snapshot, child(snapshot, Kind.DEPLOYMENT) | {"status": {"replicas": 2, "readyReplicas": 1}})
    alone = SharingStatus(connected=True, others=0)
    assert fairness(without(one, Ref(Kind.POD, "apps", TWO)), alone)[:2] == ("True", "SingleReplica")
    status, reason, message = fairness(without(snapshot, Ref(Kind.POD, "apps", TWO)), alone)
    assert (status, reason) == ("False", "NotReached")
    assert message.startswith("1 of 2 engines are known to share")


def test_a_pool_that_has_no_valkey_or_keeps_its_order_in_front_says_what_to_do() -> None:
    assert "set valkey (here or in the chart's values), or use 1 replica" in fairness(of_two(None), HEARS, HEARS)[2]
    in_front = fairness(of_two(policy="VTC", enforcement="Sidecar"), HEARS, HEARS)
    assert in_front[1] == "PerReplica"
    assert "set scheduling.enforcement to Engine, and valkey" in in_front[2]


@pytest.mark.parametrize(
    "valkey",
    [
        {"addresses": []},
        {"addresses": ["no port"]},
        {"addresses": ["a:1"], "kind": "Sentinel"},
        {"addresses": ["a:1"], "primaryName": "ours"},
    ],
)
def test_what_cannot_be_an_address_is_refused(valkey: Json) -> None:
    with pytest.raises(ValidationError):
        ServingPool.model_validate(pool(valkey=valkey))


INSTALLED = InstalledValkey(ValkeyConfig(pool="", addresses=("valkey.justitia-system:6379",), tls=True), "AUTHORITY")


def of_installation(*, replicas: int = 2, **spec: Any) -> Snapshot:
    """A pool that names no Valkey, where the installation has one."""
    made = world(tenant(), key(), pool(replicas=replicas, **spec), application())
    made = replace(made, installation=replace(INSTALLATION, valkey=INSTALLED))
    warm = settled(with_ready_engines(settled(made), replicas))
    return put(put(warm, pod(ONE)), pod(TWO))


def test_a_pool_of_several_engines_uses_the_installations_as_a_user_of_its_own() -> None:
    snapshot = of_installation()
    config = read_pool_config(child(snapshot, Kind.CONFIG_MAP))
    assert config is not None
    assert config.valkey == INSTALLED.server.model_copy(update={"pool": "uid-ServingPool-shared"})
    (user,) = pool_users([snapshot.objects[POOL]], ROOT)
    secret = child(snapshot, Kind.SECRET)["data"]
    told = {name: b64decode(secret[f"valkey-{name}"]).decode() for name in ("username", "password", "ca.crt")}
    assert told == {"username": user.name, "password": user.password, "ca.crt": "AUTHORITY"}
    spec = child(snapshot, Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    (volume,) = (v for v in spec["volumes"] if v["name"] == "valkey")
    assert {item["path"] for item in volume["secret"]["items"]} == set(told)
    assert fairness(snapshot, HEARS, HEARS)[:2] == ("True", "Shared")


def test_a_pool_of_one_engine_is_ready_for_it_and_does_not_use_it() -> None:
    one, two = of_installation(replicas=1), of_installation(replicas=2)
    config = read_pool_config(child(one, Kind.CONFIG_MAP))
    assert config is not None
    assert config.valkey is None
    templates = [child(each, Kind.DEPLOYMENT)["spec"]["template"] for each in (one, two)]
    assert templates[0] == templates[1]
    scaled = read_pool_config(child(of_installation(replicas=1, autoscaling={"maximumReplicas": 3}), Kind.CONFIG_MAP))
    assert scaled is not None
    assert scaled.valkey is not None


def test_a_pool_that_names_its_own_is_no_user_of_the_installations() -> None:
    snapshot = of_installation(valkey=VALKEY)
    config = read_pool_config(child(snapshot, Kind.CONFIG_MAP))
    assert config is not None
    assert config.valkey is not None
    assert config.valkey.addresses == ("valkey.shared:6379",)
    assert pool_users([snapshot.objects[POOL]], ROOT) == []
    assert not [name for name in child(snapshot, Kind.SECRET)["data"] if name.startswith("valkey")]


def test_an_order_in_front_of_the_engine_is_not_shared() -> None:
    config = read_pool_config(
        child(of_installation(scheduling={"policy": "VTC", "enforcement": "Sidecar"}), Kind.CONFIG_MAP)
    )
    assert config is not None
    assert config.valkey is None


def test_while_a_new_engine_takes_the_place_of_the_only_one_both_share_apart() -> None:
    made = world(tenant(), key(), pool(), application())
    surge = settled(with_ready_engines(settled(replace(made, installation=replace(INSTALLATION, valkey=INSTALLED))), 2))
    assert "while a new one takes the place" in fairness(surge)[2]
