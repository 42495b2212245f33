package kubernetes

import (
	"maps"
	"testing"
)

// The parts of Kubernetes's types that the tests look at.

type labels map[string]string

type selector struct{ MatchLabels labels }

// selects reports whether all wanted labels are there.
func selects(wanted, there labels) bool {
	for key, value := range wanted {
		if there[key] != value {
			return false
		}
	}
	return len(wanted) > 0
}

type deployment struct {
	Metadata struct{ Name string }
	Spec     struct {
		Replicas int
		Selector selector
		Template struct {
			Metadata struct{ Labels labels }
			Spec     pod
		}
	}
}

type pod struct {
	AutomountServiceAccountToken, EnableServiceLinks *bool
	TerminationGracePeriodSeconds                    int
	SecurityContext                                  struct {
		RunAsNonRoot       bool
		RunAsUser, FSGroup int
		SeccompProfile     struct{ Type string }
	}
	TopologySpreadConstraints []struct{ LabelSelector selector }
	Containers                []container
	Volumes                   []volume
}

type container struct {
	Name, Image string
	EnvFrom     []struct {
		ConfigMapRef struct{ Name string }
	}
	Ports []struct {
		Name          string
		ContainerPort int
	}
	StartupProbe, LivenessProbe, ReadinessProbe struct {
		HTTPGet struct{ Path, Port string }
	}
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool
		ReadOnlyRootFilesystem   bool
		Capabilities             struct{ Drop []string }
	}
	VolumeMounts []struct {
		Name, MountPath string
		ReadOnly        bool
	}
}

type volume struct {
	Name   string
	Secret struct{ SecretName string }
}

type service struct {
	Spec struct {
		Selector labels
		Ports    []struct {
			Port       int
			TargetPort string
		}
	}
}

func (d deployment) container(t *testing.T) container {
	t.Helper()
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%s has %d containers", d.Metadata.Name, n)
	}
	return d.Spec.Template.Spec.Containers[0]
}

func (d deployment) volume(name string) volume {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == name {
			return v
		}
	}
	return volume{}
}

func (c container) mount(path string) (name string) {
	for _, m := range c.VolumeMounts {
		if m.MountPath == path {
			return m.Name
		}
	}
	return ""
}

func (c container) port(name string) int {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// pods returns the labels of each Deployment's pods.
func pods(t *testing.T, objects []Object) map[string]labels {
	t.Helper()
	found := map[string]labels{}
	for name, d := range of[deployment](t, objects, "Deployment") {
		found[name] = maps.Clone(d.Spec.Template.Metadata.Labels)
	}
	return found
}
