package main

import (
	_ "embed" // the Caddyfile
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// configuration has settings that come from the environment.
//
//go:embed Caddyfile
var configuration string

// setting is how the Caddyfile names one: {$NAME} or {$NAME:default}.
var setting = regexp.MustCompile(`\{\$([A-Z_]+)`)

// prepare makes Caddy's command ours. A call without arguments becomes the run
// of the built-in Caddyfile, which Caddy reads from standard input because a
// container's file system may be read-only.
func prepare(version string) error {
	caddy.CustomBinaryName = "pforte-proxy"
	caddy.CustomVersion = version
	caddy.CustomLongDescription = "pforte-proxy is Caddy with Pforte's Caddyfile built in. " +
		"Without arguments it runs\nthat file with the settings of the environment; the commands are Caddy's own."
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "healthcheck",
		Short: "Checks that the proxy on this machine runs",
		Func:  healthcheck,
	})
	err := errors.Join(replicas("AUTH"), verification(), replicas("VERIFIER"), sites(), traces(), unsetEmpty())
	if err != nil {
		return err
	}
	if len(os.Args) > 1 {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pass the Caddyfile to Caddy: %w", err)
	}
	go func() {
		_, _ = io.WriteString(w, configuration) // fails only when the reader is closed
		_ = w.Close()
	}()
	os.Stdin = r
	os.Args = append(os.Args, "run", "--config", "-", "--adapter", "caddyfile")
	return nil
}

// unsetEmpty treats an empty setting as none, as in the other programs: to
// Caddy the two differ.
func unsetEmpty() error {
	for _, match := range setting.FindAllStringSubmatch(configuration, -1) {
		if os.Getenv(match[1]) != "" {
			continue
		}
		if err := os.Unsetenv(match[1]); err != nil {
			return fmt.Errorf("setting %s: %w", match[1], err)
		}
	}
	return nil
}

// verification selects by VERIFICATION_SWITCH whether there is a verifier. VERIFIER_UPSTREAM=off says that
// there is none.
func verification() error {
	if strings.TrimSpace(os.Getenv("VERIFIER_UPSTREAM")) != "off" {
		return os.Setenv("VERIFICATION_SWITCH", "on")
	}
	return errors.Join(os.Setenv("VERIFIER_UPSTREAM", ""), os.Setenv("VERIFICATION_SWITCH", "off"))
}

// replicas accepts the addresses of a service separated by spaces or commas, where
// Caddy wants spaces, and selects by NAME_REPLICAS the snippet of the Caddyfile
// that distributes requests over them.
func replicas(service string) error {
	addresses := strings.FieldsFunc(os.Getenv(service+"_UPSTREAM"), func(r rune) bool {
		return r == ',' || unicode.IsSpace(r)
	})
	several := "one"
	if len(addresses) > 1 {
		several = "several"
	}
	for name, value := range map[string]string{"_UPSTREAM": strings.Join(addresses, " "), "_REPLICAS": several} {
		if err := os.Setenv(service+name, value); err != nil {
			return fmt.Errorf("setting %s: %w", service+name, err)
		}
	}
	return nil
}

// sites accepts the addresses of the site separated by commas without a space, where
// Caddy wants one, and selects by REDIRECTS_SWITCH whether it sends http to one of them by https.
func sites() error {
	addresses := strings.FieldsFunc(os.Getenv("SITE_ADDRESS"), func(r rune) bool {
		return r == ',' || unicode.IsSpace(r)
	})
	redirects := "off"
	if slices.ContainsFunc(addresses, hasTLS) {
		redirects = "on"
	}
	for name, value := range map[string]string{
		"SITE_ADDRESS": strings.Join(addresses, ", "), "REDIRECTS_SWITCH": redirects,
	} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// hasTLS reports whether Caddy gives a site of this address a certificate: it names a host, and
// neither http nor its port.
func hasTLS(address string) bool {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	}
	rest, _, _ = strings.Cut(rest, "/")
	return scheme != "http" && !strings.HasPrefix(rest, ":") && !strings.HasSuffix(rest, ":80") && rest != ""
}

// traces selects by TRACING_SWITCH whether requests are traced: when the standard
// settings of OpenTelemetry name a collector, as in the services.
func traces() error {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" || os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return os.Setenv("TRACING_SWITCH", "off")
	}
	if os.Getenv("OTEL_SERVICE_NAME") == "" {
		if err := os.Setenv("OTEL_SERVICE_NAME", "proxy"); err != nil {
			return fmt.Errorf("setting OTEL_SERVICE_NAME: %w", err)
		}
	}
	return os.Setenv("TRACING_SWITCH", "on")
}
