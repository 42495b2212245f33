package main

import (
	"cmp"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// opens are the headers with which a browser opens a page, over https or localhost and over plain http.
var opens = map[string][]string{
	"a browser": {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none", "Accept", "text/html,*/*;q=0.8"},
	"plain":     {"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"},
}

// wantPage checks what each page has.
func wantPage(t *testing.T, got answer, status int, refresh bool, texts ...string) {
	t.Helper()
	h := got.Header
	if got.StatusCode != status || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v %s", got.StatusCode, h, got.body)
	}
	if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	if (h.Get("Refresh") == "5") != refresh || !refresh && h.Get("Refresh") != "" {
		t.Errorf("Refresh is %q", h.Get("Refresh"))
	}
	for _, text := range texts {
		if without, no := strings.CutPrefix(text, "not:"); no == strings.Contains(got.body, without) {
			t.Errorf("%q: %s", text, got.body)
		}
	}
	if strings.Contains(got.body, "<script") || strings.Contains(got.body, " style=") || len(got.body) > 8<<10 {
		t.Errorf("%d bytes: %s", len(got.body), got.body)
	}
}

func TestPage_SaysToPeopleWhatFails(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"ROUTES": `
		handle /loop/* {
			error 508
		}
		handle /slow/* {
			error 504
		}
		handle /app/* {
			reverse_proxy 127.0.0.1:1
		}`})
	h.app.Close()
	for how, headers := range opens {
		german := append([]string{"Accept-Language", "fr, de-AT;q=0.8, en;q=0.5", "Cookie", "svc.sid=member"}, headers...)
		english := append([]string{"Accept-Language", "tr, fr;q=0.8"}, headers...)
		t.Log(how)
		wantPage(t, h.request(t, "GET", "/nothing", "", german...), 404, false, `<html lang="de">`, "Hier ist nichts.", "Zur Startseite", "not:Jetzt versuchen")
		wantPage(t, h.request(t, "GET", "/nothing", "", english...), 404, false, `<html lang="en">`, "There is nothing here.", "To the start page")
		wantPage(t, h.request(t, "GET", "/a//b", "", english...), 404, false, "There is nothing here.")
		wantPage(t, h.request(t, "GET", "/loop/", "", german...), 508, false, "Diese Adresse führt zu Pforte selbst.")
		wantPage(t, h.request(t, "GET", "/app/x", "", german...), 502, true, "Diese Seite antwortet gerade nicht.", "noch einmal", "Jetzt versuchen", "Zur Startseite")
		wantPage(t, h.request(t, "GET", "/slow/", "", english...), 504, true, "This page is not responding.", "Try now")
		wantPage(t, h.request(t, "HEAD", "/slow/", "", english...), 504, true)
		got := h.request(t, "GET", "/app/x", "", english...)
		if got.Header.Get("Retry-After") != "2" || got.Header.Get("X-Request-Id") == "" || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got %v", got.Header)
		}
	}
}

// A form is not sent again by itself.
func TestPage_OfAFormLeadsBack(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	h.app.Close()
	headers := append([]string{"Accept-Language", "en", "Cookie", "svc.sid=member", "X-CSRF-Token", csrfToken}, opens["a browser"]...)
	host := strings.TrimPrefix(h.url, "http://")
	for referer, want := range map[string]string{
		h.url + "/form?a=1&b=%22": `href="http://` + host + `/form?a=1&amp;b=%22"`, "": `href="/pforte/"`, "https://evil.example/x": `href="/pforte/"`,
		"javascript://" + host + "/%0aalert(1)": `href="/pforte/"`, "http://u:p@" + host + "/": `href="/pforte/"`,
	} {
		got := h.request(t, "POST", "/api/v1/lists", "", append([]string{"Referer", referer}, headers...)...)
		wantPage(t, got, 502, false, want, ">Back<", "Please try again in a moment.", "not:Try now")
	}
}

func TestPage_SaysThatTheLoginIsAway(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	h.auth.Close()
	headers := append([]string{"Accept-Language", "de"}, opens["a browser"]...)
	for _, path := range []string{"/pforte/", "/api/v1/lists"} { // behind edge_cookies, and behind the guard
		wantPage(t, h.request(t, "GET", path, "", headers...), 502, true, "Die Anmeldung startet gerade neu.", "Jetzt versuchen", "not:Zur Startseite")
	}
}

// Without its stores the login answers, and cannot say who asks.
func TestPage_SaysThatTheLoginHasNoStores(t *testing.T) {
	t.Parallel()
	const answer = `{"error":"Interner Serverfehler","code":500}`
	service := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(answer))
	}).addr()
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": service})
	for _, headers := range opens {
		headers = append([]string{"Accept-Language", "de"}, headers...)
		wantPage(t, h.request(t, "GET", "/api/v1/lists", "", headers...), 500, true, "Die Anmeldung startet gerade neu.", "Jetzt versuchen", "not:Interner Serverfehler")
		wantPage(t, h.request(t, "POST", "/api/v1/lists", "a=1", headers...), 500, false, "Bitte versuch es gleich noch einmal.", ">Zurück<")
	}
	if got := h.request(t, "GET", "/api/v1/lists", ""); got.StatusCode != 500 || got.body != answer || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("a program gets %d %v %s", got.StatusCode, got.Header, got.body)
	}
}

// A login that cannot answer yet says when it can.
func TestPage_SaysThatTheLoginStarts(t *testing.T) {
	t.Parallel()
	const starts = `{"error":"Der Dienst startet gerade. Bitte gleich erneut versuchen.","code":503}`
	var after atomic.Value
	service := stand(t, "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if value, _ := after.Load().(string); value != "" {
			w.Header().Set("Retry-After", value)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(starts))
	}).addr()
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": service})
	for _, value := range []string{"7", ""} {
		after.Store(value)
		wait := cmp.Or(value, "2")
		for _, headers := range opens {
			headers = append([]string{"Accept-Language", "de"}, headers...)
			got := h.request(t, "GET", "/api/v1/lists", "", headers...)
			wantPage(t, got, 503, true, "Die Anmeldung startet gerade neu.", "Jetzt versuchen", "not:Bitte gleich erneut")
			// A browser may have a password of the application's own.
			wantPage(t, h.request(t, "GET", "/api/v1/lists", "", append(headers, "Authorization", "Basic eDp5")...), 503, true, "Die Anmeldung startet gerade neu.")
			form := h.request(t, "POST", "/api/v1/lists", "a=1", headers...)
			wantPage(t, form, 503, false, "Bitte versuch es gleich noch einmal.", ">Zurück<")
			wantPage(t, h.request(t, "GET", "/pforte/login", "", headers...), 503, true, "Die Anmeldung startet gerade neu.")
			wantPage(t, h.request(t, "POST", "/pforte/login", "a=1", headers...), 503, false, "Die Anmeldung startet gerade neu.")
			for _, page := range []answer{got, form} {
				if page.Header.Get("Retry-After") != wait {
					t.Errorf("Retry-After is %q, want %q", page.Header["Retry-After"], wait)
				}
			}
		}
		for _, path := range []string{"/api/v1/lists", "/api/v1/auth/me", "/pforte/login"} {
			got := h.request(t, "GET", path, "")
			if got.StatusCode != 503 || got.body != starts || got.Header.Get("Retry-After") != value || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: a program gets %d %v %s", path, got.StatusCode, got.Header, got.body)
			}
		}
	}
}

// auth has no page for a guard without an application.
func TestPage_SaysWhoIsLoggedOut(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for _, headers := range opens {
		headers = append([]string{"Accept-Language", "de"}, headers...)
		wantPage(t, h.request(t, "GET", "/api/v1/lists", "", headers...), 401, false, "Du bist abgemeldet.", `href="/pforte/"`)
		wantPage(t, h.request(t, "POST", "/api/v1/lists", "a=1", headers...), 401, false, "Du bist abgemeldet.", ">Zurück<")
		wantPage(t, h.request(t, "POST", "/api/v1/lists", "a=1", append(headers, "Cookie", "svc.sid=member")...), 403, false, "Das ist nicht erlaubt.")
		if got := h.request(t, "GET", "/api/v1/lists", "", append(headers, "Authorization", "Bearer x")...); got.StatusCode != 401 || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("a program with a token gets %d %v %s", got.StatusCode, got.Header, got.body)
		}
	}
	if got := h.request(t, "GET", "/api/v1/lists", ""); got.StatusCode != 401 || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("a program gets %d %v %s", got.StatusCode, got.Header, got.body)
	}
}

// The text of an error for programs stays, whatever they accept.
func TestPage_IsForThoseWhoOpenOne(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	for name, headers := range map[string][]string{
		"nothing": nil, "anything": {"Accept", "*/*"}, "JSON": {"Accept", "application/json"}, "a script": {"Accept", "text/html", "X-Requested-With", "XMLHttpRequest"},
		"fetch": {"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Accept", "text/html"}, "a frame": {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Accept", "text/html"},
		"an image": {"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, "twice": {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	} {
		t.Log(name)
		german(t, h.request(t, "GET", "/nothing", "", headers...), 404)
	}
	german(t, h.request(t, "DELETE", "/nothing", "", opens["plain"]...), 404)
}

// Where a service has no place, people get a page and programs the same as ever, the early refusal too.
func TestPage_OfAServiceThatIsFull(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	service := stand(t, "", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "wait" {
			<-leave
		}
	}).addr()
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": service, "AUTH_MAX_REQUESTS": "1"})
	defer h.keepFull(t, leave, "GET", "/api/v1/auth/me?wait")()
	ask := h.kept(t, h.url)
	for range 3 { // the first of programs is refused late, the last early
		if got := ask("GET", "/api/v1/auth/me"); got.StatusCode != 503 || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("a program gets %d %v", got.StatusCode, got.Header)
		}
		for _, headers := range opens {
			wantPage(t, ask("GET", "/api/v1/auth/me", append([]string{"Accept-Language", "de"}, headers...)...), 503, true, "Gerade ist viel los.")
			wantPage(t, ask("GET", "/api/v1/lists", headers...), 503, true, "Very busy right now.")
		}
	}
}
