package kubernetes

import (
	"bytes"
	_ "embed" // the schemas
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// schemas are those of Kubernetes, of the kinds that the manifests use. To renew
// them: go run ./schemas VERSION >testdata/schemas.json
//
//go:embed testdata/schemas.json
var schemas []byte

// Object is one built object.
type Object struct {
	Kind, Name string
	// YAML is the whole object.
	YAML []byte
	// Fields is the same as JSON's types.
	Fields map[string]any
}

// Build does what `kubectl kustomize FOLDER` does.
func Build(fs filesys.FileSystem, folder string) ([]Object, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, folder)
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

// Validate holds objects against the schemas: a field that Kubernetes does not
// know, a value of the wrong type and a field that is missing are faults, and so
// is a kind without a schema.
func Validate(objects []Object) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas))
	if err != nil {
		return fmt.Errorf("the schemas: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schemas.json", document); err != nil {
		return fmt.Errorf("the schemas: %w", err)
	}
	var faults []error
	for _, object := range objects {
		version, _ := object.Fields["apiVersion"].(string)
		name := strings.ReplaceAll(version+"."+object.Kind, "/", ".")
		schema, err := compiler.Compile("schemas.json#/kinds/" + name)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: no schema for %s", object.Kind, object.Name, name))
			continue
		}
		if err := schema.Validate(object.Fields); err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", object.Kind, object.Name, err))
		}
	}
	return errors.Join(faults...)
}
