package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// AUTH-5: login attempts and the rate limit response.

func limitHeaders(r reply) []string {
	var got []string
	for _, name := range []string{"RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After"} {
		got = append(got, r.header.Get(name))
	}
	return got
}

func wantLimit(t *testing.T, r reply, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, limitHeaders(r)); diff != "" {
		t.Errorf("%s: %d: policy, limit, remaining, reset, retry-after: %s", r.what, r.status, diff)
	}
}

func TestLoginLimit_RefusesTheSixthAfterFiveFailed(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	for _, remaining := range []string{"4", "3", "2", "1", "0"} {
		wantLimit(t, b.login("anna", "wrong").want(http.StatusUnauthorized), "5;w=60", "5", remaining, "60", "")
	}
	wantLimit(t, b.login("anna", adminPass).want(http.StatusTooManyRequests), "5;w=60", "5", "0", "60", "60")
}

func TestLoginLimit_WindowIsCorrectToTheSecond(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	b.login("anna", "wrong").want(http.StatusUnauthorized)
	h.clock.Advance(29500 * time.Millisecond)
	for _, remaining := range []string{"3", "2", "1", "0"} {
		wantLimit(t, b.login("anna", "wrong").want(http.StatusUnauthorized), "5;w=60", "5", remaining, "31", "")
	}
	h.clock.Advance(30499 * time.Millisecond)
	wantLimit(t, b.login("anna", adminPass).want(http.StatusTooManyRequests), "5;w=60", "5", "0", "1", "1")
	h.clock.Advance(time.Millisecond)
	b.login("anna", adminPass).want(http.StatusOK)
}

func TestLoginLimit_SuccessfulAndMalformedDoNotCount(t *testing.T) {
	b := newFixture(t).browser()
	for range 10 {
		wantLimit(t, b.login("anna", adminPass).want(http.StatusOK), "5;w=60", "5", "5", "60", "")
		wantLimit(t, b.send(http.MethodPost, prefix+"/login", `{`).want(http.StatusBadRequest), "5;w=60", "5", "5", "60", "")
		wantLimit(t, b.login("anna", "").want(http.StatusBadRequest), "5;w=60", "5", "5", "60", "")
		wantLimit(t, b.send(http.MethodPost, prefix+"/login", "username=anna", "Content-Type", "application/x-www-form-urlencoded").want(http.StatusUnsupportedMediaType), "5;w=60", "5", "5", "60", "")
		wantLimit(t, b.send(http.MethodPost, prefix+"/login", strings.Repeat(" ", 65537)).want(http.StatusRequestEntityTooLarge), "5;w=60", "5", "5", "60", "")
	}
}

func TestLoginLimit_ASuccessForgivesNoFailures(t *testing.T) {
	b := newFixture(t).browser()
	for range 4 {
		b.login("anna", "wrong").want(http.StatusUnauthorized)
	}
	wantLimit(t, b.login("anna", adminPass).want(http.StatusOK), "5;w=60", "5", "1", "60", "")
	b.login("anna", "wrong").want(http.StatusUnauthorized)
	b.login("anna", adminPass).want(http.StatusTooManyRequests)
}

func TestLoginLimit_ARefusedLoginIsNotCounted(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	for range 5 {
		b.login("anna", "wrong").want(http.StatusUnauthorized)
	}
	for range 20 {
		b.login("anna", "wrong").want(http.StatusTooManyRequests)
	}
	h.clock.Advance(time.Minute)
	for range 5 {
		b.login("anna", "wrong").want(http.StatusUnauthorized)
	}
}

func TestLoginLimit_LegacyHeadersAreNotSent(t *testing.T) {
	got := newFixture(t).browser().login("anna", "wrong")
	for name := range got.header {
		if strings.HasPrefix(strings.ToLower(name), "x-ratelimit") {
			t.Errorf("got %s", name)
		}
	}
}

func TestLoginLimit_100WrongAtOnceGetFive401(t *testing.T) {
	if got := burst(newFixture(t), "wrong"); got[http.StatusUnauthorized] != 5 || got[http.StatusTooManyRequests] != 95 {
		t.Errorf("got %v", got)
	}
}

func TestLoginLimit_100RightAtOnceLeaveItUntouched(t *testing.T) {
	h := newFixture(t)
	// On a machine that is busy otherwise a password's turn may come too late.
	if got := burst(h, adminPass); got[http.StatusOK] == 0 || got[http.StatusOK]+got[http.StatusTooManyRequests]+got[http.StatusServiceUnavailable] != 100 {
		t.Errorf("got %v", got)
	}
	wantLimit(t, h.browser().login("anna", adminPass).want(http.StatusOK), "5;w=60", "5", "5", "60", "")
}

// burst sends 100 logins at once and counts the statuses.
func burst(h *fixture, pass string) map[int]int {
	var wait sync.WaitGroup
	statuses := make(chan int, 100)
	for range 100 {
		wait.Go(func() { statuses <- h.fastBrowser().login("anna", pass).status })
	}
	wait.Wait()
	close(statuses)
	counts := map[int]int{}
	for status := range statuses {
		counts[status]++
	}
	return counts
}

func TestLoginLimit_OtherAddressesAreNotAffected(t *testing.T) {
	h := newFixture(t)
	attacker, neighbour := h.browser(), h.browser()
	neighbour.addr = "192.0.2.2:1234"
	for range 6 {
		attacker.login("anna", "wrong")
	}
	attacker.addr = "192.0.2.1:9999"
	attacker.login("anna", adminPass).want(http.StatusTooManyRequests)
	neighbour.login("anna", adminPass).want(http.StatusOK)
}

func TestLoginLimit_AnIPv6NetworkIsOneAddress(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	for i := range 6 {
		b.addr = "[2001:db8:0:1::" + string(rune('1'+i)) + "]:1234"
		b.login("anna", "wrong")
	}
	b.addr = "[2001:db8:0:1:ffff:ffff:ffff:ffff]:1"
	b.login("anna", adminPass).want(http.StatusTooManyRequests)
	b.addr = "[2001:db8:0:2::1]:1"
	b.login("anna", adminPass).want(http.StatusOK)
}

func TestLoginLimit_OneIPv6DelegationGetsItsShare(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		want    int
	}{
		"of one /56": {"[2001:db8:0:%x::1]:1234", 20},
		"of one /48": {"[2001:db8:0:%x00::1]:1234", 80},
	} {
		h := newFixture(t, func(s *settings) { s.hasher = password.Options{Cost: 4, Queue: 100} })
		var wait sync.WaitGroup
		statuses := make(chan int, 100)
		for i := range 100 {
			wait.Go(func() {
				b := h.fastBrowser()
				b.addr = fmt.Sprintf(c.address, i)
				statuses <- b.login("anna", "wrong").status
			})
		}
		wait.Wait()
		close(statuses)
		got := map[int]int{}
		for status := range statuses {
			got[status]++
		}
		if got[http.StatusUnauthorized] != c.want || got[http.StatusTooManyRequests] != 100-c.want {
			t.Errorf("100 wrong logins from as many /64 %s: got %v, want %d answers of 401", name, got, c.want)
		}
		b := h.browser()
		b.addr = fmt.Sprintf(c.address, 200)
		limit := strconv.Itoa(c.want)
		wantLimit(t, b.login("anna", adminPass).want(http.StatusTooManyRequests), limit+";w=60", limit, "0", "60", "60")
		b.addr = "[2001:db8:1::1]:1234"
		b.login("anna", adminPass).want(http.StatusOK)
	}
}

func TestLoginLimit_AMappedIPv4AddressIsThatAddress(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	for range 5 {
		b.addr = "[::ffff:192.0.2.1]:1234"
		b.login("anna", "wrong").want(http.StatusUnauthorized)
	}
	b.addr = "192.0.2.1:1234"
	b.login("anna", adminPass).want(http.StatusTooManyRequests)
}

func TestLoginLimit_ASpoofedAddressIsPowerless(t *testing.T) {
	for name, proxies := range map[string][]string{"without proxies": nil, "behind a proxy": {"192.0.2.1/32"}} {
		b := newFixture(t, func(s *settings) { s.proxies = proxies }).browser()
		for i := range 6 {
			invented := "203.0.113." + string(rune('1'+i))
			b.send(http.MethodPost, prefix+"/login", object("username", "anna", "password", "wrong"),
				"X-Forwarded-For", invented+", 198.51.100.7", "X-Real-Ip", invented, "Forwarded", "for="+invented, "True-Client-Ip", invented)
		}
		got := b.send(http.MethodPost, prefix+"/login", object("username", "anna", "password", adminPass), "X-Forwarded-For", "203.0.113.99, 198.51.100.7")
		if got.status != http.StatusTooManyRequests {
			t.Errorf("%s: got %d", name, got.status)
		}
	}
}

func TestLoginLimit_BehindAProxyClientsCountApart(t *testing.T) {
	b := newFixture(t, func(s *settings) { s.proxies = []string{"192.0.2.0/24"} }).browser()
	from := func(client, pass string) reply {
		return b.send(http.MethodPost, prefix+"/login", object("username", "anna", "password", pass), "X-Forwarded-For", client)
	}
	for range 5 {
		from("198.51.100.7", "wrong").want(http.StatusUnauthorized)
	}
	from("198.51.100.7", adminPass).want(http.StatusTooManyRequests)
	from("198.51.100.8", adminPass).want(http.StatusOK)
}

func TestLoginLimit_HangingUpSavesNoAttempt(t *testing.T) {
	h := newFixture(t)
	for range 5 {
		ctx, hangUp := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, prefix+"/login", strings.NewReader(object("username", "anna", "password", "wrong")))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = h.browser().addr
		hangUp()
		h.browser().do(r)
	}
	h.browser().login("anna", adminPass).want(http.StatusTooManyRequests)
}

func TestLoginLimit_ALimiterThatFailsAllowsNone(t *testing.T) {
	h := newFixture(t)
	h.brokenLimits.Store(true)
	h.browser().login("anna", adminPass).want(http.StatusInternalServerError)
	h.brokenLimits.Store(false)
	h.browser().login("anna", adminPass).want(http.StatusOK)
}

func TestLoginLimit_RefundsALoginThatFailsOtherwise(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	h.brokenUsers.Store(true)
	for range 6 {
		b.login("anna", "wrong").want(http.StatusInternalServerError)
	}
	h.brokenUsers.Store(false)
	wantLimit(t, b.login("anna", adminPass).want(http.StatusOK), "5;w=60", "5", "5", "60", "")
}

// TestLogin_RowIsNotCrowdedOutByStrangers: more work of strangers waits than the queue holds, and costs
// them no password.
func TestLogin_RowIsNotCrowdedOutByStrangers(t *testing.T) {
	h := newFixture(t)
	for range 60 { // no worker runs meanwhile
		b := h.elsewhere()
		b.unchecked = true
		for range 5 {
			b.send(http.MethodPost, prefix+"/forgot-password", object("identifier", "x")).want(http.StatusOK)
			b.send(http.MethodPost, prefix+"/passkeys/login", object("credential", struct{}{})).
				because(http.StatusUnauthorized, "passkey_failed")
		}
	}
	h.otto()
	h.audit.Drain()
	entries, _, err := h.audit.Entries(t.Context(), audit.Query{Event: "login"})
	if err != nil || len(entries) != 1 || h.audit.Dropped() != 0 {
		t.Errorf("the rows are %+v, %v, and %d pieces of work were dropped", entries, err, h.audit.Dropped())
	}
}
