package kubernetes

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
)

const collector = "OTEL_EXPORTER_OTLP_ENDPOINT"

// traced are the objects of the example with the component for traces.
func traced(t *testing.T) []Object {
	t.Helper()
	changed := tree(t)
	const file, without = "example/kustomization.yaml", "components: [../autoscaling]"
	content, err := changed.ReadFile(file)
	if err != nil || !strings.Contains(string(content), without) {
		t.Fatalf("%s has other components (%v)", file, err)
	}
	with := strings.Replace(string(content), without, "components: [../autoscaling, ../traces]", 1)
	if err := changed.WriteFile(file, []byte(with)); err != nil {
		t.Fatal(err)
	}
	objects, err := Build(changed, "example")
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(objects); err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestTraces_LeaveTheClusterOnlyIfConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		objects []Object
		want    bool
	}{"with the component": {traced(t), true}, "without": {build(t, "example"), false}} {
		policies, all := of[policy](t, c.objects, "NetworkPolicy"), pods(t, c.objects)
		for _, d := range of[deployment](t, c.objects, "Deployment") {
			program := d.container(t).Name
			given := configOf(t, c.objects, d)[collector]
			if (given != "") != c.want {
				t.Errorf("%s: %s sends traces to %q", name, program, given)
			}
			if leaves(policies, all[program], 4318) != c.want {
				t.Errorf("%s: %s reaches the collector: %v", name, program, !c.want)
			}
			if at, err := url.Parse(given); err != nil || c.want && at.Port() != strconv.Itoa(4318) {
				t.Errorf("%s: the policy does not let %s out to %s", name, program, given)
			}
			if _, known := settings(t, program)[collector]; !known {
				t.Errorf("%s knows no %s", program, collector)
			}
		}
	}
}

// leaves reports whether a pod gets out to a collector of another namespace.
func leaves(policies map[string]policy, from labels, port int) bool {
	to := labels{"app.kubernetes.io/name": "opentelemetry-collector"}
	for _, p := range policies {
		for _, r := range p.Spec.Egress {
			for _, peer := range r.To {
				if selects(p.Spec.PodSelector.MatchLabels, from) && peer.NamespaceSelector != nil && peer.PodSelector != nil &&
					selects(peer.PodSelector.MatchLabels, to) && r.has(port) {
					return true
				}
			}
		}
	}
	return false
}

func TestMonitoring_ReachesTheInternalPortsOnly(t *testing.T) {
	objects := build(t, "example")
	policies, all := of[policy](t, objects, "NetworkPolicy"), pods(t, objects)
	monitored := func(to labels, port int) bool {
		for _, p := range policies {
			for _, r := range p.Spec.Ingress {
				for _, peer := range r.From {
					if peer.NamespaceSelector != nil && peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] == "monitoring" &&
						selects(p.Spec.PodSelector.MatchLabels, to) && r.has(port) {
						return true
					}
				}
			}
		}
		return false
	}
	for _, d := range of[deployment](t, objects, "Deployment") {
		c := d.container(t)
		if !monitored(all[c.Name], c.port("admin")) || monitored(all[c.Name], c.port("http")) {
			t.Errorf("%s: monitoring reaches admin %v, http %v", c.Name, monitored(all[c.Name], c.port("admin")), monitored(all[c.Name], c.port("http")))
		}
	}
}
