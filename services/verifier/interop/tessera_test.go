package interop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"filippo.io/torchwood"
	"github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/storage/posix"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// tesseraLog is a log that tessera keeps in a folder, served over HTTP.
type tesseraLog struct {
	*testing.T
	folder  string
	url     string
	options *tessera.AppendOptions
	reader  tessera.LogReader
}

// openTessera serves a new log of tessera's, which asks the witnesses of a policy.
func openTessera(t *testing.T, signer note.Signer, policy string) *tesseraLog {
	t.Helper()
	l := &tesseraLog{T: t, folder: t.TempDir()}
	group := must[tessera.WitnessGroup](t)(tessera.NewWitnessGroupFromPolicy([]byte(policy)))
	l.options = tessera.NewAppendOptions().WithCheckpointSigner(signer).WithBatching(256, 20*time.Millisecond).
		WithCheckpointInterval(100*time.Millisecond).WithWitnesses(group, &tessera.WitnessOptions{Timeout: 10 * time.Second})
	server := httptest.NewServer(http.FileServer(http.Dir(l.folder)))
	t.Cleanup(server.Close)
	l.url = server.URL + "/"
	return l
}

// add runs tessera until it has published entries, and ends it.
func (l *tesseraLog) add(entries ...[]byte) {
	l.Helper()
	ctx := l.Context()
	driver := must[tessera.Driver](l)(posix.New(ctx, posix.Config{Path: l.folder}))
	appender, shutdown, reader, err := tessera.NewAppender(ctx, driver, l.options)
	if err != nil {
		l.Fatal(err)
	}
	l.reader = reader
	awaiter := tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, 10*time.Millisecond)
	var added []tessera.IndexFuture
	for _, data := range entries {
		added = append(added, appender.Add(ctx, tessera.NewEntry(data)))
	}
	for _, future := range added {
		if _, _, err := awaiter.Await(ctx, future); err != nil {
			l.Fatal(err)
		}
	}
	if err := shutdown(ctx); err != nil {
		l.Fatal(err)
	}
}

// fetch reads the log over HTTP for receiptlog.
func (l *tesseraLog) fetch(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotFound {
		return nil, receiptlog.ErrNoTile
	}
	return io.ReadAll(response.Body)
}

// forgetful is a log that does not know what it has published.
type forgetful struct{ tessera.LogReader }

func (forgetful) ReadCheckpoint(context.Context) ([]byte, error) { return nil, fs.ErrNotExist }

func TestWitness_CosignsALogOfTessera(t *testing.T) {
	ctx := t.Context()
	secret, vkey, err := note.GenerateKey(rand.Reader, "tessera.example/log")
	if err != nil {
		t.Fatal(err)
	}
	signer := must[note.Signer](t)(note.NewSigner(secret))
	key := must[receiptlog.Key](t)(receiptlog.ParseLogKey(vkey))
	witnesses := ourWitness(t, "w0", key) + ourWitness(t, "w1", key) + litewitness(t, "lw", key) + "group all-of-them all w0 w1 lw\nquorum all-of-them\n"
	policy := must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte("log " + vkey + "\n" + witnesses)))
	l := openTessera(t, signer, witnesses)

	// A receipt that is in their log, with their proof, verifies as one in ours.
	l.add([]byte("first"), must[receiptlog.Entry](t)(receiptlog.EntryOf(answer(t))).Bytes())
	first := l.opened(policy, 2)
	var filler [][]byte
	for n := range 600 {
		filler = append(filler, fmt.Append(nil, "entry ", n))
	}
	l.add(filler...)
	now := l.opened(policy, 602)
	tree := must[*receiptlog.Tree](t)(receiptlog.NewTree(now.Checkpoint, l.fetch))
	if err := tree.Continues(ctx, first.Checkpoint); err != nil {
		t.Error(err)
	}
	read := 0
	for bundle := range int64(3) {
		read += len(must[[][]byte](t)(tree.Entries(ctx, bundle)))
	}
	if read != 602 {
		t.Errorf("%d entries", read)
	}
	fetcher := must[*client.HTTPFetcher](t)(client.NewHTTPFetcher(must[*url.URL](t)(url.Parse(l.url)), http.DefaultClient))
	builder := must[*client.ProofBuilder](t)(client.NewProofBuilder(ctx, uint64(now.Size), fetcher.ReadTile))
	theirs := proof.TLogProof{Index: 1, Checkpoint: must[[]byte](t)(l.fetch(ctx, "checkpoint"))}
	for _, hash := range must[[][]byte](t)(builder.InclusionProof(ctx, 1)) {
		theirs.Hashes = append(theirs.Hashes, [32]byte(hash))
	}
	keys := must[receipt.KeyDocument](t)(receipt.ParseKeyDocument(readVector(t, "key.json")))
	if result, err := receiptlog.Verify(answer(t), keys, theirs.Marshal(), policy); err != nil || result.Index != 1 || len(result.Cosignatures) != 3 {
		t.Errorf("%+v, %v", result, err)
	}

	// 409: a log that has forgotten what our witnesses have seen learns it from them.
	publish := l.options.CheckpointPublisher(forgetful{l.reader}, http.DefaultClient)
	again := must[[]byte](t)(publish(ctx, uint64(now.Size), now.Root[:]))
	if w := must[receiptlog.Witnessed](t)(policy.Open(again)); w.Checkpoint != now.Checkpoint {
		t.Errorf("%+v", w)
	}
	// 422: another history with the same key.
	fork := openTessera(t, signer, "quorum none\n")
	fork.add([]byte("other"))
	fork.add(filler...)
	forked := must[torchwood.Checkpoint](t)(torchwood.ParseCheckpoint(strings.Split(string(must[[]byte](t)(fork.fetch(ctx, "checkpoint"))), "\n\n")[0] + "\n"))
	publish = l.options.CheckpointPublisher(fork.reader, http.DefaultClient)
	if note, err := publish(ctx, uint64(forked.N), forked.Hash[:]); err == nil {
		t.Errorf("a fork is cosigned: %s", note)
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// opened reads the log's checkpoint, which all three witnesses must have cosigned.
func (l *tesseraLog) opened(policy receiptlog.Policy, size int64) receiptlog.Witnessed {
	l.Helper()
	w := must[receiptlog.Witnessed](l)(policy.Open(must[[]byte](l)(l.fetch(l.Context(), "checkpoint"))))
	if w.Size != size || len(w.Cosignatures) != 3 {
		l.Fatalf("%d entries that %d witnesses saw", w.Size, len(w.Cosignatures))
	}
	return w
}
