package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"github.com/libdns/libdns"
)

// dnsWithin is how long a server of DNS records has for an answer.
const dnsWithin = 15 * time.Second

// AcmeDNS answers DNS challenges by a server of acme-dns, to which _acme-challenge of the domain leads by a CNAME. Its
// account can write the two TXT records of a challenge, and nothing else of any zone.
type AcmeDNS struct {
	// Server is the server's URL.
	Server string `json:"server"`
	// Account is what the server answered to POST /register: JSON with username, password and subdomain.
	Account string `json:"account"`

	update  string
	account struct {
		Username, Password, Subdomain string
	}
	client *http.Client
}

// CaddyModule returns the Caddy module information.
func (*AcmeDNS) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "dns.providers.acmedns", New: func() caddy.Module { return new(AcmeDNS) }}
}

// UnmarshalCaddyfile reads: acmedns <server> <account>.
func (p *AcmeDNS) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&p.Server, &p.Account) {
		return d.ArgErr()
	}
	return nil
}

// Provision implements caddy.Provisioner. Its errors have nothing of the account.
func (p *AcmeDNS) Provision(caddy.Context) error {
	server, err := url.Parse(p.Server)
	if err != nil || server.Scheme != "http" && server.Scheme != "https" || server.Host == "" {
		return errors.New("ACMEDNS_SERVER is no URL with http or https")
	}
	p.update = server.JoinPath("update").String()
	err = json.Unmarshal([]byte(p.Account), &p.account)
	if err != nil || p.account.Username == "" || p.account.Password == "" || p.account.Subdomain == "" {
		return errors.New("ACMEDNS_ACCOUNT is not what the server answered to POST /register: " +
			"JSON with username, password and subdomain")
	}
	p.client = &http.Client{Timeout: dnsWithin, CheckRedirect: noRedirect}
	return nil
}

// AppendRecords implements libdns.RecordAppender, for TXT records.
func (p *AcmeDNS) AppendRecords(
	ctx context.Context, _ string, records []libdns.Record,
) ([]libdns.Record, error) {
	for _, record := range records {
		rr := record.RR()
		if rr.Type != "TXT" {
			return nil, fmt.Errorf("acme-dns has TXT records only, not %s", rr.Type)
		}
		if err := p.write(ctx, rr.Data); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (p *AcmeDNS) write(ctx context.Context, txt string) error {
	body, err := json.Marshal(map[string]string{"subdomain": p.account.Subdomain, "txt": txt})
	if err != nil {
		return fmt.Errorf("acme-dns: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.update, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("acme-dns: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-User", p.account.Username)
	r.Header.Set("X-Api-Key", p.account.Password)
	res, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("acme-dns: %w", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("acme-dns: the server answers with status %d", res.StatusCode)
	}
	return nil
}

// DeleteRecords implements libdns.RecordDeleter. There is nothing to do: the server keeps only
// the last two records.
func (*AcmeDNS) DeleteRecords(_ context.Context, _ string, records []libdns.Record) ([]libdns.Record, error) {
	return records, nil
}

var (
	_ certmagic.DNSProvider = (*AcmeDNS)(nil)
	_ caddy.Provisioner     = (*AcmeDNS)(nil)
	_ caddyfile.Unmarshaler = (*AcmeDNS)(nil)
)
