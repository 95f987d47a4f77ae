"""The pods' network: one bridge, whose address is the node's and the API server's. kube-proxy's tables make Services.

There is no address translation to the outside: pods reach each other, the machine and Services, and nothing else.
"""

import ipaddress
import json
import subprocess
from pathlib import Path

from justitia_e2e.machine import ClusterError, State, run

BRIDGE = "justitia0"
PODS = ipaddress.ip_network("10.199.0.0/24")
SERVICES = ipaddress.ip_network("10.198.0.0/24")
NODE_ADDRESS = str(PODS[1])
NETWORK = "justitia-e2e"
PLUGINS = Path("/usr/lib/cni")
RESULTS = Path("/var/lib/cni/results")
TABLE = "kube-proxy"


def check_network() -> None:
    """Raises ClusterError if our network would overlap another. Changes nothing."""
    for route in json.loads(run(["ip", "-json", "-4", "route"])):
        taken = route["dst"]
        if taken != "default" and any(ipaddress.ip_network(taken).overlaps(ours) for ours in (PODS, SERVICES)):
            raise ClusterError(
                f"the network {taken} is in use here (ip route), and the cluster needs {PODS}, {SERVICES}"
            )
    if _tables():
        raise ClusterError(
            f"another kube-proxy has its tables here (nft list table ip {TABLE}): stop that cluster first"
        )


def ensure_bridge() -> None:
    if subprocess.run(["ip", "link", "show", BRIDGE], capture_output=True, check=False).returncode:
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        run(["ip", "address", "add", f"{NODE_ADDRESS}/{PODS.prefixlen}", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def write_plugin_configuration(state: State) -> Path:
    """Write the configuration of the network plug-in. Returns the folder that containerd reads."""
    folder = state.root / "cni"
    folder.mkdir(exist_ok=True)
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(PODS), "gateway": NODE_ADDRESS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(state.root / "addresses"),
        },
    }
    document = {"cniVersion": "0.4.0", "name": NETWORK, "plugins": [bridge]}
    (folder / "10-bridge.conflist").write_text(json.dumps(document, indent=2))
    return folder


def remove_network() -> None:
    for family in _tables():
        run(["nft", "delete", "table", family, TABLE])
    if not subprocess.run(["ip", "link", "show", BRIDGE], capture_output=True, check=False).returncode:
        run(["ip", "link", "delete", BRIDGE])
    for result in RESULTS.glob(f"{NETWORK}-*"):
        result.unlink()


def _tables() -> list[str]:
    """The families of kube-proxy's tables."""
    listed = json.loads(run(["nft", "--json", "list", "tables"]))["nftables"]
    tables = [entry["table"] for entry in listed if "table" in entry]
    return [table["family"] for table in tables if table["name"] == TABLE]
