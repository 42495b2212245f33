package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// logSite is a verifier with a log in memory, which asks no witness.
type logSite struct {
	*testing.T
	url     string
	signer  *receiptlog.Signer
	entries [][]byte
	hashes  []tlog.Hash
	// forged replaces what is served at a path.
	forged map[string][]byte
	// away is a path at which it breaks the connection (in the body of its answer where status is 200), or
	// answers with status where that is not 0.
	away   string
	status int
	// unpublished has it serve no checkpoint yet.
	unpublished bool
}

func newLogSite(t *testing.T) *logSite {
	t.Helper()
	l := &logSite{T: t, forged: map[string][]byte{}}
	seed := sha256.Sum256([]byte("log"))
	var err error
	if l.signer, err = receiptlog.NewLogSigner("verifier.example.com/v1/log/1", ed25519.NewKeyFromSeed(seed[:])); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// ReadHashes implements tlog.HashReader.
func (l *logSite) ReadHashes(ids []int64) (out []tlog.Hash, _ error) {
	for _, id := range ids {
		out = append(out, l.hashes[id])
	}
	return out, nil
}

func (l *logSite) grow(to int, kind string) {
	l.Helper()
	for len(l.entries) < to {
		e, err := receiptlog.NewReceiptEntry("sha256:"+strings.Repeat("0a", 32), make([]byte, 64), fmt.Append(nil, kind, len(l.entries)))
		if err != nil {
			l.Fatal(err)
		}
		hashes, err := tlog.StoredHashes(int64(len(l.entries)), e.Bytes(), l)
		if err != nil {
			l.Fatal(err)
		}
		l.entries, l.hashes = append(l.entries, e.Bytes()), append(l.hashes, hashes...)
	}
}

func (l *logSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == l.away {
		switch l.status {
		case 0:
			panic(http.ErrAbortHandler)
		case http.StatusOK:
			cutOff(w)
		default:
			w.WriteHeader(l.status)
			return
		}
	}
	data, err := l.serve(r.URL.Path)
	if forged, found := l.forged[r.URL.Path]; found {
		data, err = forged, nil
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	_, _ = w.Write(data)
}

// cutOff breaks the connection after some bytes of the answer's body.
func cutOff(w http.ResponseWriter) {
	_, _ = w.Write([]byte("some"))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func (l *logSite) serve(path string) ([]byte, error) {
	size := int64(len(l.entries))
	path, isLog := strings.CutPrefix(path, "/v1/log/1/")
	if path == keyPath {
		return nil, fs.ErrNotExist
	}
	if !isLog {
		return json.Marshal(receiptlog.Directory{
			Logs:   []receiptlog.Generation{{Origin: l.signer.Name(), Key: l.signer.Key.String(), Prefix: "/v1/log/1", From: "2026-11-22T00:00:00Z"}},
			Policy: "log " + l.signer.Key.String() + "\nquorum none\n",
		})
	}
	if path == "checkpoint" && l.unpublished {
		return nil, fs.ErrNotExist
	}
	if path == "checkpoint" {
		root, err := tlog.TreeHash(size, l)
		if err != nil {
			return nil, err
		}
		return receiptlog.Checkpoint{Origin: l.signer.Name(), Size: size, Root: root}.Sign(l.signer)
	}
	tile, err := receiptlog.ParseTile(path)
	if err != nil || !tile.Within(size) {
		return nil, fs.ErrNotExist
	}
	if tile.Level != receiptlog.EntriesLevel {
		return tlog.ReadTileData(tlog.Tile{H: 8, L: tile.Level, N: tile.Index, W: tile.Width}, l)
	}
	var bundle []byte
	for i := range int64(tile.Width) {
		bundle = receiptlog.AppendBundled(bundle, l.entries[tile.Index*256+i])
	}
	return bundle, nil
}

func TestWatch_FindsALogThatDoesNotContinue(t *testing.T) {
	l := newLogSite(t)
	state := filepath.Join(t.TempDir(), "state")
	check := func(want int, text string, more ...string) {
		t.Helper()
		code, out, errOut := run(t, "", append([]string{"log", "check", l.url, "--state", state}, more...)...)
		if code != want || !strings.Contains(out+errOut, text) {
			t.Errorf("exit %d, want %d with %q:\n%s%s", code, want, text, out, errOut)
		}
	}
	check(0, "0 entries, 0 since the last check")
	l.grow(300, "entry")
	check(0, "300 entries, 300 since the last check, seen by 0 of 0 witnesses\n     300 chain-evidence-receipt/v1 sha256:0a")
	check(0, "300 entries, 0 since")
	l.grow(301, "entry")
	check(0, "301 entries, 1 since")
	seen := read(t, state)
	fork := newLogSite(t)
	fork.grow(100, "entry")
	fork.grow(400, "other")
	*l, fork.url = *fork, l.url
	l.url = fork.url
	check(1, "have another root")
	if read(t, state) != seen {
		t.Error("the state is that of a log that does not continue")
	}
	l.entries, l.hashes = nil, nil
	check(1, "0 entries after 301")
	other := write(t, "quorum none\n")
	check(1, "not signed by a log of the policy", "--log-policy", other)
	if code, _, _ := run(t, "", "log", "check", l.url, "--log-policy", "absent"); code != 3 {
		t.Errorf("without its policy: exit %d", code)
	}
	l.grow(301, "entry")
	l.forged["/v1/log/1/tile/entries/001.p/45"] = bytes.Repeat([]byte{0}, 10)
	state = filepath.Join(t.TempDir(), "new")
	check(1, "malformed")
	if _, err := os.Stat(state); err == nil {
		t.Error("a log that cannot be read is remembered")
	}
}

// An outage says nothing of the log.
func TestWatch_ALogThatCannotBeReachedIsNotInvalid(t *testing.T) {
	l := newLogSite(t)
	l.grow(300, "entry")
	for _, path := range []string{"/v1/log/1/checkpoint", "/v1/log/1/tile/entries/000", "/v1/log/1/tile/0/000"} {
		for _, l.status = range []int{0, http.StatusBadGateway, http.StatusOK} {
			l.away = path
			for _, args := range [][]string{{"check", l.url}, {"mirror", l.url, t.TempDir()}} {
				code, _, errOut := run(t, "", append([]string{"log"}, args...)...)
				if code != 3 || !strings.Contains(errOut, path) {
					t.Errorf("%v, status %d: exit %d, %s", args, l.status, code, errOut)
				}
			}
		}
	}
}

// No file is at fault, and no log: the server does not say which there are.
func TestWatch_AnAnswerThatIsNoListIsNoList(t *testing.T) {
	l := newLogSite(t)
	ends := func(want int, what string) {
		t.Helper()
		for _, args := range [][]string{{"check", l.url}, {"mirror", l.url, t.TempDir()}} {
			if code, _, errOut := run(t, "", append([]string{"log"}, args...)...); code != want {
				t.Errorf("%s, log %s: exit %d, want %d: %s", what, args[0], code, want, errOut)
			}
		}
	}
	for _, list := range []string{"", "{}", strings.Repeat(" ", receiptlog.MaxDirectory+1)} {
		l.forged[receiptlog.DirectoryPath] = []byte(list)
		ends(3, fmt.Sprintf("a list of %d bytes", len(list)))
	}
	for _, l.status = range []int{http.StatusBadGateway, http.StatusNotFound} {
		l.away = receiptlog.DirectoryPath
		ends(3, fmt.Sprintf("status %d", l.status))
	}
	l.away, l.forged = "", map[string][]byte{"/v1/log/1/checkpoint": make([]byte, receiptlog.MaxNote+1)}
	ends(1, "a checkpoint that is too large")
}

func TestWatch_APolicyIsNotOnTheStandardInput(t *testing.T) {
	l := newLogSite(t)
	for want, args := range map[int][]string{
		3: {"log", "check", l.url, "--log-policy", "-"}, 2: {"witness", "--log-policy", "-"},
	} {
		if code, _, errOut := run(t, "", args...); code != want || !strings.Contains(errOut, "open -: ") {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
	}
}

func TestWatch_AsksAnUnpublishedLogAgainSoon(t *testing.T) {
	l := newLogSite(t)
	l.unpublished = true
	for _, args := range [][]string{{"mirror", l.url, t.TempDir()}, {"check", l.url}} {
		if code, _, errOut := run(t, "", append([]string{"log"}, args...)...); code != 3 || !strings.Contains(errOut, "verifier.example.com/v1/log/1: the log serves no checkpoint; a new one has published nothing yet") {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
	}
	nothing := mirrorAll(t.Context(), l.url, t.TempDir(), watchFlags{}, streams{out: io.Discard, now: time.Now})
	l.unpublished = false
	if code, _, errOut := run(t, "", "log", "mirror", l.url, t.TempDir()); code != 0 {
		t.Errorf("exit %d, %s", code, errOut)
	}
	for every, want := range map[time.Duration]time.Duration{
		10 * time.Minute: time.Minute, 5 * time.Second: time.Second, time.Millisecond: time.Millisecond,
	} {
		if got := pauseAfter(nothing, every); got != want {
			t.Errorf("every %v: asked again after %v, want %v", every, got, want)
		}
		if got := pauseAfter(fs.ErrNotExist, every); got != every {
			t.Errorf("every %v: asked again after %v though it has failed otherwise", every, got)
		}
	}
}

func TestMirror_ServesWhatTheLogServes(t *testing.T) {
	l := newLogSite(t)
	folder := t.TempDir()
	for _, size := range []int{0, 1, 200, 256, 257, 700, 66000, 66100} {
		l.grow(size, "entry")
		if code, out, errOut := run(t, "", "log", "mirror", l.url, folder); code != 0 || !strings.Contains(out, fmt.Sprintf("%d entries", size)) {
			t.Fatalf("%d: exit %d, %s%s", size, code, out, errOut)
		}
	}
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		if info, err := entry.Info(); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v; a web server must be able to read it", path, info.Mode(), err)
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		want, err := l.serve("/" + filepath.ToSlash(name))
		if err != nil || read(t, path) != string(want) {
			t.Errorf("%s is not what the log serves: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := 1
	for range receiptlog.Tiles(0, 66100) {
		want++
	}
	want++ // the partial tile of level 1 at 66000 entries
	if files != want {
		t.Errorf("%d files, want %d", files, want)
	}
	checkpoint := filepath.Join(folder, "v1/log/1/checkpoint")
	before := read(t, checkpoint)
	l.grow(66200, "entry")
	bundle, err := l.serve("/v1/log/1/tile/entries/258.p/152")
	if err != nil {
		t.Fatal(err)
	}
	bundle[5] ^= 1
	l.forged["/v1/log/1/tile/entries/258.p/152"] = bundle
	if code, _, errOut := run(t, "", "log", "mirror", l.url, folder); code != 1 || !strings.Contains(errOut, "not in the log") || read(t, checkpoint) != before {
		t.Errorf("a forged entry: exit %d, %s", code, errOut)
	}
}

// Who has the checkpoint of an earlier copy asks for the partial tiles of that one.
func TestMirror_KeepsPartialTilesUntilTheFullOneIsThere(t *testing.T) {
	l := newLogSite(t)
	folder := t.TempDir()
	for _, c := range []struct {
		size          int
		there, absent []string
	}{
		{3, []string{"entries/000.p/3", "0/000.p/3"}, nil},
		{5, []string{"entries/000.p/3", "0/000.p/3", "entries/000.p/5", "0/000.p/5"}, nil},
		{256, []string{"entries/000", "0/000", "1/000.p/1"}, []string{"entries/000.p", "0/000.p"}},
		{258, []string{"entries/001.p/2", "0/001.p/2", "1/000.p/1"}, nil},
		{520, []string{"entries/002.p/8", "1/000.p/1", "1/000.p/2"}, []string{"entries/001.p", "0/001.p"}},
	} {
		l.grow(c.size, "entry")
		if code, out, errOut := run(t, "", "log", "mirror", l.url, folder); code != 0 {
			t.Fatalf("%d: exit %d, %s%s", c.size, code, out, errOut)
		}
		exists := func(tile string) bool {
			_, err := os.Stat(filepath.Join(folder, "v1/log/1/tile", tile))
			return err == nil
		}
		for _, tile := range c.there {
			if !exists(tile) {
				t.Errorf("of %d entries it has no %s", c.size, tile)
			}
		}
		for _, tile := range c.absent {
			if exists(tile) {
				t.Errorf("of %d entries it still has %s", c.size, tile)
			}
		}
	}
}

func TestWitness_IsServed(t *testing.T) {
	folder := t.TempDir()
	key := filepath.Join(folder, "key.pem")
	if code, _, errOut := run(t, "", "keygen", "--out", key); code != 0 {
		t.Fatal(errOut)
	}
	code, out, _ := run(t, "", "witness", "--key", key, "--name", "w.example")
	witness, err := receiptlog.ParseWitnessKey(strings.TrimSpace(out))
	if code != 0 || err != nil {
		t.Fatalf("exit %d, %q, %v", code, out, err)
	}
	code, out, _ = run(t, "", "log", "key", key, "verifier.example.com/v1/log/1")
	log, err := receiptlog.ParseLogKey(strings.TrimSpace(out))
	if code != 0 || err != nil || log.Name() != "verifier.example.com/v1/log/1" {
		t.Fatalf("exit %d, %q, %v", code, out, err)
	}
	l := newLogSite(t)
	l.grow(3, "entry")
	policy := write(t, "log "+l.signer.Key.String()+"\nquorum none\n")
	for _, logs := range [][]string{{"--log", l.signer.Key.String()}, {"--log-policy", policy}} {
		t.Run(logs[0], func(t *testing.T) {
			l.cosigned(t, witness, append([]string{"--key", key, "--name", "w.example"}, logs...)...)
		})
	}
	for _, args := range [][]string{{"witness"}, {"witness", "--key", key}, {"witness", "--key", key, "--name", "a b"}, {"witness", "--key", key, "--name", "w", "--log", "x", "--state", "s"}, {"witness", "--key", key, "--name", "w", "--state", "s"}, {"witness", "--key", key, "--name", "w", "--state", "s", "--log", l.signer.Key.String(), "--begin", l.signer.Key.String()[:20]}, {"witness", "--key", key, "--name", "w", "--state", "absent/s", "--log", l.signer.Key.String(), "--begin", strings.TrimSpace(out)}, {"witness", "--key", key, "--name", "w", "--log-policy", "absent", "--state", "s"}} {
		if code, _, errOut := run(t, "", args...); code != 2 || errOut == "" {
			t.Errorf("%v: exit %d, %q", args, code, errOut)
		}
	}
}

// cosigned runs a witness, which must cosign the log's checkpoint.
func (l *logSite) cosigned(t *testing.T, witness receiptlog.Key, args ...string) {
	t.Helper()
	args = append([]string{"witness", "--state", filepath.Join(t.TempDir(), "state")}, args...)
	if code, _, errOut := run(t, "", args...); code != 4 || !strings.Contains(errOut, "no such file") {
		t.Errorf("without its state: exit %d, %s", code, errOut)
	}
	note, err := l.serve("/v1/log/1/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c, err := receiptlog.OpenCheckpoint(note, l.signer.Key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begin := func() (addr string, ended chan int, errOut *bytes.Buffer) {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr, ended, errOut = free.Addr().String(), make(chan int, 1), &bytes.Buffer{}
		_ = free.Close()
		go func() {
			s := streams{strings.NewReader(""), &bytes.Buffer{}, errOut, time.Now}
			ended <- execute(ctx, append(args, "--init", "--listen", addr), s, "")
		}()
		return addr, ended, errOut
	}
	addr, ended, errOut := begin()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it does not cosign")
		}
		select {
		case code := <-ended:
			if !strings.Contains(errOut.String(), "address already in use") { // another process was quicker
				t.Fatalf("exit %d, %s", code, errOut)
			}
			addr, ended, errOut = begin()
			continue
		default:
		}
		body := bytes.NewReader(receiptlog.AddCheckpoint{Checkpoint: note}.Bytes())
		response, err := http.Post("http://"+addr+"/add-checkpoint", "text/plain", body)
		if err != nil {
			continue
		}
		line, err := readBounded(response.Body, 1<<16)
		_ = response.Body.Close()
		if _, ok := c.Cosignature(line, witness); ok && err == nil && response.StatusCode == http.StatusOK {
			break
		}
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestLog_WithAPolicyIsReadFromAnyAddress(t *testing.T) {
	l := newLogSite(t)
	l.grow(3, "entry")
	policy, folder := write(t, "log "+l.signer.Key.String()+"\nquorum none\n"), t.TempDir()
	elsewhere := strings.Replace(l.url, "127.0.0.1", "LOCALHOST", 1) // a name that is not known to be this machine's
	for _, args := range [][]string{{"check", elsewhere}, {"mirror", elsewhere, folder}} {
		args = append([]string{"log"}, args...)
		if code, _, errOut := run(t, "", args...); code != 4 || !strings.Contains(errOut, "must be https") {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
		if code, out, errOut := run(t, "", append(args, "--log-policy", policy)...); code != 0 || !strings.Contains(out, "3 entries") {
			t.Errorf("%v with a policy: exit %d, %s%s", args, code, out, errOut)
		}
	}
	l.forged["/v1/log/1/checkpoint"] = []byte("a checkpoint by nobody")
	if code, _, _ := run(t, "", "log", "mirror", elsewhere, folder, "--log-policy", policy); code != 1 {
		t.Errorf("a forged checkpoint: exit %d", code)
	}
}
