package beacon_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/beacon"
)

func open(t *testing.T, answer http.HandlerFunc) (*beacon.Node, string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	n, err := beacon.Open(server.URL+"/secret/?key=hidden", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return n, server.URL
}

// all calls everything that a node answers.
func all(t *testing.T, n *beacon.Node) map[string]error {
	t.Helper()
	errs := map[string]error{}
	_, errs["genesis"] = n.Genesis(t.Context())
	_, errs["spec"] = n.Spec(t.Context())
	_, errs["finality"] = n.FinalityUpdate(t.Context())
	_, errs["update"] = n.Update(t.Context(), 7)
	_, errs["bootstrap"] = n.Bootstrap(t.Context(), finality.Root{1})
	return errs
}

func TestAnswer_HostileOnesAreErrorsThatHoldNoKey(t *testing.T) {
	large := strings.Repeat(" ", 1<<20+1)
	for name, answer := range map[string]http.HandlerFunc{
		"too large": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(large)) },
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"status":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"null":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) },
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := open(t, answer)
			for what, err := range all(t, n) {
				if err == nil && (name != "null" || what != "spec") { // a specification without constants fits no network
					t.Errorf("%s: no error", what)
				}
				if err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "secret")) {
					t.Errorf("%s: the error holds the key: %v", what, err)
				}
			}
		})
	}
}

func TestError_DoesNotRepeatWhatANodeSent(t *testing.T) {
	name := strings.Repeat("n", 300_000)
	n, _ := open(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":{"` + name + `":1,"` + name + `":1}}`))
	})
	for what, err := range all(t, n) {
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d bytes", what, len(err.Error()))
		}
	}
}

func TestError_WhatANodeDoesNotHaveIsToldApart(t *testing.T) {
	n, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/secret/eth/v1/beacon/light_client/updates" {
			if r.URL.RawQuery != "start_period=7&count=1&key=hidden" {
				t.Errorf("asked for %s", r.URL.RequestURI())
			}
			_, _ = w.Write([]byte("[]"))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	for what, err := range all(t, n) {
		if !errors.Is(err, chain.ErrNoBeaconData) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSpec_ListsAreLeftOut(t *testing.T) {
	n, _ := open(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":{"SLOTS_PER_EPOCH":"32","BLOB_SCHEDULE":[{"EPOCH":"1"}]}}`))
	})
	spec, err := n.Spec(t.Context())
	if err != nil || len(spec) != 1 || spec["SLOTS_PER_EPOCH"] != "32" {
		t.Errorf("%v, %v", spec, err)
	}
}
