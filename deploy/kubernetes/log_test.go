package kubernetes

import (
	"strings"
	"testing"
)

func TestLog_IsAComponent(t *testing.T) {
	changed := tree(t)
	const file, components, files = "example/kustomization.yaml", "components: [../autoscaling]", "      - secrets/verifier/chain-rpc-urls\n"
	content, err := changed.ReadFile(file)
	if err != nil || !strings.Contains(string(content), components) || !strings.Contains(string(content), files) {
		t.Fatalf("%s has other components or files (%v)", file, err)
	}
	with := strings.NewReplacer(components, "components: [../autoscaling, ../log]", files, files+"      - secrets/verifier/log-key.pem\n      - secrets/verifier/log-policy\n").Replace(string(content))
	for name, text := range map[string]string{file: with, "example/secrets/verifier/log-key.pem": "not a secret", "example/secrets/verifier/log-policy": "quorum none"} {
		if err := changed.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := Build(changed, "example")
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(objects); err != nil {
		t.Fatal(err)
	}
	d := of[deployment](t, objects, "Deployment")["verifier"]
	given := configOf(t, objects, d)
	mounted := of[struct{ Data map[string]string }](t, objects, "Secret")[d.volume(d.container(t).mount("/secrets")).Secret.SecretName]
	for _, setting := range []string{"RECEIPT_LOG_KEY_FILE", "LOG_POLICY_FILE"} {
		if _, known := settings(t, "verifier")[setting]; !known {
			t.Errorf("the verifier knows no %s", setting)
		}
		if _, there := mounted.Data[strings.TrimPrefix(given[setting], "/secrets/")]; !there {
			t.Errorf("%s=%s is not in the Secret", setting, given[setting])
		}
		if without := configOf(t, build(t, "example"), of[deployment](t, build(t, "example"), "Deployment")["verifier"])[setting]; without != "" {
			t.Errorf("without the component it is %s", without)
		}
	}
	// The mark is for one process.
	if given["LOG_MARK_FILE"] != "" {
		t.Error("replicas share a mark")
	}
}
