package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/buyer"
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
		"does not sell though well":   {[]*buyer.Spend{spent("1", away)}, nil, 0, 1, "not sold when all was well"},
		"does not answer though well": {[]*buyer.Spend{spent("1", lost)}, nil, 0, 1, "not sold when all was well"},
	} {
		s := &shop{journal: newJournal()}
		p := s.notebook.Add("", "")
		p.Spends = c.spends
		s.hopeful = []*purchase{{Purchase: p}}
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
