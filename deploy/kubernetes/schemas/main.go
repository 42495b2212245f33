// Command schemas writes the schemas of the kinds that the manifests use, as the
// release of Kubernetes that it is given publishes them:
//
//	go run ./schemas v1.35.0 >testdata/schemas.json
//
// Descriptions and defaults are left out. What a schema does not name is
// forbidden, as `kubectl --validate=strict` does it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kinds are the schemas' names by apiVersion and kind.
var kinds = map[string]string{ //nolint:gosec // names
	"v1.ConfigMap":                           "io.k8s.api.core.v1.ConfigMap",
	"v1.Namespace":                           "io.k8s.api.core.v1.Namespace",
	"v1.Secret":                              "io.k8s.api.core.v1.Secret",
	"v1.Service":                             "io.k8s.api.core.v1.Service",
	"apps.v1.Deployment":                     "io.k8s.api.apps.v1.Deployment",
	"autoscaling.v2.HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
	"networking.k8s.io.v1.NetworkPolicy":     "io.k8s.api.networking.v1.NetworkPolicy",
	"policy.v1.PodDisruptionBudget":          "io.k8s.api.policy.v1.PodDisruptionBudget",
}

const reference = "#/components/schemas/"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("one version is needed, such as v1.35.0")
	}
	published, err := download(args[0])
	if err != nil {
		return err
	}
	used := map[string]any{}
	byKind := map[string]any{}
	for kind, name := range kinds {
		if err := collect(name, published, used); err != nil {
			return err
		}
		byKind[kind] = map[string]any{"$ref": "#/definitions/" + name}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	return encoder.Encode(map[string]any{"kubernetes": args[0], "kinds": byKind, "definitions": used})
}

// download reads all published schemas of a release from its Go module.
func download(version string) (map[string]any, error) {
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output() //nolint:gosec,noctx // a tool for the developer
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "api/openapi-spec/v3/*__v*_openapi.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, errors.New("the release has no schemas"))
	}
	all := map[string]any{}
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // of the module
		if err != nil {
			return nil, err
		}
		var document struct {
			Components struct {
				Schemas map[string]any `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(content, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for name, schema := range document.Components.Schemas {
			all[name] = schema
		}
	}
	return all, nil
}

// collect adds a schema and all that it refers to.
func collect(name string, published, used map[string]any) error {
	if _, done := used[name]; done {
		return nil
	}
	schema, ok := published[name].(map[string]any)
	if !ok {
		return fmt.Errorf("there is no schema %s", name)
	}
	if _, ok := schema["properties"]; ok {
		schema["additionalProperties"] = false
	}
	var refers []string
	used[name] = tidy(schema, &refers)
	for _, other := range refers {
		if err := collect(other, published, used); err != nil {
			return err
		}
	}
	return nil
}

// tidy leaves out what says nothing about validity, and notes references.
func tidy(v any, refers *[]string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = tidy(v[i], refers)
		}
	case map[string]any:
		for key, value := range v {
			text, isText := value.(string)
			switch {
			case key == "description" && isText, key == "default", strings.HasPrefix(key, "x-kubernetes-"):
				delete(v, key)
			case key == "$ref" && isText:
				name := strings.TrimPrefix(text, reference)
				*refers = append(*refers, name)
				v[key] = "#/definitions/" + name
			default:
				v[key] = tidy(value, refers)
			}
		}
	}
	return v
}
