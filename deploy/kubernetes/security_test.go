package kubernetes

import (
	"slices"
	"strings"
	"testing"
)

func TestPods_HaveNoNeedlessPrivileges(t *testing.T) {
	for name, d := range of[deployment](t, build(t, "example"), "Deployment") {
		p, c := d.Spec.Template.Spec, d.container(t)
		switch {
		case !p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser != 65532:
			t.Errorf("%s runs as %d", name, p.SecurityContext.RunAsUser)
		case p.SecurityContext.SeccompProfile.Type != "RuntimeDefault":
			t.Errorf("%s has no seccomp profile", name)
		case p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken:
			t.Errorf("%s has a token for the cluster", name)
		case p.EnableServiceLinks == nil || *p.EnableServiceLinks:
			t.Errorf("%s gets the variables of Services", name)
		case c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation:
			t.Errorf("%s may gain privileges", name)
		case !c.SecurityContext.ReadOnlyRootFilesystem:
			t.Errorf("%s may write into its image", name)
		case !slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL"):
			t.Errorf("%s has capabilities", name)
		case c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "":
			t.Errorf("%s has no resources", name)
		}
		for _, m := range c.VolumeMounts {
			if m.MountPath == "/secrets" && !m.ReadOnly {
				t.Errorf("%s may write its secrets", name)
			}
		}
	}
}

func TestPods_AreProbedAndSpread(t *testing.T) {
	for name, d := range of[deployment](t, build(t, "base"), "Deployment") {
		c, p := d.container(t), d.Spec.Template.Spec
		for _, probe := range []struct{ Path, Port string }{c.StartupProbe.HTTPGet, c.LivenessProbe.HTTPGet} {
			if probe.Path != "/livez" || probe.Port != "admin" {
				t.Errorf("%s: liveness is checked at %+v", name, probe)
			}
		}
		if ready := c.ReadinessProbe.HTTPGet; ready.Path == "" || c.port(ready.Port) == 0 {
			t.Errorf("%s: readiness is checked at %+v", name, ready)
		}
		if d.Spec.Replicas < 2 || len(p.TopologySpreadConstraints) == 0 {
			t.Errorf("%s: %d replicas that may be on one node", name, d.Spec.Replicas)
		}
		for _, spread := range p.TopologySpreadConstraints {
			if !selects(spread.LabelSelector.MatchLabels, d.Spec.Template.Metadata.Labels) {
				t.Errorf("%s spreads other pods", name)
			}
		}
		if !selects(d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels) {
			t.Errorf("%s selects other pods", name)
		}
	}
}

func TestDeployments_HaveADisruptionBudget(t *testing.T) {
	objects := build(t, "example")
	type budget struct {
		Spec struct {
			MaxUnavailable int
			Selector       selector
		}
	}
	for name, own := range pods(t, objects) {
		b := of[budget](t, objects, "PodDisruptionBudget")[name]
		if b.Spec.MaxUnavailable != 1 || !selects(b.Spec.Selector.MatchLabels, own) {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

type peer struct {
	PodSelector, NamespaceSelector *selector
	IPBlock                        *struct {
		CIDR   string
		Except []string
	}
}

type rule struct {
	From, To []peer
	Ports    []struct{ Port int }
}

func (r rule) has(port int) bool {
	return len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p struct{ Port int }) bool { return p.Port == port })
}

type policy struct {
	Spec struct {
		PodSelector     selector
		PolicyTypes     []string
		Ingress, Egress []rule
	}
}

func TestNetwork_IsDeniedUnlessAllowed(t *testing.T) {
	deny, ok := of[policy](t, build(t, "example"), "NetworkPolicy")["default-deny"]
	if !ok || len(deny.Spec.PodSelector.MatchLabels) != 0 || len(deny.Spec.Ingress)+len(deny.Spec.Egress) != 0 ||
		!slices.Contains(deny.Spec.PolicyTypes, "Ingress") || !slices.Contains(deny.Spec.PolicyTypes, "Egress") {
		t.Errorf("the default is %+v", deny.Spec)
	}
}

// allowed reports whether a pod gets through to a port of another.
func allowed(policies map[string]policy, from, to labels, port int) bool {
	reaches := func(peers []peer, other labels) bool {
		return len(peers) == 0 || slices.ContainsFunc(peers, func(p peer) bool {
			return p.PodSelector != nil && p.NamespaceSelector == nil && selects(p.PodSelector.MatchLabels, other)
		})
	}
	var out, in bool
	for _, p := range policies {
		for _, r := range p.Spec.Egress {
			out = out || selects(p.Spec.PodSelector.MatchLabels, from) && reaches(r.To, to) && r.has(port)
		}
		for _, r := range p.Spec.Ingress {
			in = in || selects(p.Spec.PodSelector.MatchLabels, to) && reaches(r.From, from) && r.has(port)
		}
	}
	return out && in
}

func TestNetwork_OnlyTheProxyReachesTheServices(t *testing.T) {
	objects := build(t, "example")
	policies, all := of[policy](t, objects, "NetworkPolicy"), pods(t, objects)
	all["stranger"] = labels{"app.kubernetes.io/name": "stranger"}
	ports := map[string][]int{"auth": {8081, 9081}, "verifier": {8082, 9082}, "proxy": {8080, 9080}}
	for from := range all {
		for to, numbers := range ports {
			for _, number := range numbers {
				want := from == "proxy" && to != "proxy" && number < 9000
				if got := allowed(policies, all[from], all[to], number); got != want {
					t.Errorf("%s to %s:%d: allowed is %v", from, to, number, got)
				}
			}
		}
	}
}

func TestNetwork_EgressIsHTTPSOutOfTheCluster(t *testing.T) {
	for name, p := range of[policy](t, build(t, "example"), "NetworkPolicy") {
		for _, r := range p.Spec.Egress {
			for _, to := range r.To {
				if to.IPBlock == nil {
					continue
				}
				if name != "verifier" || len(r.Ports) != 1 || r.Ports[0].Port != 443 {
					t.Errorf("%s may reach %s at %v", name, to.IPBlock.CIDR, r.Ports)
				}
				if except := strings.Join(to.IPBlock.Except, " "); !strings.Contains(except, "169.254.0.0/16") && !strings.Contains(except, "fe80::/10") {
					t.Errorf("%s may reach the metadata of the cloud", name)
				}
			}
		}
	}
}
