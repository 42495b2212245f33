package faults

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// spent is a payment with answers.
func spent(nonce string, answers ...client.Answer) *payment {
	return &payment{Payment: client.Payment{Nonce: nonce}, answers: answers}
}

func answered(status int, body string) client.Answer {
	return client.Answer{Status: status, Body: []byte(body)}
}

// wantFound fails unless what b has found has the text want, or b has found nothing where want is "".
func wantFound(t *testing.T, name string, b *buyers, want string) {
	t.Helper()
	if found := strings.Join(b.violations, "\n"); (want == "") != b.clean() || !strings.Contains(found, want) {
		t.Errorf("%s: found %q", name, found)
	}
}

var lost = client.Answer{Err: errors.New("cut")}

// TestJudge_FindsEveryFaultOfTheMoney has accounts with one fault each.
func TestJudge_FindsEveryFaultOfTheMoney(t *testing.T) {
	sold, refused, away := answered(200, "a"), answered(402, "{}"), answered(503, "{}")
	for name, c := range map[string]struct {
		payments  []*payment
		transfers map[string]int
		unsigned  int
		limit     int
		want      string // "" for a clean account
	}{
		"sold":                       {[]*payment{spent("1", lost, sold, sold)}, map[string]int{"1": 1}, 0, 1, ""},
		"refused, then sold":         {[]*payment{spent("1", refused), spent("2", sold)}, map[string]int{"2": 1}, 0, 1, ""},
		"refused":                    {[]*payment{spent("1", lost, refused)}, nil, 0, 1, ""},
		"served unpaid":              {[]*payment{spent("1", sold)}, nil, 0, 1, "served unpaid"},
		"paid, not served":           {[]*payment{spent("1", lost, away)}, map[string]int{"1": 1}, 0, 1, "paid and not served"},
		"refused, and yet charged":   {[]*payment{spent("1", refused), spent("2", sold)}, map[string]int{"1": 1, "2": 1}, 0, 9, "charged twice"},
		"one payment moved twice":    {[]*payment{spent("1", sold)}, map[string]int{"1": 2}, 0, 9, "moved money 2 times"},
		"two answers to one payment": {[]*payment{spent("1", sold, answered(200, "b"))}, map[string]int{"1": 1}, 0, 1, "two different answers"},
		"the limit passed":           {[]*payment{spent("1", sold)}, map[string]int{"1": 1}, 0, 0, "passed the limit"},
		"another transfer":           {[]*payment{spent("1", sold)}, map[string]int{"1": 1, "9": 1}, 0, 9, "no purchase of this run signed"},
		"an unsigned transfer":       {[]*payment{spent("1", sold)}, map[string]int{"1": 1}, 1, 9, "by no authorization"},
		"called used":                {[]*payment{spent("1", answered(402, `{"reason":"payment_already_used"}`)), spent("2", sold)}, map[string]int{"2": 1}, 0, 9, "was called used"},
		"refused for a copy":         {[]*payment{spent("1", answered(402, `{"paymentReason":"invalid_exact_evm_signature"}`)), spent("2", sold)}, map[string]int{"2": 1}, 0, 9, "for the signature of a copy"},
		"does not sell at the end":   {[]*payment{spent("1", away)}, nil, 0, 1, "not sold when nothing failed"},
		"does not answer at the end": {[]*payment{spent("1", lost)}, nil, 0, 1, "not sold when nothing failed"},
	} {
		b := &buyers{journal: newJournal(), purchases: []*purchase{{kind: honest, by: &client.Account{}, payments: c.payments}}}
		audit{buyers: b, transfers: c.transfers, unsigned: c.unsigned, limit: c.limit}.judgeMoney()
		wantFound(t, name, b, c.want)
	}
}

// observed is a payment that another had carried out before it was sent.
func observed(nonce string, answers ...client.Answer) *payment {
	p := spent(nonce, answers...)
	p.carriedOut = true
	return p
}

// TestJudge_PaymentCarriedOutByAnotherBuysOneAnswer has purchases of one question with it.
func TestJudge_PaymentCarriedOutByAnotherBuysOneAnswer(t *testing.T) {
	sold, challenged, away := answered(200, "a"), answered(402, "{}"), answered(503, "{}")
	denied := answered(503, `{"error":"The facilitator refused the payment; nothing was charged"}`)
	failed := answered(422, "{}")
	once := map[string]int{"1": 1}
	both := map[string]int{"1": 1, "2": 1}
	for name, c := range map[string]struct {
		unverifiable *payment
		honest       [][]*payment // by purchase
		transfers    map[string]int
		limit        int
		want         string // "" for clean
	}{
		"sold":                              {nil, [][]*payment{{observed("1", away, sold)}}, once, 9, ""},
		"sold beyond the limit":             {nil, [][]*payment{{observed("1", sold)}}, once, 0, ""},
		"another is beyond the limit":       {nil, [][]*payment{{observed("1", sold)}, {spent("2", sold)}}, both, 0, "1 settlements, 0 of them failed, passed the limit of 0"},
		"challenged, and sold":              {nil, [][]*payment{{observed("1", challenged, sold)}}, once, 9, "told to pay anew: payment 1"},
		"challenged, and paid anew":         {nil, [][]*payment{{observed("1", challenged), spent("2", sold)}}, both, 9, "charged twice"},
		"told that nothing was charged":     {nil, [][]*payment{{observed("1", denied, sold)}}, once, 9, "told that nothing was charged: payment 1"},
		"no answer":                         {nil, [][]*payment{{observed("1", away)}}, once, 9, "paid and not served"},
		"moved again":                       {nil, [][]*payment{{observed("1", sold)}}, map[string]int{"1": 2}, 9, "moved money 2 times"},
		"not moved at all":                  {nil, [][]*payment{{observed("1", sold)}}, nil, 9, "moved money 0 times"},
		"the question was paid as well":     {nil, [][]*payment{{observed("1", sold)}, {spent("2", sold)}}, both, 9, ""},
		"the question was paid twice":       {nil, [][]*payment{{spent("1", sold)}, {spent("2", sold)}}, both, 9, "was paid 2 times"},
		"it buys another answer":            {observed("1", failed), [][]*payment{{observed("1", sold)}}, once, 0, ""},
		"it buys no other answer":           {observed("1", failed), nil, once, 9, "1 transfers and 0 answers"},
		"it buys two answers":               {observed("1", failed), [][]*payment{{observed("1", sold)}, {observed("1", sold)}}, once, 9, "1 transfers and 2 answers"},
		"a bad question is served":          {observed("1", sold), nil, once, 9, "what cannot be verified was served"},
		"a bad question is challenged":      {observed("1", challenged), [][]*payment{{observed("1", sold)}}, once, 9, "told to pay anew"},
		"a bad question is charged as ever": {spent("1", failed), nil, once, 9, "what cannot be verified was charged"},
	} {
		account := &client.Account{}
		b := &buyers{journal: newJournal(), once: true}
		for _, payments := range c.honest {
			b.purchases = append(b.purchases, &purchase{kind: honest, by: account, payments: payments, ended: "sold"})
		}
		if c.unverifiable != nil {
			b.purchases = append(b.purchases, &purchase{kind: unverifiable, payments: []*payment{c.unverifiable}})
		}
		audit{buyers: b, transfers: c.transfers, limit: c.limit}.judgeMoney()
		wantFound(t, name, b, c.want)
	}
}

// TestBuyer_RepeatsAPaymentCarriedOutByAnother has a verifier without a settlement left,
// for a while.
func TestBuyer_RepeatsAPaymentCarriedOutByAnother(t *testing.T) {
	for _, pay := range []*payment{spent("0x00000001"), observed("0x00000001")} {
		calls := 0
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write([]byte(`{"reason":"facilitator_limit"}`))
			}
		}))
		b := &buyers{journal: newJournal(), world: &world{}, url: service.URL, finalized: map[string]uint64{}}
		pay.Header = x402.HeaderPaymentSignature
		p := &purchase{kind: honest, payments: []*payment{pay}}
		b.retry(t.Context(), p, pay)
		service.Close()
		if want := map[bool]string{false: limited, true: sold}[pay.carriedOut]; p.ended != want {
			t.Errorf("carried out %t: ended %q", pay.carriedOut, p.ended)
		}
	}
}

// TestJudge_AQuestionIsPaidOnce has one payer ask twice.
func TestJudge_AQuestionIsPaidOnce(t *testing.T) {
	header, err := x402.Encode(x402.SettleResponse{Extra: json.RawMessage(`{"repeated":true}`)})
	if err != nil {
		t.Fatal(err)
	}
	sold := answered(200, "a")
	again := sold
	again.Header = http.Header{http.CanonicalHeaderKey(x402.HeaderPaymentResponse): {header}}
	for name, c := range map[string]struct {
		once      bool
		second    client.Answer
		transfers map[string]int
		want      string
	}{
		"answered again":              {true, again, map[string]int{"1": 1}, ""},
		"paid twice":                  {true, sold, map[string]int{"1": 1, "2": 1}, "was paid 2 times"},
		"paid twice, as it should be": {false, sold, map[string]int{"1": 1, "2": 1}, ""},
		"not marked":                  {true, sold, map[string]int{"1": 1}, "served unpaid"},
		"neither paid":                {true, again, nil, "served unpaid"},
		"without a window":            {false, again, map[string]int{"1": 1}, "served unpaid"},
	} {
		account := &client.Account{}
		b := &buyers{journal: newJournal(), once: c.once, purchases: []*purchase{
			{kind: honest, by: account, payments: []*payment{spent("1", sold)}}, {kind: honest, by: account, payments: []*payment{spent("2", c.second)}, ended: "sold"},
		}}
		audit{buyers: b, transfers: c.transfers, limit: 9}.judgeMoney()
		wantFound(t, name, b, c.want)
	}
}

func TestJudge_BadPaymentsAreNeverServedNorCharged(t *testing.T) {
	for name, c := range map[string]struct {
		answer    client.Answer
		transfers map[string]int
		want      string
	}{
		"refused": {answered(402, "{}"), nil, ""},
		"served":  {answered(200, "a"), nil, "was served"},
		"charged": {answered(402, "{}"), map[string]int{"1": 1}, "was charged"},
	} {
		b := &buyers{journal: newJournal(), purchases: []*purchase{{kind: invalid, payments: []*payment{spent("1", c.answer)}}}}
		audit{buyers: b, transfers: c.transfers, limit: 9}.judgeMoney()
		wantFound(t, name, b, c.want)
	}
}

// TestJudge_BrokenCopiesAreNeverServed has one with the nonce of the good one,
// which moves money.
func TestJudge_BrokenCopiesAreNeverServed(t *testing.T) {
	for status, want := range map[int]string{402: "", 200: "a copy with a broken signature was served"} {
		b := &buyers{journal: newJournal(), purchases: []*purchase{
			{kind: forged, payments: []*payment{spent("1", answered(status, "a"))}},
			{kind: honest, by: &client.Account{}, payments: []*payment{spent("1", answered(200, "a"))}},
		}}
		audit{buyers: b, transfers: map[string]int{"1": 1}, limit: 9}.judgeMoney()
		wantFound(t, fmt.Sprint(status), b, want)
		before := len(b.violations)
		believed := audit{buyers: b, transfers: map[string]int{"1": 1}, limit: 9, believed: true}
		if believed.neverServed(b.purchases[0]); len(b.violations) > before {
			t.Errorf("%d, by the word of the facilitator: found %q", status, b.violations)
		}
	}
}

// TestBuyer_ForgesTheSignatureOnly also holds that it differs.
func TestBuyer_ForgesTheSignatureOnly(t *testing.T) {
	const text = `{"payload":{"signature":"0x%s","authorization":{"nonce":"0x01"}},"x402Version":2}`
	digits := strings.Repeat("0123456789abcdef", 8) + "1c"
	good := client.Payment{Nonce: "0x01", Value: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, text, digits))}
	for i := range uint64(100) {
		bad, err := forge(good, source(i, 1))
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

// TestJudge_FailuresOfAPayerAreFewAndTheirOwn goes over what a payer whose transfers
// revert may cause, and what it may not.
func TestJudge_FailuresOfAPayerAreFewAndTheirOwn(t *testing.T) {
	sold, refused, away := answered(200, "a"), answered(402, "{}"), answered(503, "{}")
	for name, c := range map[string]struct {
		failed    map[string]int
		reverting *payment
		ended     string // the honest purchase
		payments  []*payment
		transfers map[string]int
		limit     int
		want      string // "" for clean
	}{
		"within the caps":           {map[string]int{"a": 3, "b": 3, "c": 3, "d": 1}, spent("9", refused), "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 11, ""},
		"one payer":                 {map[string]int{"a": 4}, nil, "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 99, "settlements of a failed"},
		"one payer, in doubt":       {map[string]int{"a": 9}, spent("9", away, refused), "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 99, ""},
		"one payer, not in doubt":   {map[string]int{"a": 4}, spent("9", answered(503, `{"reason":"payment_in_progress"}`), refused), "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 99, "settlements of a failed"},
		"another one in doubt":      {map[string]int{"b": 4}, spent("9", away, refused), "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 99, "settlements of b failed"},
		"one address":               {map[string]int{"a": 3, "b": 3, "c": 3, "d": 2}, nil, "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 99, "11 settlements of one address failed"},
		"the limit":                 {map[string]int{"a": 2}, nil, "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 2, "3 settlements, 2 of them failed, passed the limit of 2"},
		"served":                    {nil, spent("9", sold), "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1}, 99, "a payment that reverts was served"},
		"charged":                   {nil, spent("9", refused), "sold", []*payment{spent("1", sold)}, map[string]int{"1": 1, "9": 1}, 99, "a payment that reverts was charged"},
		"another payer is capped":   {map[string]int{"a": 3}, nil, capped, []*payment{spent("1", refused)}, nil, 99, "refused for too many failed settlements"},
		"the month, with free ones": {map[string]int{"a": 2}, spent("9", refused), limited, nil, nil, 4, "the month is closed before its limit"},
		"new payers, after three":   {map[string]int{"a": 3}, spent("9", refused), limited, nil, nil, 24, ""},
		"one who paid, after three": {map[string]int{"a": 3}, nil, limited, []*payment{spent("1", sold)}, map[string]int{"1": 1}, 24, "the month is closed before its limit"},
		"the month, by signed ones": {nil, nil, limited, nil, nil, 1, "the month is closed before its limit"},
		"the month, and it is true": {map[string]int{"a": 3}, spent("9", refused), limited, []*payment{spent("1", refused), spent("2", refused), spent("3", refused)}, nil, 3, ""},
		"the month, and it may be":  {map[string]int{"a": 2}, spent("9", away), limited, []*payment{spent("1", refused), spent("2", refused), spent("3", refused)}, nil, 3, ""},
		"nothing sold, no reason":   {nil, nil, "", nil, nil, 99, "nothing is sold when nothing fails any more"},
		"open, and none is left":    {nil, nil, "", []*payment{spent("1", answered(503, `{"reason":"settlement_pending"}`), lost)}, nil, 6, ""},
		"open, and some are left":   {nil, nil, "", []*payment{spent("1", answered(503, `{"reason":"settlement_pending"}`))}, nil, 7, "not sold when nothing failed any more"},
		"away, and none is left":    {nil, nil, "", []*payment{spent("1", away)}, nil, 6, "nothing is sold when nothing fails any more"},
		"refused at the end":        {nil, nil, "", []*payment{spent("1", refused)}, nil, 99, "nothing is sold when nothing fails any more"},
	} {
		last := &purchase{kind: honest, by: &client.Account{}, ended: c.ended, payments: c.payments}
		b := &buyers{journal: newJournal(), last: last, purchases: []*purchase{last}}
		if c.reverting != nil {
			b.purchases = append(b.purchases, &purchase{kind: reverting, by: &client.Account{Address: "a"}, payments: []*payment{c.reverting}})
		}
		audit{buyers: b, transfers: c.transfers, failed: c.failed, limit: c.limit}.judgeMoney()
		wantFound(t, name, b, c.want)
	}
}

// TestJudge_AWrongClockMayReopen goes over the one excuse for failures
// that no answer shows.
func TestJudge_AWrongClockMayReopen(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		b := &buyers{journal: newJournal(), purchases: []*purchase{
			{kind: reverting, by: &client.Account{Address: "a"}, payments: []*payment{spent("9", answered(402, "{}"))}},
		}}
		audit{buyers: b, failed: map[string]int{"a": 4}, limit: 9, clockWrong: wrong}.judgeMoney()
		if found := strings.Join(b.violations, "\n"); strings.Contains(found, "settlements of a failed") == wrong {
			t.Errorf("clock wrong %t: %q", wrong, found)
		}
	}
}

func TestJudge_FindsAReceiptOfABlockNotFinal(t *testing.T) {
	for height, clean := range map[uint64]bool{9: true, 10: true, 11: false} {
		b := &buyers{journal: newJournal(), finalized: map[string]uint64{"1": 10}}
		b.judgeFinality("1", height)
		b.judgeFinality("2", height) // not known
		if b.clean() != clean {
			t.Errorf("block %d: %v", height, b.violations)
		}
	}
}

// TestJudge_FindsAWebSocketPastItsSession opens one to an application that
// never ends it.
func TestJudge_FindsAWebSocketPastItsSession(t *testing.T) {
	app := newApp(t)
	for _, c := range []struct {
		over, ends bool
		want       string
	}{{false, false, ""}, {true, true, ""}, {true, false, "a WebSocket of eva is still open after its end"}} {
		u := &users{journal: newJournal(), Auth: client.Auth{URL: app.URL}}
		s := &session{Session: &client.Session{}, user: &user{name: "eva"}}
		s.ended.Store(c.over)
		u.openStream(t.Context(), s)
		u.openStream(t.Context(), s)
		if len(u.streams) != 2 {
			t.Fatalf("%d are open: %s", len(u.streams), u)
		}
		if c.ends {
			for _, each := range u.streams {
				_ = each.body.Close()
				<-each.done
			}
		}
		u.streamsEnd(20 * time.Millisecond)
		if found := strings.Join(u.violations, "\n"); found != c.want {
			t.Errorf("%+v: found %q", c, found)
		}
	}
}

// TestJudge_FindsASessionPastItsEnd has a service that accepts every
// session, at one of two paths.
func TestJudge_FindsASessionPastItsEnd(t *testing.T) {
	for path, want := range map[string]string{"/api/v1/auth/me": "GET /me", "/internal/forward-auth": "the guard"} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		for why, end := range map[string]func(*session){
			"":                       func(*session) {},
			"the deletion":           func(s *session) { s.user.deleted.Store(true) },
			"the change":             func(s *session) { s.old = true; s.user.changed.Store(true) },
			"its end":                func(s *session) { s.ended.Store(true) },
			"no reason (it changed)": func(s *session) { s.old, s.changer = true, true; s.user.changed.Store(true) },
		} {
			s := &session{Session: &client.Session{}, user: &user{name: "eva"}}
			end(s)
			u := &users{
				journal: newJournal(), Auth: client.Auth{URL: service.URL, HTTP: service.Client()},
				guard: strings.TrimPrefix(service.URL, "http://"), sessions: []*session{s},
			}
			u.tryEnded(t.Context())
			found := strings.Join(u.violations, "\n")
			if over := s.over() != ""; over == u.clean() || (over && (!strings.Contains(found, want) || !strings.Contains(found, why))) {
				t.Errorf("%s, %s: found %q", path, why, found)
			}
		}
		service.Close()
	}
}
