package httpapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// Passwords under load: bounded, and fair between networks.

// crowded is a fixture that computes one password at a time with a queue of one.
func crowded(s *settings) {
	s.hasher = password.Options{Cost: 10, Concurrency: 1, Queue: 1}
	s.attempts = 1000
}

func TestLoad_AFullQueueAnswers503AndCountsNothing(t *testing.T) {
	h := newFixture(t, crowded)
	member, admin := h.otto(), h.anna()
	var wait sync.WaitGroup
	answers := make(chan reply, 60)
	for i := range 20 {
		wait.Go(func() { answers <- h.fastBrowser().login("anna", "wrong") })
		wait.Go(func() { answers <- member.copy().changePassword("wrong", newPass) })
		wait.Go(func() { answers <- admin.copy().create("username", "user"+strconv.Itoa(i)) })
	}
	wait.Wait()
	close(answers)
	busy, refused := 0, 0
	for got := range answers {
		if got.status != http.StatusServiceUnavailable {
			continue
		}
		busy++
		if got.to.URL.Path == "/api/v1/auth/login" {
			refused++
		}
		describe(t, got.to, got.want(http.StatusServiceUnavailable))
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", got.what)
		}
	}
	if busy < 30 {
		t.Errorf("only %d of 60 were refused as busy", busy)
	}
	left, err := strconv.Atoi(h.fastBrowser().login("anna", "wrong").header.Get("RateLimit-Remaining"))
	// A refund may have come too late on a busy machine.
	if most := 1000 - 21 + refused/2; err != nil || left < most {
		t.Errorf("%d logins of 20 were refused as busy, and %d attempts of 1000 are left, %v", refused, left, err)
	}
}

// copy is another tab of the same browser.
func (b *browser) copy() *browser {
	tab := *b
	tab.cookies = map[string]string{}
	for name, value := range b.cookies {
		tab.cookies[name] = value
	}
	return &tab
}

func TestLoad_AStormFromOneNetworkKeepsNoOthersOut(t *testing.T) {
	for name, address := range map[string]func(i int) string{
		"IPv6": func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:1234", i) },
		"IPv4": func(i int) string { return fmt.Sprintf("198.51.100.%d:1234", i) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, func(s *settings) { s.hasher = password.Options{Cost: 10, Concurrency: 1, Queue: 8} })
			refused := make(chan struct{}, 40)
			var storm sync.WaitGroup
			for i := range 40 {
				storm.Go(func() {
					b := h.fastBrowser()
					b.addr = address(i)
					if b.login("anna", "wrong").status == http.StatusServiceUnavailable {
						refused <- struct{}{}
					}
				})
			}
			defer storm.Wait()
			<-refused // the queue is full
			other := h.fastBrowser()
			other.addr = "203.0.113.5:1234"
			other.login("anna", adminPass).want(http.StatusOK)
		})
	}
}
