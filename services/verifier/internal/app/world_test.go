package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

const (
	path       = "/v1/verify/base-transaction"
	recordedTx = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"
	goodBody   = `{"transactionHash":"` + recordedTx + `","expectations":{"status":"success"}}`
)

// crashAt in the environment makes this test binary be the verifier, killed
// when a sale comes to that point ("never": not at all).
const crashAt = "VERIFIER_TEST_CRASH_AT"

// crashAfter names a file: only once it is there, a process is killed at a point of the log,
// which it passes before it sells anything too. It takes the file with it, so that of several
// processes one is killed.
const crashAfter = "VERIFIER_TEST_CRASH_AFTER"

func TestMain(m *testing.M) {
	if point := os.Getenv(crashAt); point != "" {
		os.Exit(beVerifier(paywall.Point(point)))
	}
	os.Exit(m.Run())
}

func beVerifier(point paywall.Point) int {
	return Run(context.Background(), Process{
		Process: service.Process{
			Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr,
			Ready: func(addr, _ net.Addr) { fmt.Println(addr) },
		},
		heartbeat: 100 * time.Millisecond,
		at: func(p paywall.Point) {
			if p == point {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
		atLog: func(p translog.Point) {
			if "log "+string(p) != string(point) {
				return
			}
			if os.Remove(os.Getenv(crashAfter)) == nil { // the test lets it
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
}

// world is everything around the program: a recorded chain, and a simulator that is
// facilitator and payment network.
type world struct {
	*testing.T
	sim *paymenttest.Simulator
	env map[string]string
	key *receipt.SigningKey
	// later is how far the clock of commands is ahead.
	later time.Duration
	// began is when payments of this test are signed.
	began time.Time
}

func newWorld(t *testing.T, databaseURL string) *world {
	t.Helper()
	w := &world{T: t, sim: paymenttest.NewSimulator("eip155:84532", time.Now), began: time.Now()}
	node := chaintest.NewNode(t, chaintest.Load(t, chaintest.BaseBlock))
	facilitator, network := httptest.NewServer(w.sim.Facilitator()), httptest.NewServer(w.sim.Node(84532))
	t.Cleanup(facilitator.Close)
	t.Cleanup(network.Close)
	var err error
	w.key, err = receipt.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	w.must(err)
	pem, err := w.key.PEM()
	w.must(err)
	keyFile := filepath.Join(t.TempDir(), "key.pem")
	w.must(os.WriteFile(keyFile, pem, 0o600))
	w.env = map[string]string{
		"ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0", "DATABASE_URL": databaseURL, "PUBLIC_URL": "https://seller.example/",
		"CHAIN_RPC_URLS": node.URL, "RECEIPT_SIGNING_KEY_FILE": keyFile,
		"FACILITATOR_URL": facilitator.URL, "PAYMENT_PAY_TO": paymenttest.Seller, "PAYMENT_NETWORK": "eip155:84532", "PAYMENT_RPC_URL": network.URL,
		"FACILITATOR_SETTLE_TIMEOUT": "5s",
		"REPEAT_WINDOW":              "0", // the tests buy one answer many times
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// running is a verifier in this process.
type running struct {
	url    string
	stop   func() error
	stderr *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run starts the program here. stop ends it and returns an error unless the exit code was 0.
func (w *world) run() running {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 2)
	stderr := &lockedBuffer{}
	go func() {
		code := Run(ctx, Process{heartbeat: 100 * time.Millisecond, Process: service.Process{
			Args: []string{"serve"}, Getenv: w.getenv, Stdout: io.Discard, Stderr: stderr,
			Ready: func(addr, _ net.Addr) { address <- addr.String() },
		}})
		if code != 0 {
			ended <- fmt.Errorf("exit code %d: %s", code, stderr)
		}
		ended <- nil
	}()
	var once sync.Once
	var result error
	stop := func() error {
		once.Do(func() {
			cancel()
			result = <-ended
		})
		return result
	}
	w.Cleanup(func() { _ = stop() })
	select {
	case a := <-address:
		return running{url: "http://" + a, stop: stop, stderr: stderr}
	case err := <-ended:
		w.Fatalf("the program ended: %v\n%s", err, stderr)
	case <-time.After(30 * time.Second):
		w.Fatalf("the program does not serve\n%s", stderr)
	}
	return running{}
}

func (w *world) getenv(name string) string { return w.env[name] }

// spawn starts the program as a process of its own, to be killed at a point that it meets when it is asked.
func (w *world) spawn(point paywall.Point) (url string, process *exec.Cmd) {
	w.Helper()
	process, out := w.start(point)
	line, err := bufio.NewReader(out).ReadString('\n')
	w.must(err)
	return "http://" + strings.TrimSpace(line), process
}

// start is spawn without waiting until the process serves: it may be killed before.
func (w *world) start(point paywall.Point) (process *exec.Cmd, out io.Reader) {
	w.Helper()
	binary, err := os.Executable()
	w.must(err)
	process = exec.Command(binary)
	process.Stderr = os.Stderr
	env := map[string]string{crashAt: string(point), "LOG_LEVEL": "error", "PATH": os.Getenv("PATH")}
	maps.Copy(env, w.env)
	for name, value := range env {
		process.Env = append(process.Env, name+"="+value)
	}
	out, err = process.StdoutPipe()
	w.must(err)
	w.must(process.Start())
	w.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	return process, out
}

// pay makes the header of a version 2 payment.
func (w *world) pay(nonce string) string {
	w.Helper()
	offer := payment.Offer{Terms: paymenttest.Terms("eip155:84532"), Resource: x402.Resource{URL: "https://seller.example" + path}}
	header, err := x402.Encode(paymenttest.PayloadV2(offer, paymenttest.Authorization(nonce, w.began)))
	w.must(err)
	return header
}

// post requests the evidence with a payment; status 0 means no answer.
func (w *world) post(url, paid string) (status int, body string) {
	w.Helper()
	return w.ask(url+path, goodBody, paid)
}

// ask sends a body with a payment; status 0 means no answer.
func (w *world) ask(url, question, paid string) (status int, body string) {
	w.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(question))
	w.must(err)
	request.Header.Set("Content-Type", "application/json")
	if paid != "" {
		request.Header.Set(x402.HeaderPaymentSignature, paid)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// wantReceipt checks that anybody can verify the answer.
func (w *world) wantReceipt(status int, body string) {
	w.Helper()
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	if status != http.StatusOK {
		w.Fatalf("got %d: %s", status, body)
	}
	if _, err := receipt.Verify([]byte(body), keys); err != nil {
		w.Fatalf("the receipt does not verify: %v", err)
	}
}

func (w *world) wantTransfers(n int) {
	w.Helper()
	if got := w.sim.Transfers(); got != n {
		w.Errorf("%d transfers were made, want %d", got, n)
	}
}
