package e2e

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// The commonest tasks of a household, in at most the clicks and fields of clients/tasks.mjs.

func TestTask_OpensAnApplication(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "open.mjs", v.asMember(t, h, "ida")...)
	})
}

func TestTask_SetsUpCodesFromAnApp(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "codes.mjs", v.asMember(t, h, "cora")...)
	})
}

func TestTask_LogsInByPasswordAndCode(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "code.mjs", v.asMember(t, h, "toni")...)
	})
}

func TestTask_AddsAPasskeyAndLogsInByIt(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "key.mjs", v.asMember(t, h, "kim")...)
	})
}

// TestTask_AddsAnApplication has an application that says who uses it.
func TestTask_AddsAnApplication(t *testing.T) {
	radicale := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html><html lang=de><link rel=icon href=data:,><title>Radicale</title><h1>Radicale: %s</h1>", html.EscapeString(r.Header.Get("X-Remote-User")))
	}))
	t.Cleanup(radicale.Close)
	node(t)
	chromium(t)
	var h household
	o := h.options("localhost", nil)
	change := o.change
	o.change = func(l *layout.Layout) {
		change(l)
		l.Extra["pforte-proxy"]["APPS"], l.Extra["pforte-proxy"]["APPS_TO"] = "lan", strings.TrimPrefix(radicale.URL, "http://")
	}
	h.world = newWorld(t, o)
	inAllVariants(t, func(t *testing.T, v variant) {
		h.journey(t, "add.mjs", append(append(h.asAdmin(t), "NAME=Kalender "+v.name, "SLUG=kalender-"+v.name, "UPSTREAM="+radicale.URL), v.env...)...)
	})
}

func TestTask_EndsASessionElsewhere(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "end.mjs", v.asMember(t, h, "enno")...)
	})
}

func TestTask_InvitesAndJoins(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "join.mjs", append(append(h.asAdmin(t), "MEMBER="+v.name), v.env...)...)
	})
}

func TestTask_HelpsWithAForgottenPassword(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.member(t, "vera-"+v.name)
		h.journey(t, "forgotten.mjs", append(append(h.asAdmin(t), "MEMBER=vera-"+v.name), v.env...)...)
	})
}

func TestTwice_PressingAButtonReportsNoFailureAfterSuccess(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := commonHousehold(t)
		h.journey(t, "twice.mjs", append(h.asAdmin(t), "LANGUAGE="+lang)...)
		h.journey(t, "twice.mjs", append(h.asAdmin(t), "LANGUAGE="+lang, "SCRIPTS=no")...)
	})
}
