// Package manifests checks the examples that cannot be run here: the manifests for Kubernetes
// decode strictly into the types of its API, the overlays build, Envoy's configuration decodes
// strictly into its messages, and Kong's plugin makes the request that is in testdata.
package manifests
