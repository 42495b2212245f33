// Package kubernetes tests the manifests in base, autoscaling and example: it
// builds them as kubectl does, and kubeconform validates each object against the
// schemas that Kubernetes publishes.
//
// It is a module of its own because kustomize's library is needed nowhere else.
package kubernetes
