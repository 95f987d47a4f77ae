"""The endpoint picker of a pod with a sidecar, for pools whose gateway asks it."""

from justitia_api.pool import ServingPool, ServingPoolSpec
from justitia_api.wire import PICKER_PORT
from justitia_operator.world.names import PICKER_CONTAINER
from justitia_operator.world.objects import Json

_DIRECTORY = "/picker"
PICKER_VOLUME: Json = {"name": "picker", "emptyDir": {"sizeLimit": "1Mi"}}
"""Has the socket between picker and sidecar."""
PICKER_MOUNT: Json = {"name": "picker", "mountPath": _DIRECTORY}
PICKER_SOCKET: Json = {"name": "JUSTITIA_PICKER_SOCKET", "value": f"{_DIRECTORY}/picker.sock"}


def picks(pool: ServingPoolSpec) -> bool:
    """Whether gateways ask the pool's own endpoint pickers."""
    return pool.gateway is not None and pool.gateway.endpoint_picker is not None and pool.gateway.endpoint_picker.own


def build_picker_container(pool: ServingPool, image: str, security: Json) -> Json:
    """Answers gateways, in a container of its own: what they send costs the sidecar neither memory nor time. It starts
    before the sidecar, and so ends after it: bytes of requests that other pods serve may pass through it.
    """
    return {
        "name": PICKER_CONTAINER,
        "image": image,
        "restartPolicy": "Always",
        "command": ["python", "-m", "justitia_sidecar.picker"],
        "env": [
            PICKER_SOCKET,
            {"name": "JUSTITIA_PICKER_PORT", "value": str(PICKER_PORT)},
            {"name": "JUSTITIA_PICKER_DRAIN_SECONDS", "value": str(pool.spec.engine.drain_seconds)},
            # Whoever fails to connect would write into the log.
            {"name": "GRPC_VERBOSITY", "value": "NONE"},
        ],
        "ports": [{"name": "picker", "containerPort": PICKER_PORT, "protocol": "TCP"}],
        "livenessProbe": {"tcpSocket": {"port": PICKER_PORT}, "periodSeconds": 5, "failureThreshold": 6},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": security,
        "volumeMounts": [PICKER_MOUNT],
    }
