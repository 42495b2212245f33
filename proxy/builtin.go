package main

import (
	"cmp"
	_ "embed" // the Caddyfile
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// configuration is the built-in Caddyfile. Its settings come from the environment.
//
//go:embed Caddyfile
var configuration string

// setting matches the beginning of a setting in the Caddyfile: {$NAME} or {$NAME:default}.
var setting = regexp.MustCompile(`\{\$([A-Z_]+)`)

// prepare makes Caddy's command ours, and checks and completes the settings of the environment. A call without
// arguments becomes the run of the built-in Caddyfile, which Caddy reads from standard input because a container's
// file system may be read-only; "check" only checks that it would start.
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
	err := errors.Join(replicas("AUTH"), verification(), replicas("VERIFIER"), applications(), routes(), noPaths(),
		certificates(), sites(), traces(), unsetEmpty())
	if err != nil {
		return err
	}
	command := "run"
	switch {
	case slices.Equal(os.Args[1:], []string{"check"}):
		command = "validate"
	case len(os.Args) > 1:
		return nil
	}
	if err := wholeRoutes(); err != nil {
		return err
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
	os.Args = append(os.Args[:1], command, "--config", "-", "--adapter", "caddyfile")
	return nil
}

// unsetEmpty unsets the settings of the Caddyfile that are empty, so that they have their defaults, as
// in the other programs. Caddy would take them as set.
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

// verification sets VERIFICATION_SWITCH, which selects whether the Caddyfile has a verifier.
// VERIFIER_UPSTREAM=off means that there is none.
func verification() error {
	if strings.TrimSpace(os.Getenv("VERIFIER_UPSTREAM")) != "off" {
		return os.Setenv("VERIFICATION_SWITCH", "on")
	}
	return errors.Join(os.Setenv("VERIFIER_UPSTREAM", ""), os.Setenv("VERIFICATION_SWITCH", "off"))
}

// applications sets APPS_SWITCH, which selects whether the Caddyfile has a list of applications, and accepts commas
// in APPS_TO, where Caddy wants spaces.
func applications() error {
	mode := os.Getenv("APPS")
	return errors.Join(os.Setenv("APPS_SWITCH", onOff(mode != "" && mode != "off")),
		os.Setenv("APPS_TO", strings.Join(fields(os.Getenv("APPS_TO")), " ")))
}

// routes sets ROUTES_SWITCH, which selects whether the Caddyfile has files with routes.
func routes() error { return os.Setenv("ROUTES_SWITCH", onOff(os.Getenv("ROUTES_FOLDER") != "")) }

// wholeRoutes checks that the text of the operator is whole: ROUTES, and the files of ROUTES_FOLDER. They count at the
// start alone, so that other commands do not read them: a file that is being edited is no fault of a running proxy.
func wholeRoutes() error {
	faults := []error{whole("ROUTES", os.Getenv("ROUTES"))}
	if folder := os.Getenv("ROUTES_FOLDER"); folder != "" {
		files, _ := filepath.Glob(filepath.Join(folder, "*.caddy"))
		for _, file := range files {
			// Caddy says what is wrong with a folder or file that cannot be read.
			if text, err := os.ReadFile(file); err == nil { //nolint:gosec // the operator's
				faults = append(faults, whole(file, string(text)))
			}
		}
	}
	return errors.Join(faults...)
}

// whole returns an error with the line where a brace or a quotation mark of text is open or closes nothing. Caddy,
// which reads text inside the built-in file, would name a line of that file, far behind. Text may have secrets: no
// line is quoted.
func whole(name, text string) error {
	const end = "end-of-text"
	fault := func(line int, what string) error { return fmt.Errorf("%s, line %d: %s", name, line, what) }
	tokens, err := caddyfile.Tokenize([]byte(text+"\n"+end), name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	last := len(tokens) - 1
	if tokens[last].Text != end {
		return fault(tokens[last].Line, "a quotation mark is not closed")
	}
	var open []int // lines
	for i, t := range tokens[:last] {
		switch {
		case t.Quoted():
		case t.Text == "{":
			if i == 0 || tokens[i-1].Line+tokens[i-1].NumLineBreaks() < t.Line {
				return fault(t.Line, "{ stands at the end of a line")
			}
			if tokens[i+1].Line == t.Line {
				return fault(t.Line, "what follows { begins a new line")
			}
			open = append(open, t.Line)
		case t.Text == "}" && len(open) == 0:
			return fault(t.Line, "} closes nothing")
		case t.Text == "}":
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return fault(open[len(open)-1], "{ is not closed")
	}
	return nil
}

// fields returns what is separated by spaces or commas.
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// replicas accepts commas or spaces between the addresses of a service, where Caddy wants spaces.
// It sets AUTH_REPLICAS or VERIFIER_REPLICAS, which selects the snippet of the Caddyfile that
// distributes requests over them.
func replicas(service string) error {
	addresses := fields(os.Getenv(service + "_UPSTREAM"))
	several := "one"
	if len(addresses) > 1 {
		several = "several"
	}
	return errors.Join(os.Setenv(service+"_UPSTREAM", strings.Join(addresses, " ")),
		os.Setenv(service+"_REPLICAS", several))
}

// noPaths takes the slash off the end of the site's addresses, which a browser shows, and refuses a path: Caddy would
// answer at that path alone, and nothing at all others.
func noPaths() error {
	addresses := fields(os.Getenv("SITE_ADDRESS"))
	for i, address := range addresses {
		if !strings.HasSuffix(address, "://") { // all hosts
			addresses[i] = strings.TrimSuffix(address, "/")
		}
		if host, port := splitAddress(addresses[i]); strings.Contains(host+port, "/") {
			return fmt.Errorf("SITE_ADDRESS has %s: it is a host, a port or both, after http://, https:// or neither",
				address)
		}
	}
	return os.Setenv("SITE_ADDRESS", strings.Join(addresses, " "))
}

// sites accepts addresses of the site that are separated by commas alone, where Caddy wants a space too. It puts
// http:// before an address that is a port alone, but for 443: Caddy would take it for a site of all hosts that
// may have TLS, beside that of LISTED_HTTPS_SITES. It sets REDIRECTS_SWITCH, which selects whether the Caddyfile
// has an empty site at http for the redirects to https: it has, where an address has TLS and neither the addresses
// nor LISTED_HTTP_SITES name that site. LISTED_HTTP_SITES and LISTED_HTTPS_SITES become the sites of all other
// hosts at the same ports; with TLS=dns the latter has only the hosts below the first host with TLS. Both are
// empty while APPS_SWITCH is off. ON_DEMAND_SWITCH selects whether the Caddyfile permits certificates on demand,
// for the hosts of LISTED_HTTPS_SITES.
func sites() error {
	addresses := fields(os.Getenv("SITE_ADDRESS"))
	for i, address := range addresses {
		if strings.HasPrefix(address, ":") && address != ":443" {
			addresses[i] = "http://" + strings.TrimSuffix(address, ":80")
		}
	}
	redirects := slices.ContainsFunc(addresses, hasTLS)
	wildcard := os.Getenv("TLS") == tlsDNS // one for all hosts below the first of the site's
	var http, https []string
	for _, address := range addresses {
		switch other, found := otherHosts(address); {
		case !found || os.Getenv("APPS_SWITCH") == "off" || slices.Contains(addresses, other):
		case hasTLS(address) && wildcard:
			if len(https) == 0 {
				host, port := splitAddress(address)
				https = append(https, "https://*."+host+port)
			}
		case hasTLS(address):
			https = append(https, other)
		default:
			http = append(http, other)
		}
	}
	for name, value := range map[string]string{
		"SITE_ADDRESS":      strings.Join(addresses, ", "),
		"REDIRECTS_SWITCH":  onOff(redirects && !slices.Contains(slices.Concat(http, addresses), "http://")),
		"LISTED_HTTP_SITES": joined(http), "LISTED_HTTP_SWITCH": onOff(len(http) > 0),
		"LISTED_HTTPS_SITES": joined(https), "LISTED_HTTPS_SWITCH": onOff(len(https) > 0),
		"ON_DEMAND_SWITCH": onOff(len(https) > 0 && !wildcard),
	} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func joined(sites []string) string {
	slices.Sort(sites)
	return strings.Join(slices.Compact(sites), ", ")
}

// otherHosts returns the site of all other hosts at the port of an address, and reports whether the address has a host,
// so that there are others.
func otherHosts(address string) (site string, found bool) {
	host, port := splitAddress(address)
	switch {
	case host == "":
		return "", false
	case hasTLS(address):
		return "https://" + strings.TrimSuffix(port, ":443"), true
	default:
		return "http://" + strings.TrimSuffix(port, ":80"), true
	}
}

// splitAddress returns the host of an address, which may be empty, and its port with the colon, where it has one.
func splitAddress(address string) (host, port string) {
	_, host, found := strings.Cut(address, "://")
	if !found {
		host = address
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i:]
	}
	return host, port
}

// hasTLS reports whether Caddy gives a site of this address a certificate: it names a host, and
// neither http:// nor port 80.
func hasTLS(address string) bool {
	host, port := splitAddress(address)
	return host != "" && port != ":80" && !strings.HasPrefix(address, "http://")
}

// traces sets TRACING_SWITCH, which selects whether requests are traced: when the standard settings
// of OpenTelemetry name a collector and do not turn traces off.
func traces() error {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if endpoint == "" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" ||
		strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return os.Setenv("TRACING_SWITCH", "off")
	}
	return errors.Join(os.Setenv("OTEL_SERVICE_NAME", cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "proxy")),
		os.Setenv("TRACING_SWITCH", "on"))
}
