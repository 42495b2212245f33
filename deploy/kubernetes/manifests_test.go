package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Object is one built object.
type Object struct {
	Kind, Name string
	// YAML is the whole object.
	YAML []byte
	// Fields is the same as JSON's types.
	Fields map[string]any
}

// Build does what `kubectl kustomize FOLDER` does.
func Build(files filesys.FileSystem, folder string) ([]Object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", folder, err)
	}
	var objects []Object
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		fields, err := resource.Map()
		if err != nil {
			return nil, err
		}
		objects = append(objects, Object{Kind: resource.GetKind(), Name: resource.GetName(), YAML: text, Fields: fields})
	}
	return objects, nil
}

// Validate does what `kubeconform -schema-location testdata/schemas.json` does.
func Validate(objects []Object) error {
	conform, err := validator.New([]string{"testdata/schemas.json"}, validator.Opts{Strict: true})
	if err != nil {
		return err
	}
	var faults []error
	for _, object := range objects {
		for _, result := range conform.Validate(object.Name, io.NopCloser(bytes.NewReader(object.YAML))) {
			if result.Status != validator.Valid {
				faults = append(faults, fmt.Errorf("%s %s: %w", object.Kind, object.Name, result.Err))
			}
		}
	}
	return errors.Join(faults...)
}

// secretFiles are what example/secrets/README.md names.
var secretFiles = []string{
	"auth/session-secret", "auth/session-secret-previous", "auth/data-key", "auth/data-key-previous", "auth/database-url", "auth/redis-url",
	"verifier/receipt-key.pem", "verifier/retired-keys.json", "verifier/database-url", "verifier/chain-rpc-urls",
}

// tree is a copy of the manifests with secrets, for a test to change.
func tree(t *testing.T) filesys.FileSystem {
	t.Helper()
	copied := filesys.MakeFsInMemory()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return copied.WriteFile(path, content)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range secretFiles {
		if err := copied.WriteFile(filepath.Join("example/secrets", file), []byte("not a secret")); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// built are the objects of each folder; no test changes them.
var built sync.Map

func build(t *testing.T, folder string) []Object {
	t.Helper()
	if objects, ok := built.Load(folder); ok {
		return objects.([]Object)
	}
	objects, err := Build(tree(t), folder)
	if err != nil {
		t.Fatal(err)
	}
	built.Store(folder, objects)
	return objects
}

// as reads an object into a type of the test's own.
func as[T any](t *testing.T, o Object) T {
	t.Helper()
	text, err := json.Marshal(o.Fields)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s %s: %v", o.Kind, o.Name, err)
	}
	return v
}

func of[T any](t *testing.T, objects []Object, kind string) map[string]T {
	t.Helper()
	found := map[string]T{}
	for _, o := range objects {
		if o.Kind == kind {
			found[o.Name] = as[T](t, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("there is no %s", kind)
	}
	return found
}

func TestManifests_AreValid(t *testing.T) {
	for folder, least := range map[string]int{"base": 18, "example": 23} {
		objects := build(t, folder)
		if err := Validate(objects); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
		if len(objects) < least {
			t.Errorf("%s has %d objects", folder, len(objects))
		}
	}
}

func TestManifests_ThatAreBrokenAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new string }{
		"a field that does not exist":     {"base/auth.yaml", "readOnlyRootFilesystem:", "readOnlyRootFileSystem:"},
		"a value of the wrong type":       {"base/proxy.yaml", "replicas: 2", "replicas: two"},
		"a number in place of a text":     {"base/proxy.yaml", "name: http, containerPort: 8080", "name: 80, containerPort: 8080"},
		"a field that must be there":      {"base/verifier.yaml", "        - name: verifier\n          image:", "        - image:"},
		"a field in the wrong place":      {"base/verifier.yaml", "      automountServiceAccountToken: false", "      periodSeconds: 2"},
		"a kind that does not exist":      {"base/network.yaml", "kind: NetworkPolicy", "kind: NetworkPolice"},
		"a version that does not exist":   {"base/auth.yaml", "policy/v1", "policy/v1beta1"},
		"a patch for what is not there":   {"example/kustomization.yaml", "name: verifier\n    behavior: merge", "name: verify\n    behavior: merge"},
		"a file that is not there":        {"base/kustomization.yaml", "network.yaml]", "networks.yaml]"},
		"a target of the wrong type":      {"autoscaling/autoscaling.yaml", "averageUtilization: 70", `averageUtilization: "70%"`},
		"a list in place of a list's one": {"base/network.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: Ingress"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := tree(t)
			content, err := changed.ReadFile(c.file)
			if err != nil || !strings.Contains(string(content), c.old) {
				t.Fatalf("%s has no %q (%v)", c.file, c.old, err)
			}
			if err := changed.WriteFile(c.file, []byte(strings.Replace(string(content), c.old, c.new, 1))); err != nil {
				t.Fatal(err)
			}
			objects, err := Build(changed, "example")
			if err == nil {
				err = Validate(objects)
			}
			if err == nil {
				t.Error("it is taken")
			}
		})
	}
}

func TestSecrets_AreNotInTheRepository(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "kind: Secret") || strings.Contains(string(content), "literals: [pass") {
			t.Errorf("%s has a Secret; kustomize makes them of files", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("example/secrets/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range secretFiles {
		if !strings.Contains(string(readme), "`"+file+"`") {
			t.Errorf("the README does not name %s", file)
		}
	}
}
