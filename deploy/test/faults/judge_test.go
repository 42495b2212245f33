package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/test/internal/buyer"
)

// spent is a payment with answers.
func spent(nonce string, answers ...buyer.Answer) *buyer.Spend {
	s := &buyer.Spend{Payment: buyer.Payment{Nonce: nonce}}
	for _, a := range answers {
		s.Add(a)
	}
	return s
}

func answered(status int, body string) buyer.Answer {
	return buyer.Answer{Status: status, Body: []byte(body)}
}

var lost = buyer.Answer{Err: errors.New("cut")}

// TestEveryFaultOfTheMoneyIsFound makes accounts with one fault each.
func TestEveryFaultOfTheMoneyIsFound(t *testing.T) {
	sold, refused, away := answered(200, "a"), answered(402, "{}"), answered(503, "{}")
	for name, c := range map[string]struct {
		spends    []*buyer.Spend
		transfers map[string]int
		strange   int
		limit     int
		want      string // "" for a clean account
	}{
		"sold":                        {[]*buyer.Spend{spent("1", lost, sold, sold)}, map[string]int{"1": 1}, 0, 1, ""},
		"refused, then sold":          {[]*buyer.Spend{spent("1", refused), spent("2", sold)}, map[string]int{"2": 1}, 0, 1, ""},
		"refused":                     {[]*buyer.Spend{spent("1", lost, refused)}, nil, 0, 1, ""},
		"served unpaid":               {[]*buyer.Spend{spent("1", sold)}, nil, 0, 1, "served unpaid"},
		"paid, not served":            {[]*buyer.Spend{spent("1", lost, away)}, map[string]int{"1": 1}, 0, 1, "paid and not served"},
		"refused, and yet charged":    {[]*buyer.Spend{spent("1", refused), spent("2", sold)}, map[string]int{"1": 1, "2": 1}, 0, 9, "charged twice"},
		"one payment moved twice":     {[]*buyer.Spend{spent("1", sold)}, map[string]int{"1": 2}, 0, 9, "moved money 2 times"},
		"two answers to one payment":  {[]*buyer.Spend{spent("1", sold, answered(200, "b"))}, map[string]int{"1": 1}, 0, 1, "two different answers"},
		"the limit passed":            {[]*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 0, 0, "passed the limit"},
		"somebody else's transfer":    {[]*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1, "9": 1}, 0, 9, "no purchase of this run signed"},
		"a transfer without a paper":  {[]*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 1, 9, "nobody's"},
		"called used":                 {[]*buyer.Spend{spent("1", answered(402, `{"reason":"payment_already_used"}`)), spent("2", sold)}, map[string]int{"2": 1}, 0, 9, "was called used"},
		"outdone by a copy":           {[]*buyer.Spend{spent("1", answered(402, `{"paymentReason":"invalid_exact_evm_signature"}`)), spent("2", sold)}, map[string]int{"2": 1}, 0, 9, "for the signature of a copy"},
		"does not sell though well":   {[]*buyer.Spend{spent("1", away)}, nil, 0, 1, "not sold when all was well"},
		"does not answer though well": {[]*buyer.Spend{spent("1", lost)}, nil, 0, 1, "not sold when all was well"},
	} {
		s := &shop{journal: newJournal()}
		p := s.notebook.Add("", "")
		p.Spends = c.spends
		s.hopeful = []*purchase{{Purchase: p, by: &buyer.Buyer{}}}
		account{shop: s, transfers: c.transfers, strange: c.strange, limit: c.limit}.judge()
		if found := strings.Join(s.violations, "\n"); (c.want == "") != s.clean() || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

func TestWhoCheatsIsNeverServedNorCharged(t *testing.T) {
	for name, c := range map[string]struct {
		answer    buyer.Answer
		transfers map[string]int
		want      string
	}{
		"refused": {answered(402, "{}"), nil, ""},
		"served":  {answered(200, "a"), nil, "was served"},
		"charged": {answered(402, "{}"), map[string]int{"1": 1}, "was charged"},
	} {
		s := &shop{journal: newJournal(), frauds: []*buyer.Spend{spent("1", c.answer)}}
		account{shop: s, transfers: c.transfers, limit: 9}.judge()
		if found := strings.Join(s.violations, "\n"); (c.want == "") != s.clean() || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

// TestACopyWithABrokenSignatureIsNeverServed gives it the nonce of the good one,
// which moves money.
func TestACopyWithABrokenSignatureIsNeverServed(t *testing.T) {
	for status, want := range map[int]string{402: "", 200: "a copy with a broken signature was served"} {
		s := &shop{journal: newJournal(), broken: []*buyer.Spend{spent("1", answered(status, "a"))}}
		p := s.notebook.Add("", "")
		p.Spends = []*buyer.Spend{spent("1", answered(200, "a"))}
		s.hopeful = []*purchase{{Purchase: p, by: &buyer.Buyer{}}}
		account{shop: s, transfers: map[string]int{"1": 1}, limit: 9}.judge()
		if found := strings.Join(s.violations, "\n"); (want == "") != s.clean() || !strings.Contains(found, want) {
			t.Errorf("%d: found %q", status, found)
		}
	}
}

// TestAForgedCopyDiffersInItsSignatureOnly also holds that it differs.
func TestAForgedCopyDiffersInItsSignatureOnly(t *testing.T) {
	const text = `{"payload":{"signature":"0x%s","authorization":{"nonce":"0x01"}},"x402Version":2}`
	digits := strings.Repeat("0123456789abcdef", 8) + "1c"
	good := buyer.Payment{Nonce: "0x01", Value: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, text, digits))}
	for i := range uint64(100) {
		bad, err := forged(good, source(i, 1))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(bad.Value)
		var signature string
		if _, scanned := fmt.Sscanf(string(raw), strings.Replace(text, "%s", "%130s", 1), &signature); scanned != nil || err != nil {
			t.Fatalf("%s: %v, %v", raw, scanned, err)
		}
		if signature == digits || len(signature) != len(digits) || bad.Nonce != good.Nonce {
			t.Errorf("got %s", raw)
		}
	}
}

// TestFailuresOfOnePayerAreFewAndTheirOwn goes over what a payer whose transfers
// revert may cause, and what it may not.
func TestFailuresOfOnePayerAreFewAndTheirOwn(t *testing.T) {
	sold, refused, away := answered(200, "a"), answered(402, "{}"), answered(503, "{}")
	for name, c := range map[string]struct {
		failed    map[string]int
		reverting *buyer.Spend
		ended     string // the honest purchase
		spends    []*buyer.Spend
		transfers map[string]int
		limit     int
		want      string // "" for clean
	}{
		"within the caps":            {map[string]int{"a": 3, "b": 3, "c": 3, "d": 1}, spent("9", refused), "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 11, ""},
		"one payer":                  {map[string]int{"a": 4}, nil, "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 99, "settlements of a failed"},
		"one payer, in doubt":        {map[string]int{"a": 9}, spent("9", away, refused), "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 99, ""},
		"one payer, not in doubt":    {map[string]int{"a": 4}, spent("9", answered(503, `{"reason":"payment_in_progress"}`), refused), "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 99, "settlements of a failed"},
		"another one in doubt":       {map[string]int{"b": 4}, spent("9", away, refused), "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 99, "settlements of b failed"},
		"one address":                {map[string]int{"a": 3, "b": 3, "c": 3, "d": 2}, nil, "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 99, "11 settlements of one address failed"},
		"the limit":                  {map[string]int{"a": 2}, nil, "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 2, "3 settlements, 2 of them failed, passed the limit of 2"},
		"served":                     {nil, spent("9", sold), "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1}, 99, "a payment that reverts was served"},
		"charged":                    {nil, spent("9", refused), "sold", []*buyer.Spend{spent("1", sold)}, map[string]int{"1": 1, "9": 1}, 99, "a payment that reverts was charged"},
		"another payer is capped":    {map[string]int{"a": 3}, nil, capped, []*buyer.Spend{spent("1", refused)}, nil, 99, "refused for too many failed settlements"},
		"the month, with free ones":  {map[string]int{"a": 3}, spent("9", refused), limited, nil, nil, 4, "the month is closed before its limit"},
		"the month, by signed ones":  {nil, nil, limited, nil, nil, 1, "the month is closed before its limit"},
		"the month, and it is true":  {map[string]int{"a": 3}, spent("9", refused), limited, []*buyer.Spend{spent("1", refused), spent("2", refused), spent("3", refused)}, nil, 3, ""},
		"the month, and it may be":   {map[string]int{"a": 2}, spent("9", away), limited, []*buyer.Spend{spent("1", refused), spent("2", refused), spent("3", refused)}, nil, 3, ""},
		"nothing sold, and no word":  {nil, nil, "", nil, nil, 99, "nothing is sold when all is well again"},
		"open, and none is left":     {nil, nil, "", []*buyer.Spend{spent("1", answered(503, `{"reason":"settlement_pending"}`), lost)}, nil, 6, ""},
		"open, and some are left":    {nil, nil, "", []*buyer.Spend{spent("1", answered(503, `{"reason":"settlement_pending"}`))}, nil, 7, "not sold when all was well again"},
		"away, and none is left":     {nil, nil, "", []*buyer.Spend{spent("1", away)}, nil, 6, "nothing is sold when all is well again"},
		"refused when all was well ": {nil, nil, "", []*buyer.Spend{spent("1", refused)}, nil, 99, "nothing is sold when all is well again"},
	} {
		s := &shop{journal: newJournal()}
		p := s.notebook.Add("", "")
		p.Spends = c.spends
		s.last = &purchase{Purchase: p, by: &buyer.Buyer{}, ended: c.ended}
		s.hopeful = []*purchase{s.last}
		if c.reverting != nil {
			s.reverting = []*purchase{{by: &buyer.Buyer{Address: "a"}, Purchase: &buyer.Purchase{Spends: []*buyer.Spend{c.reverting}}}}
		}
		account{shop: s, transfers: c.transfers, failed: c.failed, limit: c.limit}.judge()
		if found := strings.Join(s.violations, "\n"); (c.want == "") != s.clean() || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

// TestATurnedClockMayOpenWhatIsUnderWay goes over the one excuse for failures
// that no answer shows.
func TestATurnedClockMayOpenWhatIsUnderWay(t *testing.T) {
	for _, stepped := range []bool{false, true} {
		s := &shop{journal: newJournal()}
		s.reverting = []*purchase{{by: &buyer.Buyer{Address: "a"}, Purchase: &buyer.Purchase{Spends: []*buyer.Spend{spent("9", answered(402, "{}"))}}}}
		account{shop: s, failed: map[string]int{"a": 4}, limit: 9, stepped: stepped}.judge()
		if found := strings.Join(s.violations, "\n"); strings.Contains(found, "settlements of a failed") == stepped {
			t.Errorf("stepped %t: %q", stepped, found)
		}
	}
}

func TestAReceiptAboutABlockThatWasNotFinalIsFound(t *testing.T) {
	for height, clean := range map[uint64]bool{9: true, 10: true, 11: false} {
		s := &shop{journal: newJournal(), final: map[string]uint64{"1": 10}}
		s.finality("1", height)
		s.finality("2", height) // nobody knows
		if s.clean() != clean {
			t.Errorf("block %d: %v", height, s.violations)
		}
	}
}

// TestAWebSocketThatOutlivesItsSessionIsFound opens one to an application that
// never ends it.
func TestAWebSocketThatOutlivesItsSessionIsFound(t *testing.T) {
	a, err := newApp(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	for _, c := range []struct {
		over, ends bool
		want       string
	}{{false, false, ""}, {true, true, ""}, {true, false, "a WebSocket of eva is still open after its end"}} {
		h := &house{journal: newJournal()}
		h.url = "http://" + a.addr
		s := &session{person: &person{name: "eva"}}
		s.ended.Store(c.over)
		h.listen(t.Context(), s)
		h.listen(t.Context(), s)
		if len(h.streams) != 2 {
			t.Fatalf("%d are open: %s", len(h.streams), h)
		}
		if c.ends {
			for _, each := range h.streams {
				_ = each.conn.Close()
				<-each.done
			}
		}
		h.streamsEnd(20 * time.Millisecond)
		if found := strings.Join(h.violations, "\n"); found != c.want {
			t.Errorf("%+v: found %q", c, found)
		}
	}
}

// TestASessionThatIsAcceptedAfterItsEndIsFound asks a service that accepts
// every session, at either of its doors.
func TestASessionThatIsAcceptedAfterItsEndIsFound(t *testing.T) {
	for door, want := range map[string]string{"/api/v1/auth/me": "GET /me", "/internal/forward-auth": "the guard"} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != door {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		for why, end := range map[string]func(*session){
			"":                    func(*session) {},
			"the deletion":        func(s *session) { s.gone.Store(true) },
			"the change":          func(s *session) { s.old = true; s.changed.Store(true) },
			"its end":             func(s *session) { s.ended.Store(true) },
			"no reason (it kept)": func(s *session) { s.old, s.keeper = true, true; s.changed.Store(true) },
		} {
			h := &house{journal: newJournal()}
			h.url, h.direct, h.client = service.URL, service.URL, service.Client()
			s := &session{person: &person{name: "eva"}}
			end(s)
			h.sessions = []*session{s}
			h.tryAll(context.Background())
			found := strings.Join(h.violations, "\n")
			if over := s.over() != ""; over == h.clean() || (over && (!strings.Contains(found, want) || !strings.Contains(found, why))) {
				t.Errorf("%s, %s: found %q", door, why, found)
			}
		}
		service.Close()
	}
}
