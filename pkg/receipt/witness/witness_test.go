package witness_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

const origin = "verifier.example.com/v1/log/1"

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func signer(t testing.TB, name string) *receiptlog.Signer {
	return must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(name, key("log")))
}

// tree is a log in memory.
type tree struct {
	*testing.T
	size   int64
	hashes []tlog.Hash
}

func (m *tree) ReadHashes(ids []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, id := range ids {
		out = append(out, m.hashes[id])
	}
	return out, nil
}

func (m *tree) grow(n int, kind string) *tree {
	for range n {
		m.hashes = append(m.hashes, must[[]tlog.Hash](m)(tlog.StoredHashes(m.size, fmt.Append(nil, kind, m.size), m))...)
		m.size++
	}
	return m
}

func (m *tree) checkpoint(size int64) receiptlog.Checkpoint {
	return receiptlog.Checkpoint{Origin: origin, Size: size, Root: must[tlog.Hash](m)(tlog.TreeHash(size, m))}
}

// request asks to cosign a size after an older one.
func (m *tree) request(old, size int64) []byte {
	a := receiptlog.AddCheckpoint{Old: old, Checkpoint: must[[]byte](m)(m.checkpoint(size).Sign(signer(m, origin)))}
	if old > 0 && old < size {
		a.Hashes = must[tlog.TreeProof](m)(tlog.ProveTree(size, old, m))
	}
	return a.Bytes()
}

func open(t testing.TB, state string) *witness.Witness {
	t.Helper()
	return opened(t, state, func() time.Time { return time.Unix(1_800_000_000, 0) }, []receiptlog.Key{signer(t, origin).Key})
}

func opened(t testing.TB, state string, at func() time.Time, logs []receiptlog.Key, begin ...receiptlog.Key) *witness.Witness {
	t.Helper()
	w := must[*witness.Witness](t)(witness.Open(witness.Options{
		Signer: must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner("w.example", key("witness"), at)),
		Logs:   logs, Begin: begin, State: state,
	}))
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func fresh(t testing.TB) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state.json")
	if err := witness.Create(state); err != nil {
		t.Fatal(err)
	}
	return state
}

func post(h http.Handler, body []byte) (int, string, string) {
	out := httptest.NewRecorder()
	h.ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/add-checkpoint", strings.NewReader(string(body))))
	return out.Code, out.Body.String(), out.Header().Get("Content-Type")
}

func TestAddCheckpoint_CosignsOnlyAContinuation(t *testing.T) {
	state := fresh(t)
	w, m := open(t, state), (&tree{T: t}).grow(300, "entry")
	fork := (&tree{T: t}).grow(100, "entry").grow(300, "other")
	other := must[[]byte](t)(receiptlog.Checkpoint{Origin: "other.example", Size: 0, Root: sha256.Sum256(nil)}.Sign(
		must[*receiptlog.Signer](t)(receiptlog.NewLogSigner("other.example", key("log")))))
	stolen := must[[]byte](t)(m.checkpoint(300).Sign(must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(origin, key("thief")))))
	for _, c := range []struct {
		name string
		body []byte
		want int
		text string
	}{
		{"the empty tree", m.request(0, 0), 200, "— w.example "},
		{"the first", m.request(0, 100), 200, "— w.example "},
		{"the same again", m.request(100, 100), 200, "— w.example "},
		{"from too far back", m.request(0, 200), 409, "100\n"},
		{"from too far ahead", m.request(200, 300), 409, "100\n"},
		{"the next", m.request(100, 200), 200, "— w.example "},
		{"another history", fork.request(200, 400), 422, ""},
		{"the same size of another history", fork.request(200, 200), 409, "200\n"},
		{"without a proof", receiptlog.AddCheckpoint{Old: 200, Checkpoint: must[[]byte](t)(m.checkpoint(300).Sign(signer(t, origin)))}.Bytes(), 422, ""},
		{"smaller", m.request(200, 200)[4:], 400, ""},
		{"old beyond the size", []byte(strings.Replace(string(m.request(0, 100)), "old 0", "old 101", 1)), 400, ""},
		{"another log", receiptlog.AddCheckpoint{Checkpoint: other}.Bytes(), 404, ""},
		{"another's signature", receiptlog.AddCheckpoint{Old: 200, Checkpoint: stolen}.Bytes(), 403, ""},
		{"a signature of another size", []byte(strings.Replace(string(m.request(200, 300)), "\n300\n", "\n301\n", 1)), 403, ""},
		{"too long", make([]byte, 1<<20), 400, ""},
	} {
		status, text, kind := post(w, c.body)
		if status != c.want || !strings.HasPrefix(text, c.text) || (status == 409) != (kind == witness.SizeType) {
			t.Errorf("%s: %d %q %s, want %d %q", c.name, status, text, kind, c.want, c.text)
		}
	}
	if _, err := witness.Open(w.Options); err == nil { // it would not see what this one cosigns
		t.Error("two witnesses have one file")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, state) // it remembers
	if status, text, _ := post(w, m.request(100, 300)); status != 409 || text != "200\n" {
		t.Errorf("after a restart: %d %q", status, text)
	}
	if status, _, _ := post(w, m.request(200, 300)); status != 200 {
		t.Errorf("after a restart: %d", status)
	}
	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/"+witness.ID(origin)+"/checkpoint", nil))
	c, err := receiptlog.OpenCheckpoint(out.Body.Bytes(), signer(t, origin).Key)
	if err != nil || c.Size != 300 || !strings.Contains(out.Body.String(), "— w.example ") {
		t.Errorf("it serves %v:\n%s", err, out.Body)
	}
	if strings.Count(out.Body.String(), "—") != 2 {
		t.Errorf("it serves foreign lines:\n%s", out.Body)
	}
}

func TestAddCheckpoint_CosignsNothingItCannotKeep(t *testing.T) {
	folder := t.TempDir()
	state := filepath.Join(folder, "below", "state.json")
	if err := os.Mkdir(filepath.Dir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := witness.Create(state); err != nil {
		t.Fatal(err)
	}
	w, m := open(t, state), (&tree{T: t}).grow(10, "entry")
	if err := os.RemoveAll(filepath.Dir(state)); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := post(w, m.request(0, 10)); status != 500 || strings.Contains(text, "—") {
		t.Errorf("%d %q", status, text)
	}
}

func TestOpen_RefusesAnotherFile(t *testing.T) {
	state := fresh(t)
	if err := witness.Create(state); err == nil {
		t.Error("the file of a witness is made twice")
	}
	w, m := open(t, state), (&tree{T: t}).grow(10, "entry")
	if status, _, _ := post(w, m.request(0, 10)); status != 200 {
		t.Fatal(status)
	}
	file, err := os.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	good := string(must[[]byte](t)(io.ReadAll(file)))
	o := witness.Options{Signer: w.Signer, Logs: w.Logs}
	for name, text := range map[string]string{
		"empty": "", "no object": "null", "another size": strings.Replace(good, `\n10\n`, `\n11\n`, 1),
		"not cosigned": good[:strings.LastIndex(good, "— w.example")] + "\"\n}",
	} {
		o.State = filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(o.State, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := witness.Open(o); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
	o.State = filepath.Join(t.TempDir(), "absent")
	if _, err := witness.Open(o); err == nil {
		t.Error("it opens without its file")
	}
}

func TestOpen_BeginsALaterGenerationOnlyByAnAct(t *testing.T) {
	state := fresh(t)
	clock := func() time.Time { return time.Unix(1_800_000_000, 0) }
	first, second, third := signer(t, origin), signer(t, "verifier.example.com/v1/log/2"), signer(t, "verifier.example.com/v1/log/3")
	elsewhere := signer(t, "another.example.com/v1/log/1")
	stolen := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(second.Name(), key("the new key")))
	logs := []receiptlog.Key{first.Key, second.Key, third.Key, elsewhere.Key}
	ask := func(w *witness.Witness, s *receiptlog.Signer, want int) {
		t.Helper()
		m := (&tree{T: t}).grow(1, s.Name())
		c := m.checkpoint(1)
		c.Origin = s.Name()
		body := receiptlog.AddCheckpoint{Checkpoint: must[[]byte](t)(c.Sign(s))}
		if status, text, _ := post(w, body.Bytes()); status != want {
			t.Errorf("%s: %d %q, want %d", s.Key, status, text, want)
		}
	}
	again := func(w *witness.Witness, logs []receiptlog.Key, begin ...receiptlog.Key) *witness.Witness {
		t.Helper()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return opened(t, state, clock, logs, begin...)
	}
	w := opened(t, state, clock, logs)
	ask(w, second, 404) // of the logs of a policy, the generations to come
	ask(w, third, 404)
	ask(w, first, 200)
	ask(w, elsewhere, 200) // another verifier's
	if waiting := w.Waiting(); len(waiting) != 2 || waiting[0].String() != second.Key.String() {
		t.Errorf("waiting: %v", waiting)
	}
	w = again(w, logs)
	ask(w, second, 404)
	w = again(w, logs, second.Key)
	w = again(w, logs) // the act was done
	ask(w, second, 200)
	ask(w, third, 404)
	// The key was stolen, and the generation burnt: it begins with another key.
	logs = []receiptlog.Key{first.Key, stolen.Key}
	w = again(w, logs)
	ask(w, stolen, 404)
	if _, err := receiptlog.OpenCheckpoint([]byte(served(w, second.Name())), second.Key); err != nil {
		t.Errorf("it does not serve what it cosigned by a key that its list has no more: %v", err)
	}
	w = again(w, logs, stolen.Key)
	ask(w, second, 403)
	ask(w, stolen, 200)
	if out := served(w, second.Name()); !strings.Contains(out, "— "+second.Name()+" ") {
		t.Errorf("it serves %s", out)
	} else if _, err := receiptlog.OpenCheckpoint([]byte(out), stolen.Key); err != nil {
		t.Errorf("of two keys it serves that which its list does not have: %v", err)
	}
}

func served(w *witness.Witness, origin string) string {
	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/"+witness.ID(origin)+"/checkpoint", nil))
	return out.Body.String()
}

func TestOpen_ReadsTheFileOfEarlierVersions(t *testing.T) {
	state := fresh(t)
	w, m := open(t, state), (&tree{T: t}).grow(20, "entry")
	if status, _, _ := post(w, m.request(0, 10)); status != 200 {
		t.Fatal(status)
	}
	note := served(w, origin)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// A thief of the log's key has burnt the next generation: its line is that of a key which
	// the list has no more.
	old := must[[]byte](t)(json.Marshal(map[string]string{origin: note, "verifier.example.com/v1/log/2": strings.ReplaceAll(note, origin, "verifier.example.com/v1/log/2")}))
	if err := os.WriteFile(state, old, 0o600); err != nil {
		t.Fatal(err)
	}
	next := must[*receiptlog.Signer](t)(receiptlog.NewLogSigner("verifier.example.com/v1/log/2", key("the new key")))
	for range 2 { // as it was, and as it is written
		w = opened(t, state, time.Now, []receiptlog.Key{signer(t, origin).Key, next.Key}, next.Key)
		if status, text, _ := post(w, m.request(0, 20)); status != 409 || text != "10\n" {
			t.Errorf("%d %q", status, text)
		}
		if served(w, origin) != note {
			t.Error("it has forgotten what it cosigned")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if text := string(must[[]byte](t)(os.ReadFile(state))); !strings.Contains(text, signer(t, origin).Key.String()) || !strings.Contains(text, `"former"`) {
		t.Errorf("the file is %s", text)
	}
	var before map[string]string
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(state)), &before); err == nil {
		t.Error("an earlier version would read the file as one without a log")
	}
}

func TestAddCheckpoint_AnswersTheSameAgainFromMemory(t *testing.T) {
	now, folder := time.Unix(1_800_000_000, 0), t.TempDir()
	state := filepath.Join(folder, "below", "state.json")
	if err := os.Mkdir(filepath.Dir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := witness.Create(state); err != nil {
		t.Fatal(err)
	}
	w, m := opened(t, state, func() time.Time { return now }, []receiptlog.Key{signer(t, origin).Key}), (&tree{T: t}).grow(20, "entry")
	status, first, _ := post(w, m.request(0, 10))
	if status != 200 {
		t.Fatal(status)
	}
	if err := os.RemoveAll(filepath.Dir(state)); err != nil { // whatever is written fails
		t.Fatal(err)
	}
	now = now.Add(4 * time.Second)
	if status, text, _ := post(w, m.request(10, 10)); status != 200 || text != first {
		t.Errorf("the same again: %d %q, want %q", status, text, first)
	}
	if status, _, _ := post(w, m.request(10, 20)); status != 500 {
		t.Errorf("the next: %d, want 500: it cannot be kept", status)
	}
	now = now.Add(time.Second)
	if status, _, _ := post(w, m.request(10, 10)); status != 500 {
		t.Errorf("the same, later: %d, want 500: its new time cannot be kept", status)
	}
}
