package receiptlog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

func TestPolicy_QuorumOfGroups(t *testing.T) {
	text := fmt.Sprintf("# a comment\n\n \tlog\t%s \n", logSigner(t).Key)
	for n := range 6 {
		text += fmt.Sprintf("witness w%d %s https://w%d.example.com/\n", n, witness(t, n).Key, n)
	}
	text += "group x 2 w0 w1 w2\ngroup y any w3 w4\ngroup both all x y\nquorum both\n"
	p := must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte(text)))
	if p.Unwitnessed() || len(p.Logs) != 1 || len(p.Witnesses) != 6 || p.Witnesses[3].URL != "https://w3.example.com/" {
		t.Errorf("%+v", p)
	}
	m := sample(t, 5)
	for _, test := range []struct {
		cosigned []int
		met      bool
	}{
		{nil, false},
		{[]int{0, 1}, false},
		{[]int{3}, false},
		{[]int{0, 3}, false},
		{[]int{0, 1, 5}, false},
		{[]int{3, 4, 5}, false},
		{[]int{0, 1, 3}, true},
		{[]int{1, 2, 4}, true},
		{[]int{0, 1, 2, 3, 4, 5}, true},
	} {
		w, err := p.Open(m.signed(t, test.cosigned...))
		if test.met != (err == nil) || !test.met && !errors.Is(err, receiptlog.ErrQuorum) {
			t.Errorf("cosigned by %v: %v", test.cosigned, err)
		}
		if test.met && len(w.Cosignatures) != len(test.cosigned) {
			t.Errorf("cosigned by %v: %+v", test.cosigned, w.Cosignatures)
		}
	}
}

func TestPolicy_QuorumOfOneWitnessAndOfNone(t *testing.T) {
	m := sample(t, 5)
	if _, err := policy(t, "w1").Open(m.signed(t, 1)); err != nil {
		t.Error(err)
	}
	if _, err := policy(t, "w1").Open(m.signed(t, 0, 2)); !errors.Is(err, receiptlog.ErrQuorum) {
		t.Errorf("others than the quorum's: %v", err)
	}
	if w, err := policy(t, "none").Open(m.signed(t)); err != nil || !policy(t, "none").Unwitnessed() {
		t.Error(err)
	} else if _, ok := w.Earliest(); ok {
		t.Error("a time without a cosignature")
	}
}

func TestPolicy_ThatWasNotReadAcceptsNothing(t *testing.T) {
	p := receiptlog.Policy{Logs: []receiptlog.PolicyLog{{Key: logSigner(t).Key}}}
	if w, err := p.Open(sample(t, 5).signed(t, 0, 1, 2)); !errors.Is(err, receiptlog.ErrUnknownLog) || p.Unwitnessed() {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestPolicy_ALogSpeaksForItsOwnOriginOnly(t *testing.T) {
	other := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner("other.example.com/log", seeded("other")))
	p := must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte(policyText(t, "none") + "log " + other.Key.String() + "\n")))
	c := sample(t, 5).checkpoint(t, 5)
	// A log of the policy can put its line below another log's checkpoint, as a witness does.
	c.Origin = "other.example.com/log"
	signed := must[[]byte](t)(c.Sign(other))
	foreign := c
	foreign.Origin = "third.example.com/log"
	third := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(foreign.Origin, seeded("third")))
	if _, err := p.Open(signed); err != nil {
		t.Error(err)
	}
	if w, err := p.Open(must[[]byte](t)(foreign.Sign(third))); !errors.Is(err, receiptlog.ErrUnknownLog) {
		t.Errorf("%+v, %v", w, err)
	}
	// Both logs are the policy's: one signs under the name of the other.
	own := sample(t, 5).checkpoint(t, 5)
	if w, err := p.Open(must[[]byte](t)(note.Sign(&note.Note{Text: own.Text()}, other))); !errors.Is(err, receiptlog.ErrUnknownLog) {
		t.Errorf("a checkpoint of %s that only %s signed: %+v, %v", own.Origin, other.Name(), w, err)
	}
}

// cosignedAt returns a checkpoint that the witnesses 0, 1, … cosigned at such seconds after at.
func cosignedAt(t *testing.T, m *memory, seconds ...int) []byte {
	t.Helper()
	text := m.signed(t)
	for n, after := range seconds {
		name := fmt.Sprintf("witness%d.example.com", n)
		s := must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner(name, seeded(name), func() time.Time { return at().Add(time.Duration(after) * time.Second) }))
		text = append(text, must[[]byte](t)(m.checkpoint(t, int64(len(m.entries))).Cosign(s))...)
	}
	return text
}

func TestTimes_AreThoseOfAQuorumAndNotOfOneWitness(t *testing.T) {
	m := sample(t, 5)
	for _, c := range []struct {
		quorum           string
		seconds          []int
		earliest, newest int
	}{
		{"two", []int{-1_000_000_000, 10, 20}, 10, 10}, // one dates back
		{"two", []int{1_000_000, 10, 20}, 20, 20},      // one is ahead
		{"two", []int{30, 10, 20}, 20, 20},
		{"two", []int{30, 10}, 30, 10},
		{"w1", []int{-5, 10, 20}, 10, 10},
		{"none", []int{-5, 10}, 10, -5},
	} {
		w, err := policy(t, c.quorum).Open(cosignedAt(t, m, c.seconds...))
		if err != nil {
			t.Fatal(err)
		}
		earliest, _ := w.Earliest()
		newest, _ := w.Newest()
		if earliest.Sub(at()) != time.Duration(c.earliest)*time.Second || newest.Sub(at()) != time.Duration(c.newest)*time.Second {
			t.Errorf("quorum %s, cosigned %v s after: earliest %v, newest %v", c.quorum, c.seconds, earliest.Sub(at()), newest.Sub(at()))
		}
	}
}

func TestPolicy_ThatIsNotClearIsRefused(t *testing.T) {
	w := func(n int) string { return witness(t, n).Key.String() }
	log := logSigner(t).Key.String()
	renamed := must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner("renamed", seeded("witness0.example.com"), at)).Key.String()
	asWitness := must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner("w", seeded("log"), at)).Key.String()
	many := func(line func(int) string) string {
		var text strings.Builder
		for n := range 65 {
			text.WriteString(line(n))
		}
		return text.String() + "quorum none\n"
	}
	for name, text := range map[string]string{
		"empty": "", "no quorum": "log " + log + "\n", "two quorums": "quorum none\nquorum none\n", "cut off": "quorum none",
		"unknown quorum": "quorum w\n", "quorum before its witness": "quorum a\nwitness a " + w(0) + "\n", "quorum of two": "witness a " + w(0) + "\nwitness b " + w(1) + "\nquorum a b\n",
		"unknown word": "quorum none\nwitnesses 1\n", "word in capitals": "Quorum none\n", "name twice": "witness a " + w(0) + "\nwitness a " + w(1) + "\nquorum a\n",
		"key twice": "witness a " + w(0) + "\nwitness b " + renamed + "\nquorum a\n", "log twice": "log " + log + "\nlog " + log + "\nquorum none\n",
		"log as its witness": "log " + log + "\nwitness a " + asWitness + "\nquorum a\n",
		"witness none":       "witness none " + w(0) + "\nquorum none\n", "group none": "witness a " + w(0) + "\ngroup none any a\nquorum none\n",
		"member none": "group g any none\nquorum g\n", "empty group": "group g any\nquorum none\n", "member unknown": "group g any a\nquorum g\n",
		"member twice":         "witness a " + w(0) + "\ngroup g 2 a a\nquorum g\n",
		"member of two groups": "witness a " + w(0) + "\ngroup g any a\ngroup h any a\nquorum h\n", "itself": "group g any g\nquorum g\n",
		"threshold 0": "witness a " + w(0) + "\ngroup g 0 a\nquorum g\n", "threshold above": "witness a " + w(0) + "\ngroup g 2 a\nquorum g\n",
		"threshold 01": "witness a " + w(0) + "\ngroup g 01 a\nquorum g\n", "threshold +1": "witness a " + w(0) + "\ngroup g +1 a\nquorum g\n",
		"log's key as a witness's": "witness a " + log + "\nquorum a\n", "witness's key as a log's": "log " + w(0) + "\nquorum none\n",
		"four words": "log " + log + " https://x y\nquorum none\n", "carriage return": "quorum none\r\n", "NUL": "quorum none\n#\x00\n", "DEL": "#\x7f\nquorum none\n",
		"no-break space": "quorum\u00a0none\n", "too large": strings.Repeat("#\n", 40000) + "quorum none\n",
		"too many witnesses": many(func(n int) string { return fmt.Sprintf("witness w%d %s\n", n, w(n)) }),
	} {
		judgeAlike(t, nil, nil, []byte(text), nil)
		if p, err := receiptlog.ParsePolicy([]byte(text)); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
