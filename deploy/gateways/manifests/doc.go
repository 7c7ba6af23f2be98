// Package manifests checks the examples that cannot be run here: the manifests for Kubernetes
// decode strictly into the types of its API, the overlays build, Envoy's configuration decodes
// strictly into its messages, and Kong's plugin makes the request that is in testdata. The newest
// Prometheus scrapes a node as docs/metrics.md says, and the dashboard decodes strictly into
// Grafana's types.
package manifests
