package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/certmagic"
)

// The values of the setting TLS: where certificates come from.
const (
	tlsAuto     = "auto"     // of a public authority, which must reach port 80 or 443; for internal names, of our own
	tlsDNS      = "dns"      // of a public authority, by a record of DNS
	tlsInternal = "internal" // of our own authority
	tlsOff      = "off"      // nowhere: a proxy in front has them
)

// certificates checks the setting TLS and those that belong to it, and selects the snippets of the Caddyfile for them.
func certificates() error {
	mode := cmp.Or(os.Getenv("TLS"), tlsAuto)
	addresses := fields(os.Getenv("SITE_ADDRESS"))
	var err error
	switch hasHost := slices.ContainsFunc(addresses, hasTLS); {
	case !slices.Contains([]string{tlsAuto, tlsDNS, tlsInternal, tlsOff}, mode):
		return fmt.Errorf("TLS=%s: it is auto, dns, internal or off", mode)
	case mode == tlsOff:
		addresses, err = withoutTLS(addresses)
	case mode != tlsAuto && !hasHost:
		return fmt.Errorf("TLS=%s: SITE_ADDRESS must name a host, without http:// and not at port 80", mode)
	case mode == tlsDNS:
		err = challenge()
	}
	if err != nil {
		return fmt.Errorf("TLS=%s: %w", mode, err)
	}
	var own []string // where http has the certificate of our own authority
	for _, address := range addresses {
		if hasTLS(address) && mode == tlsInternal || isInternal(address) && mode == tlsAuto {
			host, _ := splitAddress(address)
			own = append(own, "http://"+host+"/pforte/root", "http://"+host+"/pforte/root.crt")
		}
	}
	return errors.Join(os.Setenv("SITE_ADDRESS", strings.Join(addresses, " ")),
		os.Setenv("ROOT_SWITCH", onOff(len(own) > 0)), os.Setenv("ROOT_SITES", joined(own)))
}

// noWildcard returns a warning where TLS=dns gives each host of the site a certificate of its own and there is no
// wildcard; else "".
func noWildcard() string {
	if os.Getenv("TLS") != tlsDNS || os.Getenv("APPS_SWITCH") != "off" {
		return ""
	}
	return "TLS=dns with APPS=off: there is no wildcard, each host of SITE_ADDRESS has a certificate of its own"
}

// withoutTLS returns the addresses of the site, without TLS, for a proxy in front that has the certificates.
// TRUSTED_PROXIES must not be empty, because only a trusted proxy can say that a request came by https.
func withoutTLS(addresses []string) ([]string, error) {
	if strings.TrimSpace(os.Getenv("TRUSTED_PROXIES")) == "" {
		return nil, errors.New("TRUSTED_PROXIES must have the address of the proxy in front")
	}
	for i, address := range addresses {
		switch {
		case strings.HasPrefix(address, "https://"):
			return nil, fmt.Errorf("SITE_ADDRESS has %s", address)
		case hasTLS(address):
			addresses[i] = "http://" + address
		}
	}
	return addresses, nil
}

// challenge sets CHALLENGE_SWITCH, which selects who writes the DNS record by which a public authority
// knows that the domain is ours.
func challenge() error {
	acmeDNS, update := os.Getenv("ACMEDNS_SERVER") != "", os.Getenv("DNS_UPDATE_SERVER") != ""
	by, account := "acmedns", "ACMEDNS_ACCOUNT"
	switch {
	case acmeDNS == update:
		return errors.New("either ACMEDNS_SERVER or DNS_UPDATE_SERVER must be set")
	case update:
		by, account = "update", "DNS_UPDATE_KEY"
	}
	resolvers := fields(os.Getenv("DNS_RESOLVERS"))
	return errors.Join(
		fromFile(account), os.Setenv("CHALLENGE_SWITCH", by),
		os.Setenv("DNS_RESOLVERS", strings.Join(resolvers, " ")),
		os.Setenv("RESOLVERS_SWITCH", onOff(len(resolvers) > 0)))
}

// fromFile takes a secret from the file that NAME_FILE names, unless NAME has it.
func fromFile(name string) error {
	secret, file := os.Getenv(name), os.Getenv(name+"_FILE")
	if secret == "" && file != "" {
		b, err := os.ReadFile(file) //nolint:gosec // the operator's own
		if err != nil {
			return fmt.Errorf("%s_FILE: %w", name, err)
		}
		secret = string(b)
	}
	secret = strings.TrimSpace(secret)
	switch {
	case secret == "":
		return fmt.Errorf("%s must be set, or %s_FILE", name, name)
	case strings.ContainsRune(secret, '`'): // it would end the secret in the Caddyfile
		return fmt.Errorf("%s has a backquote", name)
	}
	return os.Setenv(name, secret)
}

// isInternal reports whether the site's address has TLS and a host for which only our own authority has certificates.
func isInternal(address string) bool {
	host, _ := splitAddress(address)
	return hasTLS(address) && !certmagic.SubjectQualifiesForPublicCert(strings.Trim(host, "[]"))
}
