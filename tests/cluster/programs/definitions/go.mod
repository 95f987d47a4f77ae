module justitia.dev/tests/cluster/definitions

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.21.0 // indirect
	github.com/prometheus-operator/prometheus-operator v0.85.0 // indirect
	sigs.k8s.io/gateway-api v1.6.2 // indirect
	sigs.k8s.io/gateway-api-inference-extension v1.5.0 // indirect
	sigs.k8s.io/lws v0.9.0 // indirect
)
