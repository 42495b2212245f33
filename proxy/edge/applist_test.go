package edge

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const pin = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func TestList_HasOneFormForEachMember(t *testing.T) {
	t.Parallel()
	for entry, reason := range map[string]string{
		`{"slug":"a","host":"a.example.org","to":"http://a:1"}`:                                                               "",
		`{"slug":"a","host":"a.localhost:8080","to":"http://10.0.0.1:65535"}`:                                                 "",
		`{"slug":"a","path":"/a/","to":"http://[fd00::1]:80","strip":true,"user_header":"Remote-User"}`:                       "",
		`{"slug":"a","path":"/a/b/","to":"https://nas.lan:5001","pin":"` + pin + `"}`:                                         "",
		`{"slug":"a","host":"a","to":"http://a:1","name":"\" } <b>","new":{"x":1}}`:                                           "",
		`{"slug":"a","to":"http://a:1"}`:                                                                                      "form",
		`{"slug":"a","host":"a","path":"/a/","to":"http://a:1"}`:                                                              "form",
		`{"slug":"a","host":"*.example.org","to":"http://a:1"}`:                                                               "form",
		`{"slug":"a","host":"A.example.org","to":"http://a:1"}`:                                                               "form",
		`{"slug":"a","host":"a.example.org.","to":"http://a:1"}`:                                                              "form",
		`{"slug":"a","host":"a.example.org:0","to":"http://a:1"}`:                                                             "form",
		`{"slug":"a","host":"a.example.org:65536","to":"http://a:1"}`:                                                         "form",
		`{"slug":"a","host":"{env.HOME}","to":"http://a:1"}`:                                                                  "form",
		`{"slug":"a","host":7,"to":"http://a:1"}`:                                                                             "form",
		`{"slug":"a","path":"a/","to":"http://a:1"}`:                                                                          "form",
		`{"slug":"a","path":"/","to":"http://a:1"}`:                                                                           "form",
		`{"slug":"a","path":"/a","to":"http://a:1"}`:                                                                          "form",
		`{"slug":"a","path":"/a/../b/","to":"http://a:1"}`:                                                                    "form",
		`{"slug":"a","path":"/a*/","to":"http://a:1"}`:                                                                        "form",
		`{"slug":"a","path":"/pforte/","to":"http://a:1"}`:                                                                    "own",
		`{"slug":"a","path":"/API/v1/","to":"http://a:1"}`:                                                                    "own",
		`{"slug":"a","path":"/v1/x/","to":"http://a:1"}`:                                                                      "own",
		`{"slug":"a","path":"/mcp/","to":"http://a:1"}`:                                                                       "own",
		`{"slug":"a","path":"/internal/","to":"http://a:1"}`:                                                                  "own",
		`{"slug":"a","path":"/health/","to":"http://a:1"}`:                                                                    "own",
		`{"slug":"a","host":"a","to":"a:1"}`:                                                                                  "address",
		`{"slug":"a","host":"a","to":"http://a"}`:                                                                             "address",
		`{"slug":"a","host":"a","to":"http://a:1/"}`:                                                                          "address",
		`{"slug":"a","host":"a","to":"http://a:1/x"}`:                                                                         "address",
		`{"slug":"a","host":"a","to":"http://u@a:1"}`:                                                                         "address",
		`{"slug":"a","host":"a","to":"ftp://a:1"}`:                                                                            "address",
		`{"slug":"a","host":"a","to":"unix//run/x"}`:                                                                          "address",
		`{"slug":"a","host":"a","to":"http://127.1:1"}`:                                                                       "address",
		`{"slug":"a","host":"a","to":"http://2130706433:1"}`:                                                                  "address",
		`{"slug":"a","host":"a","to":"http://0x7f000001:1"}`:                                                                  "address",
		`{"slug":"a","host":"a","to":"http://0177.0.0.1:1"}`:                                                                  "address",
		`{"slug":"a","host":"a","to":"http://[::ffff:127.0.0.1]:1"}`:                                                          "address",
		`{"slug":"a","host":"a","to":"http://[fe80::1%25eth0]:1"}`:                                                            "address",
		`{"slug":"a","host":"a","to":"http://x\"}:1"}`:                                                                        "address",
		`{"slug":"a","host":"a","to":"http://{env.HOME}:1"}`:                                                                  "address",
		`{"slug":"a","host":"a","to":"http://a:1\n"}`:                                                                         "address",
		`{"slug":"a","host":"a","to":"http://a:1","user_header":"Host"}`:                                                      "header",
		`{"slug":"a","host":"a","to":"http://a:1","user_header":"{env.HOME}"}`:                                                "header",
		`{"slug":"a","host":"a","to":"https://a:1"}`:                                                                          "certificate",
		`{"slug":"a","host":"a","to":"https://a:1","pin":"` + strings.ToUpper(pin) + `"}`:                                     "certificate",
		`{"slug":"a","host":"a","to":"http://a:1","pin":"` + pin + `"}`:                                                       "certificate",
		`{"slug":"b","host":"other.example.org","to":"http://b:1"},{"slug":"a","host":"other.example.org","to":"http://a:1"}`: "form",
		`{"slug":"b","path":"/b/","to":"http://b:1"},{"slug":"a","path":"/b/","to":"http://a:1"}`:                             "form",
	} {
		list, err := parseList([]byte(`{"version":1,"apps":[` + entry + `,{"slug":"good","host":"good","to":"http://good:1"}]}`))
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		served := slices.ContainsFunc(list.apps, func(app App) bool { return app.Slug == "a" })
		if served != (reason == "") || list.skipped["a"] != reason {
			t.Errorf("%s: served is %t, skipped is %q, want %q", entry, served, list.skipped, reason)
		}
		if list.apps[len(list.apps)-1].Slug != "good" {
			t.Errorf("%s: it takes another's place", entry)
		}
	}
}

func TestList_WhatNamesNoSlugIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		`7`, `null`, `[]`, `{}`, `{"slug":"x y","host":"a","to":"http://a:1"}`, `{"slug":"{env.HOME}","host":"a","to":"http://a:1"}`,
		`{"slug":"` + strings.Repeat("a", 33) + `","host":"a","to":"http://a:1"}`, `{"slug":["a"],"host":"a","to":"http://a:1"}`,
	} {
		list, err := parseList([]byte(`{"version":1,"apps":[` + entry + `]}`))
		if err != nil || len(list.apps) != 0 || len(list.skipped) != 0 {
			t.Errorf("%s: %+v, %v", entry, list, err)
		}
	}
}

func TestList_OnlyVersion1WithAnArrayIsOne(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"", "null", "[]", "<html>", `{"version":1}`, `{"version":1,"apps":null}`, `{"version":1,"apps":{}}`, `{"apps":[]}`, `{"version":2,"apps":[]}`,
		`{"version":1,"apps":[]`, `{"version":1,"apps":[]} {}`, `{"version":1,"apps":[],"never":[` + strings.Repeat(`"a:1",`, 1024) + `"a:1"]}`,
		`{"version":1,"apps":[],"x":"` + strings.Repeat("x", maxListBytes) + `"}`,
	} {
		if list, err := parseList([]byte(answer)); err == nil {
			t.Errorf("%.40s: %+v", answer, list)
		}
	}
	// A machine with many containers has many addresses.
	many := `{"version":1,"apps":[],"never":[` + strings.Repeat(`"a:1",`, 1023) + `"a:1"`
	if _, err := parseList([]byte(many + `]}`)); err != nil {
		t.Error(err)
	}
	if _, err := parseList([]byte(many + `,"a:1"]}`)); err == nil || !strings.Contains(err.Error(), "1025 addresses") {
		t.Errorf("one more address: %v", err)
	}
	list, err := parseList([]byte(`{"version":1,"etag":"\"a\"","household":"Familie\nKern","apps":[]}`))
	if err != nil || list.etag != `"a"` || list.household != "FamilieKern" || len(list.apps) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A name of the local network may be the slug of another application.
func TestList_AHostMayBeNamedAsASlug(t *testing.T) {
	t.Parallel()
	for _, entries := range []string{
		`{"slug":"nas","host":"files.lan","to":"http://a:1"},{"slug":"media","host":"nas","to":"http://a:2"}`,
		`{"slug":"media","host":"nas","to":"http://a:2"},{"slug":"nas","host":"files.lan","to":"http://a:1"}`,
	} {
		list, err := parseList([]byte(`{"version":1,"apps":[` + entries + `]}`))
		if err != nil || len(list.apps) != 2 || len(list.skipped) != 0 {
			t.Errorf("%s: %+v, %v", entries, list, err)
		}
	}
}

func TestList_IsBounded(t *testing.T) {
	t.Parallel()
	var entries []string
	for i := range maxApps + 5 {
		entries = append(entries, fmt.Sprintf(`{"slug":"a%d","host":"a%d","to":"http://a:1"}`, i, i))
	}
	list, err := parseList([]byte(`{"version":1,"apps":[` + strings.Join(entries, ",") + `]}`))
	if err != nil || len(list.apps) != maxApps || len(list.skipped) != 5 || list.skipped["a504"] != skipMany {
		t.Errorf("%d applications, skipped are %v, %v", len(list.apps), list.skipped, err)
	}
}

// Whatever comes, what is served fits into JSON as it is, and into the report.
func FuzzList(f *testing.F) {
	f.Add([]byte(`{"version":1,"etag":"\"a2\"","household":"Kern","apps":[{"slug":"notes","name":"N","host":"n.example.org:8","to":"http://n:8080"},
		{"slug":"cal","path":"/cal/","to":"https://[fd00::1]:1","pin":"` + pin + `","strip":true,"user_header":"X-User"}],
		"never":["redis:6379"],"probe":[{"id":"p1","to":"http://n:8080"}]}`))
	f.Add([]byte(`{"version":1,"apps":[{"slug":"a"},7,{"host":"{x}"}]}`))
	plain := regexp.MustCompile(`\A[A-Za-z0-9:/._~\[\]-]*\z`)
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseList(b)
		if err != nil {
			return
		}
		places := map[string]bool{}
		for _, app := range list.apps {
			for _, s := range []string{app.Slug, app.Host, app.Path, app.To, app.UserHeader, app.Pin} {
				if !plain.MatchString(s) {
					t.Errorf("%q is served", s)
				}
			}
			if app.Slug == "" || app.To == "" || (app.Host == "") == (app.Path == "") || places[app.Host+app.Path] || places[app.Slug] {
				t.Errorf("%+v is served", app)
			}
			places[app.Host+app.Path], places[app.Slug] = true, true
		}
		for slug := range maps.Keys(list.skipped) {
			if !slugForm.MatchString(slug) || places[slug] {
				t.Errorf("%q is reported", slug)
			}
		}
		if _, err := json.Marshal(list.skipped); err != nil {
			t.Error(err)
		}
	})
}
