#!/bin/sh
# Writes the schemas of the kinds that the manifests use, as a release of Kubernetes
# publishes them, for kubeconform: ./schemas.sh v1.35.0 >testdata/schemas.json
#
# Descriptions and defaults are left out. What a schema does not name is forbidden,
# as `kubectl --validate=strict` does it. Needs Go and jq.
set -eu
dir=$(go mod download -json "k8s.io/kubernetes@${1:?which release}" | jq -r .Dir)
jq --indent 1 --slurp --arg version "$1" '
	{
		"v1 ConfigMap": "io.k8s.api.core.v1.ConfigMap",
		"v1 Namespace": "io.k8s.api.core.v1.Namespace",
		"v1 Secret": "io.k8s.api.core.v1.Secret",
		"v1 Service": "io.k8s.api.core.v1.Service",
		"apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment",
		"autoscaling/v2 HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
		"networking.k8s.io/v1 NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
		"policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget"
	} as $kinds
	| (map(.components.schemas) | add) as $all
	| def refs: [.. | objects | .["$ref"] // empty | strings | ltrimstr("#/components/schemas/")];
	def used: . as $names | ($names + [$names[] | $all[.] | refs[]] | unique) as $more | if $more == $names then . else $more | used end;
	def tidy:
		if type == "array" then map(tidy)
		elif type == "object" then with_entries(
			select((.key == "description" and (.value | type) == "string" or .key == "default" or (.key | startswith("x-kubernetes-"))) | not)
			| if .key == "$ref" then .value |= sub("^#/components/schemas/"; "#/definitions/") else .value |= tidy end)
		else . end;
	def strict: if has("properties") then .additionalProperties = false else . end;
	{
		kubernetes: $version,
		oneOf: ($kinds | to_entries | map((.key | split(" ")) as [$version, $kind] | {allOf: [
			{properties: {apiVersion: {enum: [$version]}, kind: {enum: [$kind]}}, required: ["apiVersion", "kind"]},
			{"$ref": ("#/definitions/" + .value)}]})),
		definitions: ([$kinds[]] | unique | used | map({key: ., value: ($all[.] | tidy | strict)}) | from_entries)
	}' "$dir"/api/openapi-spec/v3/*__v*_openapi.json
