package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// finalized returns the root of the block that the beacon node calls final.
func (w *world) finalized(t *testing.T) string {
	t.Helper()
	var header struct{ Data struct{ Root string } }
	eventually(t, "a block is final", func(context.Context) error {
		got := newBrowser(t, "http://"+w.Beacon).request("GET", "/eth/v1/beacon/headers/finalized", "")
		if got.StatusCode != http.StatusOK {
			return errors.New(string(got.body))
		}
		return json.Unmarshal(got.body, &header)
	})
	return header.Data.Root
}

// breakBeacon has the beacon node do something wrong, and nothing else; {} is nothing.
func (w *world) breakBeacon(t *testing.T, faults string) {
	t.Helper()
	newBrowser(t, "http://"+w.Beacon).request("PUT", "/faults", faults).want(t, 204, nil)
}

// block is the block of a sold receipt.
func (p purchase) block(t *testing.T) string {
	t.Helper()
	var answer struct {
		Receipt struct{ Block struct{ Hash string } }
	}
	if err := json.Unmarshal(p.Answer, &answer); err != nil || answer.Receipt.Block.Hash == "" {
		t.Fatalf("%v: %s", err, p.Answer)
	}
	return answer.Receipt.Block.Hash
}

// proof requests the proof that the block of a purchase is final.
func (w *world) proof(t *testing.T, p purchase, checkpoint string) answer {
	t.Helper()
	return newBrowser(t, w.PublicURL).request("GET", "/v1/finality/devnet/"+p.block(t)+"?checkpoint="+checkpoint, "")
}

// pending fails the test unless there is no proof yet.
func (w *world) pending(t *testing.T, p purchase, checkpoint string) {
	t.Helper()
	if got := w.proof(t, p, checkpoint); got.StatusCode != http.StatusAccepted || got.Header.Get("Retry-After") == "" {
		t.Errorf("%d without Retry-After, or not 202: %.300s", got.StatusCode, got.body)
	}
}

// proven waits for the proof that the block of a purchase is final, checks it as its
// reader does, and returns the kind of its link and what the check prints.
func (w *world) proven(t *testing.T, p purchase, checkpoint string) (link, printed string) {
	t.Helper()
	dir := t.TempDir()
	receipt, proof := filepath.Join(dir, "answer.json"), filepath.Join(dir, "finality.json")
	var got answer
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		got = w.proof(t, p, checkpoint)
		if got.StatusCode != http.StatusAccepted || time.Since(begin) > 30*time.Second {
			t.Logf("a proof of %d bytes after %v", len(got.body), time.Since(begin).Round(100*time.Millisecond))
			break
		}
	}
	var document struct{ Link struct{ Kind string } }
	got.want(t, 200, &document)
	for path, content := range map[string][]byte{receipt: p.Answer, proof: got.body} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{proof, w.PublicURL} {
		code, out := command(t, nil, filepath.Join(w.Bin, "receipt"), "verify", receipt, "--key", w.PublicURL,
			"--finality", from, "--checkpoint", checkpoint, "--network", w.BeaconNetwork(), "--require-finality")
		if printed = string(out); code != 0 || !strings.Contains(printed, "proven from your checkpoint "+checkpoint) {
			t.Errorf("receipt verify with %s ends with %d: %s", from, code, out)
		}
	}
	return document.Link.Kind, printed
}

// withoutProofs is a node of the execution chain that can be without eth_getProof.
func withoutProofs(t *testing.T, addr string, without *atomic.Bool) string {
	t.Helper()
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	server := httptest.NewServer(readFirst(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if without.Load() {
			body = bytes.ReplaceAll(body, []byte(`"eth_getProof"`), []byte(`"eth_getPruuf"`))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	})))
	t.Cleanup(server.Close)
	return server.URL
}

// TestFinality_ABlockIsProvenOverAHandover sells while the beacon node is late with the next
// committee, over the end of a committee's period, and while it is away or lies. No sale
// waits for it, and each proof is there soon after it is well again.
func TestFinality_ABlockIsProvenOverAHandover(t *testing.T) {
	t.Parallel()
	const period = 64 * time.Second // all begin at multiples of it in Unix time
	left := func() time.Duration { return time.Until(time.Now().Truncate(period).Add(period)) }
	if left() < 30*time.Second {
		time.Sleep(left()) // the first sale is of the first period
	}
	var withoutProof atomic.Bool
	w := newWorld(t, options{
		change: func(l *layout.Layout) {
			l.Extra["verifier"] = map[string]string{"CHAIN_RPC_URLS": withoutProofs(t, l.Chain, &withoutProof)}
		},
		only: func(l layout.Layout) []stack.Program { return []stack.Program{l.Devnet()} },
	})

	// An update that is early in its period does not hand over.
	w.breakBeacon(t, `{"earlyUpdates": true}`)
	w.restart(t, w.Auth(), w.Verifier(), w.Proxy())
	first := w.buy(t)
	checkpoint := w.finalized(t)
	if link, _ := w.proven(t, first, checkpoint); link != "same" && link != "headers" {
		t.Errorf("a new block is linked by %q", link)
	}
	paid := w.resend(t, w.lastPaid(t))
	if got := paid.Header.Get("Link"); !strings.Contains(got, "</v1/finality/devnet/"+first.block(t)+">") {
		t.Errorf("the sold answer has the links %q", got)
	}
	time.Sleep(left() + 4*time.Second)
	late := w.buy(t)
	time.Sleep(10 * time.Second) // more blocks than headers are sent for
	w.pending(t, late, checkpoint)
	w.breakBeacon(t, `{}`)
	link, printed := w.proven(t, late, checkpoint)
	if link != "history" || !strings.Contains(printed, "by 2 sync committees") {
		t.Errorf("over a handover the link is %q: %s", link, printed)
	}

	w.breakBeacon(t, `{"down": true}`)
	away := w.buy(t)
	w.pending(t, away, checkpoint)
	file := filepath.Join(t.TempDir(), "answer.json")
	if err := os.WriteFile(file, away.Answer, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--checkpoint", checkpoint}, 0, "attested by the signer only"},
		{[]string{"--require-finality"}, 1, ""},
		{[]string{"--finality", file}, 2, ""}, // no checkpoint
		{[]string{"--finality", w.PublicURL, "--checkpoint", checkpoint, "--network", w.BeaconNetwork(), "--require-finality"}, 1, ""}, // pending
	} {
		args := append([]string{"verify", file, "--key", w.PublicURL}, c.args...)
		if code, out := command(t, nil, filepath.Join(w.Bin, "receipt"), args...); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("receipt %v ends with %d: %s", args, code, out)
		}
	}

	// What does not verify is not used. Without eth_getProof, headers link the blocks.
	withoutProof.Store(true)
	w.breakBeacon(t, `{"wrongSignature": true}`)
	lied := w.buy(t)
	time.Sleep(10 * time.Second)
	w.pending(t, lied, checkpoint)
	w.breakBeacon(t, `{}`)
	for _, p := range []purchase{away, lied} {
		if link, _ := w.proven(t, p, checkpoint); link != "headers" {
			t.Errorf("without eth_getProof the link is %q", link)
		}
	}

	w.Programs.Kill("verifier")
	w.restart(t, w.Verifier())
	for _, p := range []purchase{first, late, w.buy(t)} {
		w.proven(t, p, checkpoint)
	}
}

func TestFinality_EveryReplicaHasTheProofOfEverySale(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 0)
	checkpoint := r.finalized(t)
	for range 2 {
		bought := r.buy(t)
		r.proven(t, bought, checkpoint)
		for _, addr := range strings.Split(r.Extra["pforte-proxy"]["VERIFIER_UPSTREAM"], ",") {
			newBrowser(t, "http://"+addr).request("GET", "/v1/finality/devnet/"+bought.block(t)+"?checkpoint="+checkpoint, "").want(t, 200, nil)
		}
	}
}
