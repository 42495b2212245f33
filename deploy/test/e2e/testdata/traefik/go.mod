// Traefik's ForwardAuth, as its release has it, with the routes of a file before it. The test
// puts Traefik's own files into this module; what is here stands for their logs and traces.
module github.com/traefik/traefik/v3

go 1.26.0

require (
	github.com/rs/zerolog v1.34.0
	github.com/vulcand/oxy/v2 v2.1.0
	github.com/vulcand/predicate v1.3.0
	go.opentelemetry.io/otel/trace v1.44.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/net v0.58.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gravitational/trace v1.5.1 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.19 // indirect
	go.opentelemetry.io/otel v1.44.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)
