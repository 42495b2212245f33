package edge

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"github.com/libdns/libdns"
	"github.com/miekg/dns"
)

// signedWithin is how far apart the clocks of the proxy and of the name server may be, in seconds.
const signedWithin = 300

// keyAlgorithms are those by which an update may be signed.
var keyAlgorithms = []string{dns.HmacSHA256, dns.HmacSHA512, dns.HmacSHA384, dns.HmacSHA224, dns.HmacSHA1}

// DNSUpdate answers DNS challenges by updates of a zone's own name server (RFC 2136), signed by a key (RFC 8945).
type DNSUpdate struct {
	// Server is the name server, host or host:port.
	Server string `json:"server"`
	// Key is the key as for nsupdate -y: name:secret or algorithm:name:secret, with hmac-sha256 where it has none.
	Key string `json:"key"`

	server, name, algorithm string
	client                  *dns.Client
}

// CaddyModule returns the Caddy module information.
func (*DNSUpdate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "dns.providers.dnsupdate", New: func() caddy.Module { return new(DNSUpdate) }}
}

// UnmarshalCaddyfile reads: dnsupdate <server> <key>.
func (p *DNSUpdate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&p.Server, &p.Key) {
		return d.ArgErr()
	}
	return nil
}

// Provision implements caddy.Provisioner. Its errors have nothing of the key.
func (p *DNSUpdate) Provision(caddy.Context) error {
	p.server = p.Server
	if _, _, err := net.SplitHostPort(p.server); err != nil {
		p.server = net.JoinHostPort(strings.Trim(p.server, "[]"), "53")
	}
	parts := strings.Split(p.Key, ":")
	if len(parts) == 2 {
		parts = append([]string{"hmac-sha256"}, parts...)
	}
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return errors.New("DNS_UPDATE_KEY has not the form name:secret or algorithm:name:secret")
	}
	p.algorithm, p.name = dns.CanonicalName(parts[0]), dns.CanonicalName(parts[1])
	if !slices.Contains(keyAlgorithms, p.algorithm) {
		return errors.New("DNS_UPDATE_KEY: the algorithm is none of hmac-sha256, -sha512, -sha384, -sha224, -sha1")
	}
	if _, err := base64.StdEncoding.DecodeString(parts[2]); err != nil {
		return errors.New("DNS_UPDATE_KEY: the secret is not base64")
	}
	p.client = &dns.Client{Net: "tcp", Timeout: dnsWithin, TsigSecret: map[string]string{p.name: parts[2]}}
	return nil
}

// AppendRecords implements libdns.RecordAppender.
func (p *DNSUpdate) AppendRecords(
	ctx context.Context, zone string, records []libdns.Record,
) ([]libdns.Record, error) {
	return p.change(ctx, zone, records, (*dns.Msg).Insert)
}

// DeleteRecords implements libdns.RecordDeleter.
func (p *DNSUpdate) DeleteRecords(
	ctx context.Context, zone string, records []libdns.Record,
) ([]libdns.Record, error) {
	return p.change(ctx, zone, records, (*dns.Msg).Remove)
}

// change sends one update of a zone, in which how inserts or removes TXT records.
func (p *DNSUpdate) change(
	ctx context.Context, zone string, records []libdns.Record, how func(*dns.Msg, []dns.RR),
) ([]libdns.Record, error) {
	var changed []dns.RR
	for _, record := range records {
		rr := record.RR()
		if rr.Type != "TXT" {
			return nil, fmt.Errorf("an update for a challenge has TXT records only, not %s", rr.Type)
		}
		changed = append(changed, &dns.TXT{
			Hdr: dns.RR_Header{
				Name: dns.CanonicalName(libdns.AbsoluteName(rr.Name, zone)), Rrtype: dns.TypeTXT, Class: dns.ClassINET,
				Ttl: uint32(rr.TTL / time.Second),
			},
			Txt: []string{rr.Data},
		})
	}
	m := new(dns.Msg)
	m.SetUpdate(dns.Fqdn(zone))
	how(m, changed)
	m.SetTsig(p.name, p.algorithm, signedWithin, time.Now().Unix())
	answer, _, err := p.client.ExchangeContext(ctx, m, p.server)
	if err != nil {
		return nil, fmt.Errorf("DNS update: %w", err)
	}
	if answer.Rcode != dns.RcodeSuccess {
		return nil, fmt.Errorf("DNS update: the name server answers %s", dns.RcodeToString[answer.Rcode])
	}
	return records, nil
}

var (
	_ certmagic.DNSProvider = (*DNSUpdate)(nil)
	_ caddy.Provisioner     = (*DNSUpdate)(nil)
	_ caddyfile.Unmarshaler = (*DNSUpdate)(nil)
)
