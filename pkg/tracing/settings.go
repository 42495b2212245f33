package tracing

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Settings are part of a program's settings. What else OpenTelemetry's SDK reads
// from the environment (OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_EXPORTER_OTLP_CERTIFICATE, …) holds as well.
type Settings struct {
	Endpoint       string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"base URL of an OpenTelemetry collector, such as http://127.0.0.1:4318; default: no traces"`
	TracesEndpoint string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"URL for traces, in place of the base"`
	Headers        string `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"true" doc:"headers for the collector: name=value, comma-separated"`
	TracesHeaders  string `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" secret:"true" doc:"headers for traces, in place of those"`
	Protocol       string `env:"OTEL_EXPORTER_OTLP_PROTOCOL" default:"http/protobuf" doc:"the only supported protocol"`
	Exporter       string `env:"OTEL_TRACES_EXPORTER" default:"otlp" doc:"none disables traces"`
	Disabled       string `env:"OTEL_SDK_DISABLED" default:"false" doc:"true disables traces"`
}

// Validate checks what a setting's type does not, where traces are on.
func (s *Settings) Validate() error {
	if !s.on() {
		return nil
	}
	var errs []error
	if s.Protocol != "http/protobuf" {
		errs = append(errs, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is supported"))
	}
	if s.Exporter != "otlp" {
		errs = append(errs, errors.New("OTEL_TRACES_EXPORTER: is neither otlp nor none"))
	}
	if u, err := url.Parse(s.url()); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		name := "OTEL_EXPORTER_OTLP_ENDPOINT"
		if s.TracesEndpoint != "" {
			name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
		}
		errs = append(errs, fmt.Errorf("%s: is not of the form http://host:port", name))
	}
	if _, err := s.headers(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// on reports whether spans are sent. Of Disabled, only "true" means true (OpenTelemetry specification, "Boolean").
func (s *Settings) on() bool {
	return !strings.EqualFold(s.Disabled, "true") && s.Exporter != "none" &&
		(s.Endpoint != "" || s.TracesEndpoint != "")
}

// url returns where spans go (OpenTelemetry protocol exporter, "Endpoint URLs for OTLP/HTTP").
func (s *Settings) url() string {
	if s.TracesEndpoint != "" {
		return s.TracesEndpoint
	}
	return strings.TrimRight(s.Endpoint, "/") + "/v1/traces"
}

// headers reads name=value pairs, values percent-encoded (W3C Baggage). Its
// error does not quote them.
func (s *Settings) headers() (map[string]string, error) {
	setting := "OTEL_EXPORTER_OTLP_HEADERS"
	if s.TracesHeaders != "" {
		setting = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	}
	headers := map[string]string{}
	for pair := range strings.SplitSeq(cmp.Or(s.TracesHeaders, s.Headers), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%s: is not of the form name=value,name=value", setting)
		}
		headers[name] = value
	}
	return headers, nil
}
