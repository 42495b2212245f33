// Package kubernetes tests the manifests in its folders. It builds them as kubectl
// does, and kubeconform validates each object of base and of example, which includes
// autoscaling, against the schemas that Kubernetes publishes.
//
// It is a module of its own because kustomize's library is needed nowhere else.
package kubernetes
