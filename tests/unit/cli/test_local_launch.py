"""The sidecar's container as a process."""

from pathlib import Path

from justitia_cli.local.launch import Ports, sidecar_launch
from justitia_operator.world.objects import Kind
from support.resources import child, pool, put, settled, small_world


def test_nothing_of_a_local_sidecar_is_in_a_pods_folders(tmp_path: Path) -> None:
    gateway = {"parentRefs": [{"name": "inference"}], "endpointPicker": {}}
    deployment = child(settled(put(small_world(), pool(gateway=gateway))), Kind.DEPLOYMENT)
    config, keys = tmp_path / "pool.json", tmp_path / "keys.json"
    environment = sidecar_launch(deployment, config, keys, Ports(1, 2, 3), tmp_path / "plugin").environment
    folders = [value for value in environment.values() if value.startswith("/")]
    assert folders
    assert [value for value in folders if not Path(value).is_relative_to(tmp_path)] == []
