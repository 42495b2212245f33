package config

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var errInsecure = errors.New("plain http to a public address, where everything on the way can read and change " +
	"payments and evidence; " +
	"use https, or allow it with ALLOW_INSECURE_UPSTREAMS=true")

// CheckUpstreams returns an error if one of urls is plain http to a host that isNear does not report, unless
// AllowInsecure is set. It passes over what is no URL. The error does not quote the URL, which may hold a key.
func (c *Config) CheckUpstreams(urls []string) error {
	if c.AllowInsecure {
		return nil
	}
	for _, text := range urls {
		u, err := url.Parse(strings.TrimSpace(text))
		if err == nil && u.Scheme == "http" && u.Host != "" && !isNear(u.Hostname()) {
			return errInsecure
		}
	}
	return nil
}

// nearDomains are domains that only this machine or a private network resolves: reserved ones (RFC 2606, 6761,
// 6762, ICANN's .internal) and those of Kubernetes.
var nearDomains = []string{".internal", ".local", ".localhost", ".test", ".svc", ".cluster.local"}

// isNear reports whether a host is taken for this machine or for one in a private network: by its address, by
// the domain of its name, or because its name has one label, such as the name of a container.
func isNear(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
	}
	if strings.ContainsFunc(host, func(char rune) bool { return char >= 0x80 }) {
		return false // net/http maps other scripts' dots to dots
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(nearDomains, func(domain string) bool { return strings.HasSuffix(name, domain) }) ||
		!strings.ContainsAny(host, ".:") && !isNumber(host)
}

// isNumber reports whether a host is written as one number, which some resolvers
// take for an address: 134744072 and 0x08080808 are 8.8.8.8.
func isNumber(host string) bool {
	_, err := strconv.ParseUint(host, 0, 64)
	return err == nil || errors.Is(err, strconv.ErrRange) || strings.Trim(host, "0123456789") == ""
}
