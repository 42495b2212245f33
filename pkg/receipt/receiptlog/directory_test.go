package receiptlog_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// generations is a list of an open generation 2 after a closed generation 1.
func generations(t testing.TB) receiptlog.Directory {
	second := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner("verifier.example.com/v1/log/2", seeded("log 2")))
	return receiptlog.Directory{
		Logs: []receiptlog.Generation{
			{Origin: second.Name(), Key: second.Key.String(), Prefix: "/v1/log/2", From: "2027-01-01T00:00:00Z"},
			{
				Origin: origin, Key: logSigner(t).Key.String(), Prefix: "/v1/log/1", From: "2026-11-22T00:00:00Z", To: "2027-01-01T00:00:00Z",
				Final: string(sample(t, 20).signed(t, 0, 1)),
			},
		},
		MergeDelay: 60, Policy: policyText(t, "two"),
	}
}

func encode(t testing.TB, d receiptlog.Directory) []byte { return must[[]byte](t)(json.Marshal(d)) }

func TestDirectory_IsReadAsWritten(t *testing.T) {
	want := generations(t)
	got, err := receiptlog.ParseDirectory(encode(t, want))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	grown := strings.Replace(string(encode(t, want)), `{"logs"`, `{"later":1,"logs"`, 1)
	if _, err := receiptlog.ParseDirectory([]byte(grown)); err != nil {
		t.Errorf("with an unknown member: %v", err)
	}
}

func TestDirectory_ThatIsNotClearIsRefused(t *testing.T) {
	for name, change := range map[string]func(*receiptlog.Directory){
		"no logs":              func(d *receiptlog.Directory) { d.Logs = nil },
		"no policy":            func(d *receiptlog.Directory) { d.Policy = "" },
		"negative delay":       func(d *receiptlog.Directory) { d.MergeDelay = -1 },
		"another's key":        func(d *receiptlog.Directory) { d.Logs[0].Key = d.Logs[1].Key },
		"no key":               func(d *receiptlog.Directory) { d.Logs[0].Key = "" },
		"another host":         func(d *receiptlog.Directory) { d.Logs[0].Prefix = "//evil.example/log" },
		"an address":           func(d *receiptlog.Directory) { d.Logs[0].Prefix = "https://evil.example/log" },
		"a path outwards":      func(d *receiptlog.Directory) { d.Logs[0].Prefix = "/v1/../admin" },
		"a query":              func(d *receiptlog.Directory) { d.Logs[0].Prefix = "/v1?x=" },
		"a time":               func(d *receiptlog.Directory) { d.Logs[0].From = "today" },
		"two open ones":        func(d *receiptlog.Directory) { d.Logs[1].To, d.Logs[1].Final = "", "" },
		"closed without final": func(d *receiptlog.Directory) { d.Logs[1].Final = "" },
		"final but not closed": func(d *receiptlog.Directory) { d.Logs[1].To = "" },
		"to without final":     func(d *receiptlog.Directory) { d.Logs[0].To = d.Logs[1].To },
		"final of another":     func(d *receiptlog.Directory) { d.Logs[0].To, d.Logs[0].Final = d.Logs[1].To, d.Logs[1].Final },
	} {
		d := generations(t)
		change(&d)
		judgeAlike(t, nil, nil, nil, encode(t, d))
		if got, err := receiptlog.ParseDirectory(encode(t, d)); err == nil || name != "final of another" && !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "[]", "{}", "null", strings.Repeat(" ", 2<<20)} {
		judgeAlike(t, nil, nil, nil, []byte(text))
		if got, err := receiptlog.ParseDirectory([]byte(text)); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%.20q: %+v, %v", text, got, err)
		}
	}
}

// Readers ask each witness for each of the origins, and the list comes from the verifier that they watch.
func TestOrigins_OfAHostileListAreFew(t *testing.T) {
	key, err := receiptlog.NewLogKey("own.example/v1/log/2", make([]byte, ed25519.PublicKeySize))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := receiptlog.ParsePolicy([]byte("log " + key.String() + "\nquorum none\n"))
	if err != nil {
		t.Fatal(err)
	}
	var list receiptlog.Directory
	for i := range 64 {
		origin := fmt.Sprintf("%d.example/v1/log/64", i)
		list.Logs = append(list.Logs, receiptlog.Generation{Origin: origin})
	}
	got := policy.Origins(list)
	if len(got) > 400 {
		t.Errorf("%d origins", len(got))
	}
	// Those of the policy, of the newest log, and all that are listed.
	for _, want := range []string{
		"own.example/v1/log/1", "own.example/v1/log/5", "0.example/v1/log/1", "0.example/v1/log/67",
		"63.example/v1/log/64",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func FuzzParseDirectory(f *testing.F) {
	f.Add(encode(f, generations(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := receiptlog.ParseDirectory(data)
		if err != nil {
			return
		}
		if again, err := receiptlog.ParseDirectory(encode(t, d)); err != nil || !cmp.Equal(d, again) {
			t.Errorf("%+v is read as %+v, %v", d, again, err)
		}
	})
}
