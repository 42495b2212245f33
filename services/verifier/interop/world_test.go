package interop

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"k8s.io/klog/v2"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"filippo.io/torchwood"

	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

const (
	host    = "verifier.example"
	origin  = host + "/v1/log/1"
	network = "eip155:84532"
)

func seeded(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// litewitnessProgram is torchwood's witness.
var litewitnessProgram string

// TestMain builds it, and keeps tessera from printing what it does.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(run(m))
}

func run(m *testing.M) (status int) {
	folder, err := os.MkdirTemp("", "interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	litewitnessProgram = filepath.Join(folder, "litewitness")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", litewitnessProgram, "filippo.io/torchwood/cmd/litewitness")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0",
		"GOFLAGS=-trimpath -buildvcs=false -gcflags=all=-dwarf=false")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build litewitness: %v: %s", err, out)
		return 1
	}
	return m.Run()
}

// discard keeps no lines.
func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// ourLogKey is the verifier key of our log.
func ourLogKey(t testing.TB) receiptlog.Key {
	t.Helper()
	_, vkey, err := translog.Name(host, seeded("log"), 1)
	if err != nil {
		t.Fatal(err)
	}
	return must[receiptlog.Key](t)(receiptlog.ParseLogKey(vkey))
}

// verifier is our log of receipts with its ledger, served over HTTP.
type verifier struct {
	*testing.T
	log    *translog.Log
	ledger *ledger.Ledger
	store  *logsql.Store
	site   string
	url    string // of generation 1
	policy []byte // with the log's own key
	made   [][]byte
}

// openVerifier serves a new ledger's log with a policy.
func openVerifier(t *testing.T, policy string) *verifier {
	t.Helper()
	ctx := context.Background()
	v := &verifier{T: t}
	v.ledger = must[*ledger.Ledger](t)(ledger.Open(ctx, "sqlite::memory:", ledger.Options{Now: time.Now, Log: true}))
	t.Cleanup(func() { _ = v.ledger.Close() })
	v.store = logsql.New(logsql.Options{DB: v.ledger.DB(), Now: time.Now})
	must[[]receipt.Key](t)(v.store.Begin(ctx, func(log int64) (string, string, error) { return translog.Name(host, seeded("log"), log) }, nil))
	v.log = must[*translog.Log](t)(translog.New(translog.Options{
		Store: v.store, Key: seeded("log"), Host: host, Policy: policy, Interval: time.Second, Timeout: 10 * time.Second,
		Client: http.DefaultClient, Log: discard(), Now: time.Now,
	}))
	heads := must[[]translog.Head](t)(v.store.Heads(ctx))
	v.policy = []byte(translog.PolicyFor(policy, heads))
	server := httptest.NewServer(v.handler())
	t.Cleanup(server.Close)
	v.site, v.url = server.URL, server.URL+translog.Prefix(1)+"/"
	return v
}

// handler is the verifier's, of a chain that nothing asks.
func (v *verifier) handler() http.Handler {
	v.Helper()
	reader := must[*rpc.Reader](v)(rpc.Open(context.Background(), rpc.Options{
		Chain: chain.Config{Name: "base", ID: 8453, RPCURLs: []string{"http://127.0.0.1:1"}},
	}))
	key := must[*receipt.SigningKey](v)(receipt.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)))
	keys := must[receipt.KeyDocument](v)(receipt.NewKeyDocument(key, "eip155:8453"))
	metrics := must[*httpapi.Metrics](v)(httpapi.NewMetrics(prometheus.NewRegistry()))
	simulator := paymenttest.NewSimulator(network, time.Now)
	shop := must[*paywall.Paywall](v)(paywall.Open(context.Background(), paywall.Options{
		Ledger: v.ledger, Facilitator: simulator, ChainLog: simulator, FreeSettlements: 1,
		VerifyTimeout: time.Second, SettleTimeout: time.Second, WorkTimeout: time.Second,
		AttemptsPerPayer: 1, AttemptsPerAddress: 1,
		Log: discard(), Now: time.Now, Heartbeat: time.Hour, Pause: time.Hour, Ended: metrics.PaymentEnded,
	}))
	v.Cleanup(func() { _ = shop.Close(context.Background()) })
	return must[http.Handler](v)(httpapi.New(httpapi.Options{
		Chains:  []httpapi.Chain{{Name: "base", ID: 8453, Verifier: verification.Verifier{Reader: reader}, Heads: reader.Reached}},
		Paywall: shop, Terms: paymenttest.Terms(network), Key: key, Keys: keys, PublicURL: "https://" + host,
		Health: func(context.Context) error { return nil }, Metrics: metrics, Receipts: v.log, Sold: v.ledger.Answer,
		Log: discard(), Now: time.Now,
	}))
}

// entry is that of a receipt that nobody sold.
func entry(t testing.TB, name string) []byte {
	t.Helper()
	signature := make([]byte, ed25519.SignatureSize)
	return must[receiptlog.Entry](t)(receiptlog.NewReceiptEntry(receiptKeyID(t), signature, []byte(name))).Bytes()
}

func receiptKeyID(t testing.TB) string { return answer(t).Signature.KeyID }

// answer is a golden answer of package receipt.
func answer(t testing.TB) receipt.Document {
	t.Helper()
	return must[receipt.Document](t)(receipt.Parse(readVector(t, "response.json")))
}

func readVector(t testing.TB, file string) []byte {
	t.Helper()
	return must[[]byte](t)(os.ReadFile(filepath.Join("../../../pkg/receipt/testdata/vectors/base", file)))
}

// grow appends entries until the log has so many.
func (v *verifier) grow(kind string, size int) {
	v.Helper()
	var added [][]byte
	for n := len(v.made); n < size; n++ {
		added = append(added, entry(v, fmt.Sprint(kind, n)))
	}
	must[translog.Head](v)(v.store.Extend(context.Background(), 1, int64(len(v.made)), added))
	v.made = append(v.made, added...)
}

// publish makes a step that must succeed.
func (v *verifier) publish() {
	v.Helper()
	if err := v.log.Step(context.Background()); err != nil {
		v.Fatal(err)
	}
}

// get returns what is served at an address.
func (v *verifier) get(address string) []byte {
	v.Helper()
	request := must[*http.Request](v)(http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil))
	response := must[*http.Response](v)(http.DefaultClient.Do(request))
	defer func() { _ = response.Body.Close() }()
	body := must[[]byte](v)(io.ReadAll(response.Body))
	if response.StatusCode != http.StatusOK {
		v.Fatalf("%s: %d %s", address, response.StatusCode, body)
	}
	return body
}

// ourWitness serves a witness of ours for some logs, and returns its line of a policy.
func ourWitness(t *testing.T, name string, logs ...receiptlog.Key) (line string) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	if err := witness.Create(state); err != nil {
		t.Fatal(err)
	}
	signer := must[*receiptlog.Signer](t)(receiptlog.NewWitnessSigner(name+".example", seeded(name), time.Now))
	server := httptest.NewServer(must[*witness.Witness](t)(witness.Open(witness.Options{Signer: signer, Logs: logs, State: state})))
	t.Cleanup(server.Close)
	return fmt.Sprintf("witness %s %s %s\n", name, signer.Key, server.URL)
}

// litewitness starts torchwood's witness program for some logs, with its key in an agent
// of SSH, and returns its line of a policy.
func litewitness(t *testing.T, name string, logs ...receiptlog.Key) (line string) {
	t.Helper()
	folder := must[string](t)(os.MkdirTemp("", "lw")) //nolint:usetesting // the path of a socket is short
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	database, socket := filepath.Join(folder, "db"), filepath.Join(folder, "agent")
	enrol(t, database, logs)
	fingerprint := serveAgent(t, socket, seeded(name))
	address := must[[]string](t)(freeport.Addrs(t.Context(), 1))[0]
	var printed bytes.Buffer
	run := exec.CommandContext(t.Context(), litewitnessProgram, "-name", name+".example", "-db", database, "-ssh-agent", socket, "-listen", address, "-key", fingerprint)
	run.Stderr = &printed
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = run.Wait(); close(ended) }()
	t.Cleanup(func() { _ = run.Process.Kill(); <-ended })
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-ended:
			t.Fatalf("litewitness has ended: %s", &printed)
		case <-time.After(10 * time.Millisecond):
		}
	}
	signer := must[*torchwood.CosignatureSigner](t)(torchwood.NewCosignatureSigner(name+".example", seeded(name)))
	return fmt.Sprintf("witness %s %s http://%s\n", name, signer.Verifier(), address)
}

// enrol makes litewitness's database with logs that it has seen nothing of. Its own
// program for that needs modules that Go's proxy does not have.
func enrol(t *testing.T, database string, logs []receiptlog.Key) {
	t.Helper()
	conn := must[*sqlite.Conn](t)(sqlite.OpenConn(database, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL))
	defer func() { _ = conn.Close() }()
	run := func(query string, args ...any) {
		t.Helper()
		if err := sqlitex.Execute(conn, query, &sqlitex.ExecOptions{Args: args}); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL)")
	run("CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))")
	for _, log := range logs {
		run("INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=')", log.Name())
		run("INSERT INTO key (origin, key) VALUES (?, ?)", log.Name(), log.String())
	}
}

// serveAgent serves an agent of SSH with one key, and returns the key's fingerprint.
func serveAgent(t *testing.T, socket string, key ed25519.PrivateKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	listener := must[net.Listener](t)((&net.ListenConfig{}).Listen(t.Context(), "unix", socket))
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }() // until litewitness ends
		}
	}()
	return ssh.FingerprintSHA256(must[ssh.Signer](t)(ssh.NewSignerFromKey(key)).PublicKey())
}
