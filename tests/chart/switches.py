"""Values that switch parts of the chart on, together as far as they go together."""

EVERYTHING = (
    "--set=replicas=2",
    "--set=image.registry=mirror.example",
    "--set=image.tag=0.1.0@sha256:" + "0" * 64,
    "--set=imagePullSecrets[0].name=mirror",
    "--set=sidecarImage=mirror.example/sidecar:0.1.0",
    "--set=modelCache.nodePath=/var/models",
    "--set=inlinePools.images={mirror.example/vllm/}",
    "--set=inlinePools.fields={engine.args,engine.env}",
    "--set=valkey.enabled=true",
    "--set=metrics.namespace=monitoring",
    "--set=metrics.podMonitors=true",
    "--set=metrics.alertRules=true",
    "--set=extraLabels.team=platform",
    "--set=extraAnnotations.contact=oncall",
    "--set=priorityClassName=system-cluster-critical",
    "--set=nodeSelector.role=infra",
    "--set=tolerations[0].key=infra,tolerations[0].operator=Exists",
    "--set=affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=zone",
    "--set=affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
)
WATCHED = ("team-a", "team-b")
SOME_NAMESPACES = (
    f"--set=watchNamespaces={{{','.join(WATCHED)}}}",
    "--set=metrics.podMonitors=true",
    "--set=valkey.addresses={valkey.shared:26379},valkey.kind=Sentinel,valkey.primaryName=ours",
    "--set=valkey.tls=true,valkey.secretName=valkey-login",
)

SWITCHES = {"plain": (), "everything": EVERYTHING, "some-namespaces": SOME_NAMESPACES}
