package edge

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/libdns/libdns"
	"github.com/miekg/dns"
)

// challengeRecord is what certmagic writes for a challenge.
var challengeRecord = []libdns.Record{libdns.TXT{Name: "_acme-challenge.home", Text: "a-token_of-the-challenge"}}

func TestAcmeDNS_WritesTheRecordOfTheAccount(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	var got []map[string]string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{"": r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Api-User") + " " + r.Header.Get("X-Api-Key")}
		_ = json.NewDecoder(r.Body).Decode(&body)
		got = append(got, body)
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"txt":"`+body["txt"]+`"}`)
	}))
	t.Cleanup(server.Close)
	p := &AcmeDNS{
		Server:  server.URL + "/",
		Account: `{"username":"a user","password":"a key","fulldomain":"d420.auth.example","subdomain":"d420","allowfrom":[]}`,
	}
	if err := p.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	records, err := p.AppendRecords(t.Context(), "example.org.", challengeRecord)
	want := map[string]string{"": "POST /update a user a key", "subdomain": "d420", "txt": "a-token_of-the-challenge"}
	if err != nil || len(records) != 1 || len(got) != 1 || !maps.Equal(got[0], want) {
		t.Errorf("%v %v\n%v", err, records, got)
	}
	if _, err := p.DeleteRecords(t.Context(), "example.org.", challengeRecord); err != nil || len(got) != 1 {
		t.Errorf("the end of a challenge: %v, %d requests", err, len(got))
	}
	for _, status = range []int{401, 500, 302} {
		_, err := p.AppendRecords(t.Context(), "example.org.", challengeRecord)
		if err == nil || strings.Contains(err.Error(), "a key") {
			t.Errorf("%d: %v", status, err)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d requests: the key went elsewhere", len(got))
	}
	if _, err := p.AppendRecords(t.Context(), "example.org.", []libdns.Record{libdns.RR{Name: "home", Type: "A", Data: "192.0.2.1"}}); err == nil {
		t.Error("it writes another record")
	}
}

// zone is a name server that takes updates with a key.
type zone struct {
	mu      sync.Mutex
	records []string
}

const zoneKey = "c2VjcmV0IG9mIHRoZSB6b25l"

func serveZone(t *testing.T) (*zone, string) {
	t.Helper()
	z := &zone{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{
		Listener: listener, TsigSecret: map[string]string{"pforte.": zoneKey}, Handler: z,
		MsgAcceptFunc: func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept },
	}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return z, listener.Addr().String()
}

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(q)
	tsig := q.IsTsig()
	switch {
	case tsig == nil || w.TsigStatus() != nil:
		m.Rcode = dns.RcodeNotAuth
	case q.Opcode != dns.OpcodeUpdate || q.Question[0].Name != "example.org.":
		m.Rcode = dns.RcodeNotZone
	default:
		for _, rr := range q.Ns {
			record := rr.Header().Name + " " + strings.Join(rr.(*dns.TXT).Txt, "")
			if rr.Header().Class == dns.ClassNONE {
				z.records = slices.DeleteFunc(z.records, func(r string) bool { return r == record })
			} else {
				z.records = append(z.records, record)
			}
		}
	}
	if tsig != nil && w.TsigStatus() == nil {
		m.SetTsig(tsig.Hdr.Name, tsig.Algorithm, 300, time.Now().Unix())
	}
	_ = w.WriteMsg(m)
}

func TestDNSUpdate_WritesAndRemovesTheRecordWithTheKey(t *testing.T) {
	t.Parallel()
	z, addr := serveZone(t)
	for _, key := range []string{"pforte:" + zoneKey, "hmac-sha512:Pforte.:" + zoneKey} {
		p := &DNSUpdate{Server: addr, Key: key}
		if err := p.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.AppendRecords(t.Context(), "example.org.", challengeRecord); err != nil {
			t.Errorf("%v", err)
		}
		if !slices.Equal(z.records, []string{"_acme-challenge.home.example.org. a-token_of-the-challenge"}) {
			t.Errorf("the zone has %v", z.records)
		}
		if _, err := p.DeleteRecords(t.Context(), "example.org.", challengeRecord); err != nil || len(z.records) > 0 {
			t.Errorf("%v, the zone has %v", err, z.records)
		}
		if _, err := p.AppendRecords(t.Context(), "example.net.", challengeRecord); err == nil {
			t.Error("another zone takes the update")
		}
	}
	stranger := &DNSUpdate{Server: addr, Key: "pforte:b3RoZXI="}
	if err := stranger.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.AppendRecords(t.Context(), "example.org.", challengeRecord); err == nil || len(z.records) > 0 {
		t.Errorf("another key writes: %v", z.records)
	}
}

func TestDNSUpdate_RefusesAKeyOfAnotherForm(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "pforte", ":c2VjcmV0", "pforte:", "pforte:no base64!", "hmac-md5:pforte:c2VjcmV0", "a:b:c:d"} {
		err := (&DNSUpdate{Server: "ns.example.org", Key: key}).Provision(caddy.Context{})
		if err == nil || key != "" && strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%q: %v", key, err)
		}
	}
}
