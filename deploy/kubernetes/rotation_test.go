package kubernetes

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Without the earlier one of each, a new secret logs everybody out, makes the receipts that were
// sold worthless, or every authenticator app.
func TestSecrets_AreReplacedBesideTheEarlierOne(t *testing.T) {
	objects := build(t, "example")
	deployments := of[deployment](t, objects, "Deployment")
	for service, settings := range map[string][]string{
		"auth": {"SESSION_SECRET_PREVIOUS_FILE", "DATA_KEY_PREVIOUS_FILE"}, "verifier": {"RECEIPT_RETIRED_KEYS_FILE"},
	} {
		given := configOf(t, objects, deployments[service])
		for _, name := range settings {
			if given[name] == "" {
				t.Errorf("%s has no %s", service, name)
			}
		}
	}
}

// An autoscaler sets the replicas: where a manifest has them too, each apply sets them back.
func TestReplicas_AreSetByTheAutoscalerAlone(t *testing.T) {
	objects := build(t, "example")
	scaled := []string{}
	type autoscaler struct {
		Spec struct {
			ScaleTargetRef struct{ Name string }
			MinReplicas    int
		}
	}
	for _, a := range of[autoscaler](t, objects, "HorizontalPodAutoscaler") {
		scaled = append(scaled, a.Spec.ScaleTargetRef.Name)
		if a.Spec.MinReplicas < 2 {
			t.Errorf("%s has at least %d", a.Spec.ScaleTargetRef.Name, a.Spec.MinReplicas)
		}
	}
	if len(scaled) < 2 {
		t.Fatalf("scaled are %v", scaled)
	}
	for _, folder := range []string{"example", "base"} {
		for _, d := range of[deployment](t, build(t, folder), "Deployment") {
			name := d.container(t).Name
			if has := d.Spec.Replicas != 0; has == (folder == "example" && slices.Contains(scaled, name)) {
				t.Errorf("%s: %s has replicas: %v", folder, name, has)
			}
		}
	}
}

// The README's policies are added to those of the base where names are resolved by another server
// than kube-dns, and where the proxy leads to applications.
func TestPolicies_OfThePageAreRight(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	manifest, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has none")
	}
	files := tree(t)
	for name, content := range map[string]string{"site/network.yaml": manifest, "site/kustomization.yaml": "resources: [../base, network.yaml]\n"} {
		if err := files.WriteFile(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := Build(files, "site")
	if err == nil {
		err = Validate(objects)
	}
	if err != nil {
		t.Fatal(err)
	}
	policies := of[policy](t, objects, "NetworkPolicy")
	all := pods(t, objects)
	toWiki := policies["proxy-applications"].Spec
	if !selects(toWiki.PodSelector.MatchLabels, all["proxy"]) || selects(toWiki.PodSelector.MatchLabels, all["auth"]) ||
		!slices.ContainsFunc(toWiki.Egress, func(r rule) bool {
			return r.has(8080) && len(r.To) == 1 && selects(r.To[0].PodSelector.MatchLabels, labels{"app.kubernetes.io/name": "wiki"})
		}) {
		t.Error("the proxy does not reach an application")
	}
	if !slices.ContainsFunc(policies["dns-node"].Spec.Egress, func(r rule) bool {
		return r.has(53) && len(r.To) == 1 && r.To[0].IPBlock != nil && r.To[0].IPBlock.CIDR == "169.254.20.10/32"
	}) {
		t.Errorf("names are not resolved: %+v", policies["dns-node"])
	}
}
