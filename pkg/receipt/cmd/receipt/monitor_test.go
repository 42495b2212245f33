package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

// verifier is a site with generations of a log, two witnesses of it, and a clock.
type verifier struct {
	*testing.T
	url         string
	now         time.Time
	generations []*generation
	witnesses   []string // addresses
	policy      string   // of a reader
	keys        []byte   // the key document; nil where there is none
	state       string
}

// generation is one tree, and what is served of it.
type generation struct {
	logSite
	log   receiptlog.Generation
	notes []string // what was published, by when
	size  int64    // that was cosigned last
}

func newVerifier(t *testing.T) *verifier {
	t.Helper()
	v := &verifier{T: t, now: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), state: filepath.Join(t.TempDir(), "state")}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	v.url = server.URL
	var all []receiptlog.Key
	for n := range 3 {
		all = append(all, v.signer(n+1).Key)
	}
	lines, members := fmt.Sprintf("log %s\n", all[0]), ""
	for n := range 2 {
		name := fmt.Sprintf("w%d", n)
		seed := sha256.Sum256([]byte(name))
		signer, err := receiptlog.NewWitnessSigner(name+".example", ed25519.NewKeyFromSeed(seed[:]), func() time.Time { return v.now })
		if err != nil {
			t.Fatal(err)
		}
		state := filepath.Join(t.TempDir(), "state")
		if err := witness.Create(state); err != nil {
			t.Fatal(err)
		}
		// As one of a former version, which cosigns whatever its policy has.
		w, err := witness.Open(witness.Options{Signer: signer, Logs: all, Begin: all, State: state})
		if err != nil {
			t.Fatal(err)
		}
		served := httptest.NewServer(w)
		t.Cleanup(served.Close)
		v.witnesses = append(v.witnesses, served.URL)
		lines, members = lines+fmt.Sprintf("witness %s %s %s\n", name, signer.Key, served.URL), members+" "+name
	}
	v.policy = lines + "group ours all" + members + "\nquorum ours\n"
	v.begin()
	return v
}

func (v *verifier) signer(n int) *receiptlog.Signer {
	seed := sha256.Sum256([]byte("log"))
	s, err := receiptlog.NewLogSigner(fmt.Sprintf("verifier.example.com/v1/log/%d", n), ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		v.Fatal(err)
	}
	return s
}

// begin begins a generation, with nothing in it.
func (v *verifier) begin() *generation {
	n := len(v.generations) + 1
	s := v.signer(n)
	g := &generation{logSite: logSite{T: v.T, signer: s}, log: receiptlog.Generation{
		Origin: s.Name(), Key: s.Key.String(), Prefix: fmt.Sprintf("/v1/log/%d", n), From: "2026-11-22T00:00:00Z",
	}}
	v.generations = append(v.generations, g)
	v.publish(g)
	return g
}

// close ends a generation with what was published so many times before.
func (v *verifier) close(g *generation, back int) {
	g.log.To, g.log.Final = "2026-11-22T04:00:00Z", g.notes[len(g.notes)-1-back]
	g.notes = append(g.notes, g.log.Final)
}

// add adds entries.
func (g *generation) add(entries ...string) {
	for _, e := range entries {
		hashes, err := tlog.StoredHashes(int64(len(g.entries)), []byte(e), g)
		if err != nil {
			g.Fatal(err)
		}
		g.entries, g.hashes = append(g.entries, []byte(e)), append(g.hashes, hashes...)
	}
}

// publish has the witnesses cosign what there is, and serves it.
func (v *verifier) publish(g *generation) {
	v.Helper()
	size := int64(len(g.entries))
	root, err := tlog.TreeHash(size, g)
	if err != nil {
		v.Fatal(err)
	}
	note, err := receiptlog.Checkpoint{Origin: g.signer.Name(), Size: size, Root: root}.Sign(g.signer)
	if err != nil {
		v.Fatal(err)
	}
	body := receiptlog.AddCheckpoint{Old: g.size, Checkpoint: note}
	if g.size > 0 && g.size < size {
		if body.Hashes, err = tlog.ProveTree(size, g.size, g); err != nil {
			v.Fatal(err)
		}
	}
	for _, address := range v.witnesses {
		response, err := http.Post(address+"/add-checkpoint", "text/plain", bytes.NewReader(body.Bytes()))
		if err != nil {
			v.Fatal(err)
		}
		line, err := readBounded(response.Body, 1<<16)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			v.Fatalf("the witness answers %d %s, %v", response.StatusCode, line, err)
		}
		note = append(note, line...)
	}
	g.size, g.notes = size, append(g.notes, string(note))
}

func (v *verifier) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	data, err := v.serve(r.URL.Path)
	if err != nil {
		http.Error(out, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = out.Write(data)
}

func (v *verifier) serve(path string) ([]byte, error) {
	if path == receiptlog.DirectoryPath {
		d := receiptlog.Directory{Policy: v.policy}
		for _, g := range v.generations {
			d.Logs = append([]receiptlog.Generation{g.log}, d.Logs...)
		}
		return json.Marshal(d)
	}
	if path == keyPath && v.keys != nil {
		return v.keys, nil
	}
	for _, g := range v.generations {
		switch below, found := strings.CutPrefix(path, g.log.Prefix+"/"); {
		case found && below == "checkpoint":
			return []byte(g.notes[len(g.notes)-1]), nil
		case found:
			return g.logSite.serve("/v1/log/1/" + below)
		}
	}
	return nil, fs.ErrNotExist
}

// watch runs log check or log mirror.
func (v *verifier) watch(want int, text string, args ...string) {
	v.Helper()
	var out, errOut bytes.Buffer
	code := execute(v.Context(), append([]string{"log"}, args...), streams{strings.NewReader(""), &out, &errOut, func() time.Time { return v.now }}, "")
	if code != want || !strings.Contains(out.String()+errOut.String(), text) {
		v.Errorf("%v: exit %d, want %d with %q:\n%s%s", args, code, want, text, &out, &errOut)
	}
}

func (v *verifier) check(want int, text string, more ...string) {
	v.Helper()
	v.watch(want, text, append([]string{"check", v.url, "--log-policy", write(v.T, v.policy), "--state", v.state}, more...)...)
}

func entriesOf(n int, kind string) (all []string) {
	for i := range n {
		e, err := receiptlog.NewReceiptEntry("sha256:"+strings.Repeat("0a", 32), make([]byte, 64), fmt.Append(nil, kind, i))
		if err != nil {
			panic(err)
		}
		all = append(all, string(e.Bytes()))
	}
	return all
}

func TestLogCheck_FindsALogThatTheVerifierDoesNotList(t *testing.T) {
	v := newVerifier(t)
	g := v.generations[0]
	g.add(entriesOf(5, "sold")...)
	v.publish(g)
	v.check(0, "5 entries, 5 since the last check, seen by 2 of 2 witnesses, 2026-11-22T03:00:00Z\n")
	hidden := v.begin()
	hidden.add(entriesOf(1, "never sold")...)
	v.publish(hidden)
	v.generations = v.generations[:1] // the site does not list it, and the reader's policy neither
	want := "the witness w0 has cosigned 1 entries of verifier.example.com/v1/log/2, which the verifier does not list"
	v.check(1, want)
	v.watch(1, want, "mirror", v.url, t.TempDir(), "--log-policy", write(t, v.policy))
	v.policy += fmt.Sprintf("log %s\n", v.signer(2).Key)
	v.check(1, want)
}

func TestLogCheck_HasAClock(t *testing.T) {
	v := newVerifier(t)
	g := v.generations[0]
	g.add(entriesOf(5, "sold")...)
	v.publish(g)
	v.check(0, "5 entries")
	v.now = v.now.Add(2*time.Hour + time.Second)
	old := "was cosigned 2026-11-22T03:00:00Z, and now is 2026-11-22T05:00:01Z: more than 2h0m0s"
	v.check(1, old)
	v.watch(1, old, "mirror", v.url, t.TempDir(), "--log-policy", write(t, v.policy))
	v.check(0, "5 entries", "--max-age", "3h")
	v.publish(g) // as each hour
	v.check(0, "0 since the last check, seen by 2 of 2 witnesses, 2026-11-22T05:00:01Z")
	v.now = v.now.Add(-3 * time.Hour)
	v.check(1, "more than 2h0m0s")
}

func TestLogCheck_ComparesWithWhatTheWitnessesServe(t *testing.T) {
	v := newVerifier(t)
	g := v.generations[0]
	g.add(entriesOf(5, "sold")...)
	v.publish(g)
	shown := g.notes[len(g.notes)-1]
	g.add(entriesOf(7, "shown to buyers alone")...)
	v.publish(g)
	g.notes = append(g.notes, shown) // what watchers get
	v.check(0, "5 entries")          // it may be published in this moment
	v.now = v.now.Add(11 * time.Minute)
	v.check(1, "serves 5 entries, and the witness w0 has cosigned 12 at 2026-11-22T03:00:00Z")
	// A tree that the witnesses of the policy have not seen, which others have.
	fork := newVerifier(t)
	fork.generations[0].add(entriesOf(20, "another history")...)
	fork.publish(fork.generations[0])
	fork.policy = strings.NewReplacer(fork.witnesses[0], v.witnesses[0], fork.witnesses[1], v.witnesses[1]).Replace(fork.policy)
	fork.check(1, "verifier.example.com/v1/log/1 is not what the witness w0 has cosigned")
	for _, address := range v.witnesses {
		v.policy = strings.Replace(v.policy, address, "http://127.0.0.1:1", 1)
	}
	v.check(0, "the witness w0 could not be asked: ")
}

func TestLogCheck_GoesOverAChangeOfGeneration(t *testing.T) {
	v := newVerifier(t)
	first := v.generations[0]
	state := "chain-evidence-key/v2 #1\nsha256:" + strings.Repeat("0a", 32) + "\nactive\n"
	first.add(append(entriesOf(2, "sold"), state)...)
	v.publish(first)
	v.check(0, "3 entries, 3 since")
	first.add(entriesOf(2, "sold later")...)
	v.publish(first)
	v.close(first, 0)
	second := v.begin()
	second.add(state) // which it begins with
	v.publish(second)
	v.check(1, "not signed by a log of the policy")
	v.policy += "log " + second.log.Key + "\n"
	v.check(0, "/v1/log/1 continues: 5 entries, 2 since")
	v.now = v.now.Add(90 * time.Minute)
	v.publish(second)
	v.now = v.now.Add(90 * time.Minute) // a closed generation is as old as it is
	v.check(0, "/v1/log/2 continues: 1 entries, 0 since")
	v.generations = v.generations[1:]
	v.check(1, "the verifier does not list verifier.example.com/v1/log/1 any more, which was checked before")
}

// What was found must not be lost because of what cannot be read afterwards.
func TestLogCheck_SaysWhatItFoundBeforeAnError(t *testing.T) {
	v := newVerifier(t)
	first := v.generations[0]
	v.check(0, "0 entries")
	v.close(first, 0)
	second := v.begin()
	policy := v.policy + "log " + second.log.Key + "\n"
	v.generations = v.generations[1:]
	for _, address := range v.witnesses {
		v.policy = strings.Replace(v.policy, address, "http://127.0.0.1:1", 1)
	}
	v.check(1, "not signed by a log of the policy")
	v.check(1, "the verifier does not list verifier.example.com/v1/log/1 any more")
	v.check(1, "the witness w0 could not be asked: ")
	first.notes = append(first.notes, "no checkpoint")
	v.generations, v.policy, v.now = []*generation{first, second}, policy, v.now.Add(3*time.Hour)
	mirror := []string{"mirror", v.url, t.TempDir(), "--log-policy", write(t, v.policy)}
	v.watch(1, "malformed", mirror...)
	v.watch(1, "more than 2h0m0s", mirror...)
}

// What was kept was judged when it was kept. A reader who gets other witnesses continues from it.
func TestLogCheck_GoesOverAChangeOfWitnesses(t *testing.T) {
	v := newVerifier(t)
	g := v.generations[0]
	g.add(entriesOf(3, "sold")...)
	v.publish(g)
	folder, policy, cosigned := t.TempDir(), v.policy, g.notes[len(g.notes)-1]
	v.policy = strings.Replace(policy, "quorum ours", "quorum none", 1)
	g.notes = append(g.notes, strings.Join(strings.SplitAfter(cosigned, "\n")[:5], "")) // by the log alone
	v.check(0, "3 entries, 3 since the last check, seen by 0 of 2 witnesses")
	v.watch(0, "3 entries, 3 new", "mirror", v.url, folder, "--log-policy", write(t, v.policy))
	v.policy, g.notes = policy, append(g.notes, cosigned)
	v.check(0, "3 entries, 0 since the last check, seen by 2 of 2 witnesses")
	v.watch(0, "3 entries, 0 new", "mirror", v.url, folder, "--log-policy", write(t, v.policy))
}

func TestLogCheck_RefusesAnEndBeforeWhatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		checked bool
		want    string
	}{
		"by the watcher":   {true, "3 entries after 5"},
		"by the witnesses": {false, "verifier.example.com/v1/log/1 was closed with 3 entries, and the witness w0 has cosigned 5"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerifier(t)
			first := v.generations[0]
			first.add(entriesOf(3, "sold")...)
			v.publish(first)
			first.add(entriesOf(2, "sold later")...)
			v.publish(first)
			if c.checked {
				v.check(0, "5 entries")
			}
			v.close(first, 1) // the ledger was put back
			v.policy += "log " + v.begin().log.Key + "\n"
			v.check(1, c.want)
		})
	}
}

func TestLogCheck_ReadsTheStateOfEarlierVersions(t *testing.T) {
	v := newVerifier(t)
	g := v.generations[0]
	g.add(entriesOf(3, "sold")...)
	v.publish(g)
	v.state = write(t, g.notes[len(g.notes)-1])
	g.add(entriesOf(2, "sold later")...)
	v.publish(g)
	v.check(0, "5 entries, 2 since")
	v.check(0, "5 entries, 0 since")
	v.state = write(t, "{")
	v.check(4, "")
}

func TestLogCheck_FollowsTheStatesOfKeys(t *testing.T) {
	const cut = "revoked before 2 in 1"
	keys := func(v *verifier, status string, before string) (id string) {
		old, err := receipt.ParseKeyDocument([]byte(read(v.T, vectors+"key.json")))
		if err != nil {
			v.Fatal(err)
		}
		key := old.Keys[0]
		key.Status = status
		if before != "" {
			key.Logged = &receipt.Logged{Origin: "verifier.example.com/v1/log/1", Before: before}
		}
		active, err := receipt.NewKeyFromSeed(make([]byte, 32))
		if err != nil {
			v.Fatal(err)
		}
		doc, err := receipt.NewKeyDocument(active, old.Chain, key)
		if err != nil {
			v.Fatal(err)
		}
		if v.keys, err = json.Marshal(doc); err != nil {
			v.Fatal(err)
		}
		if len(v.generations[0].entries) == 0 {
			v.generations[0].add("chain-evidence-key/v2 #1\n" + active.ID() + "\nactive\n")
		}
		return key.KeyID
	}
	state := func(number int, id, state string) string {
		return fmt.Sprintf("chain-evidence-key/v2 #%d\n%s\n%s\n", number, id, state)
	}
	for name, c := range map[string]struct {
		first  []string // states, from number 1 on, that were checked
		then   []string // the next ones
		number int      // of the first of them, if not the next
		status string
		before string
		code   int
		want   string
	}{
		"as listed":                        {[]string{"retired", cut}, nil, 0, "revoked", "2", 0, "3 entries, 0 since"},
		"lifted, and logged":               {[]string{"retired", cut}, []string{"retired"}, 0, "retired", "", 1, "it was revoked, and is retired"},
		"lifted without an entry":          {[]string{"retired", cut}, nil, 0, "retired", "", 1, `as retired, and the log's last state of it is another: "revoked before 2 in 1"`},
		"raised without an entry":          {[]string{"retired", cut}, nil, 0, "revoked", "3", 1, `as revoked, and the log's last state`},
		"raised, and logged":               {[]string{"retired", cut}, []string{"revoked before 3 in 1"}, 0, "revoked", "3", 1, "its cut-off in generation 1 goes up from 2 to 3"},
		"lowered":                          {[]string{"retired", cut}, []string{"revoked before 1 in 1"}, 0, "revoked", "1", 0, "1 since"},
		"retired, and active again":        {[]string{"active", "retired"}, []string{"next"}, 0, "next", "", 0, "1 since"},
		"a state is missing":               {[]string{"active"}, []string{"retired"}, 3, "retired", "", 1, "its state 3 follows state 1"},
		"the first states are missing":     {nil, []string{"retired"}, 4, "retired", "", 1, "its first state has the number 4"},
		"two states with one number":       {[]string{"active"}, []string{"retired"}, 1, "retired", "", 1, "its state 1 follows state 1"},
		"a key that the log does not have": {nil, nil, 0, "retired", "", 1, "of which the log has nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerifier(t)
			g := v.generations[0]
			id := keys(v, "retired", "")
			add := func(from int, states []string) {
				for i, s := range states {
					g.add(state(from+i, id, s))
				}
				v.publish(g)
			}
			add(1, c.first)
			v.keys, v.now = nil, v.now.Add(time.Minute)
			v.check(0, "entries")
			if c.number == 0 {
				c.number = len(c.first) + 1
			}
			add(c.number, c.then)
			keys(v, c.status, c.before)
			v.check(c.code, c.want)
		})
	}
	v := newVerifier(t)
	id := keys(v, "retired", "")
	v.generations[0].add(state(1, id, "retired"), state(1, "sha256:"+strings.Repeat("0b", 32), "retired"))
	v.publish(v.generations[0])
	v.check(1, "the key document does not list sha256:0b")
}
