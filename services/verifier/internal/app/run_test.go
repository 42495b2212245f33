package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

func TestRun_SellsAVerification(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	r := w.run()
	if status, body := get(t, r.url+"/health"); status != http.StatusOK {
		t.Fatalf("health: %d %s", status, body)
	}
	if status, body := w.post(r.url, ""); status != http.StatusPaymentRequired || !strings.Contains(body, `"resource":"https://seller.example`+path+`"`) {
		t.Errorf("unpaid: %d %s", status, body)
	}
	paid := w.pay("1")
	w.wantReceipt(w.post(r.url, paid))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := w.run() // state survives
	w.wantReceipt(w.post(again.url, paid))
	w.wantTransfers(1)
}

func TestRun_ALyingFacilitatorIsNotBelieved(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.env["FACILITATOR_SETTLE_TIMEOUT"] = "500ms" // the chain confirms, unless PAYMENT_CONFIRM is set otherwise
	r := w.run()
	w.wantReceipt(w.post(r.url, w.pay("1")))
	w.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
			yes := true
			return x402.SettleResponse{Success: &yes, Transaction: paymenttest.Hash(9), Network: "eip155:84532", Payer: paymenttest.Buyer}, nil
		}
	})
	paid := w.pay("2")
	for range 2 {
		if status, body := w.post(r.url, paid); status != http.StatusServiceUnavailable || !strings.Contains(body, `"settlement_pending"`) {
			t.Errorf("got %d %s", status, body)
		}
	}
	w.wantTransfers(1)
	w.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
	status, body := w.post(r.url, paid)
	for status == http.StatusServiceUnavailable { // until Retry-After is over
		time.Sleep(100 * time.Millisecond)
		status, body = w.post(r.url, paid)
	}
	w.wantReceipt(status, body)
	w.wantTransfers(2)
}

func TestRun_AStopFinishesASettlementUnderWay(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	r := w.run()
	settling := make(chan struct{})
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		close(settling)
		time.Sleep(200 * time.Millisecond)
		return honest(), nil
	}
	type result struct {
		status int
		body   string
	}
	answered := make(chan result, 1)
	go func() {
		status, body := w.post(r.url, w.pay("1"))
		answered <- result{status, body}
	}()
	<-settling
	if err := r.stop(); err != nil {
		t.Errorf("stopped with %v", err)
	}
	got := <-answered
	w.wantReceipt(got.status, got.body)
	w.wantTransfers(1)
}

func TestBooks_TheOperatorSeesWhatWasEarned(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	r := w.run()
	for _, nonce := range []string{"1", "2"} {
		w.wantReceipt(w.post(r.url, w.pay(nonce)))
	}
	w.sim.OnSettle = func(context.Context, func() x402.SettleResponse) (x402.SettleResponse, error) {
		no := false
		return x402.SettleResponse{Success: &no, ErrorReason: x402.ReasonInsufficientFunds}, nil
	}
	w.post(r.url, w.pay("3"))

	month := time.Now().UTC().Format("2006-01")
	var totals []map[string]any
	w.command(&totals, "payments", "sum", "--json")
	usd := func(state string, payments float64, amount string) map[string]any {
		return map[string]any{
			"month": month, "state": state, "payments": payments, "amount": amount,
			"network": "eip155:84532", "asset": strings.ToLower(paymenttest.Token),
		}
	}
	if diff := cmp.Diff([]map[string]any{usd("dead", 1, "10000"), usd("settled", 2, "20000")}, totals); diff != "" {
		t.Error(diff)
	}
	var rows []map[string]any
	w.command(&rows, "payments", "list", "--json", "--state", "settled", "--limit", "1", "--from", time.Now().UTC().Format(time.DateOnly))
	if len(rows) != 1 || rows[0]["transaction"] != paymenttest.Hash(2) || rows[0]["payer"] != strings.ToLower(paymenttest.Buyer) {
		t.Errorf("listed %v", rows)
	}
	if rows[0]["operation"] != "base-transaction" || rows[0]["transport"] != "http" || rows[0]["ageSeconds"] == nil {
		t.Errorf("listed %v", rows)
	}
	for args, want := range map[string]int{
		"--operation base-transaction": 3, "--operation base-token-transfer": 0, "--transport http": 3, "--transport mcp": 0,
		"--payer " + paymenttest.Buyer: 3, "--payer " + paymenttest.Seller: 0, "--open": 0,
	} {
		w.command(&rows, append([]string{"payments", "list", "--json"}, strings.Fields(args)...)...)
		if len(rows) != want {
			t.Errorf("%s lists %d payments, want %d", args, len(rows), want)
		}
	}
	text := w.command(nil, "payments", "list")
	if strings.Count(text, "\n") != 4 || !strings.Contains(text, "insufficient_funds") || regexp.MustCompile("[0-9a-fA-F]{130}").MatchString(text) {
		t.Errorf("listed\n%s", text)
	}
	if text := w.command(nil, "payments", "sum"); !strings.Contains(text, "20000") {
		t.Errorf("summed\n%s", text)
	}
}

// execute runs a command line. Its error holds what the program wrote to standard
// error.
func execute(getenv func(string) string, out io.Writer, args ...string) error {
	var stderr lockedBuffer
	p := service.Process{Args: args, Getenv: getenv, Stdout: out, Stderr: &stderr, Version: "1.2.3"}
	if code := Run(context.Background(), Process{Process: p}); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, stderr.String())
	}
	return nil
}

// command runs the program for one command and reads its JSON into v.
func (w *world) command(v any, args ...string) string {
	w.Helper()
	var out bytes.Buffer
	w.must(execute(w.getenv, &out, args...))
	if v != nil {
		w.must(json.Unmarshal(out.Bytes(), v))
	}
	return out.String()
}

// A command beside the real ledger must not answer that nothing is open.
func TestCommands_CreateNoLedgerAndNameTheirs(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		for _, args := range [][]string{{"payments", "list", "--open"}, {"payments", "sum"}, {"payments", "show", "0x" + strings.Repeat("0", 64)}} {
			for range 2 { // the first has not made it
				if err := execute(w.getenv, io.Discard, args...); err == nil || !strings.Contains(err.Error(), "exit code 1: verifier: there is no ledger at "+sqldb.Place(url)) {
					t.Fatalf("%v: %v", args, err)
				}
			}
		}
		w.command(nil, "migrate")
		var stdout, stderr bytes.Buffer
		p := Process{Process: service.Process{Args: []string{"payments", "list", "--json"}, Getenv: w.getenv, Stdout: &stdout, Stderr: &stderr}}
		if code := Run(t.Context(), p); code != 0 || stderr.String() != "ledger: "+sqldb.Place(url)+"\n" {
			t.Errorf("%d, says %s", code, &stderr)
		}
	})
}

func TestCommands_Work(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	if text := w.command(nil, "--version"); text != "verifier 1.2.3\n" {
		t.Errorf("version is %q", text)
	}
	if text := w.command(nil, "--help"); !strings.Contains(text, "PAYMENT_PAY_TO") || !strings.Contains(text, "verifier payments sum") {
		t.Errorf("help is\n%s", text)
	}
	w.command(nil, "migrate")
	if _, err := os.Stat(strings.TrimPrefix(w.env["DATABASE_URL"], "sqlite:")); err != nil {
		t.Errorf("migrate made no ledger: %v", err)
	}
	r := w.run()
	w.env["ADDR"] = strings.TrimPrefix(r.url, "http://")
	w.command(nil, "healthcheck")
	for _, args := range [][]string{
		{"sell"},
		{"serve", "now"},
		{"payments"},
		{"payments", "drop"},
		{"payments", "resolve"},
		{"payments", "resolve", "--payer", "0x1", "--nonce", "0x1", "--reason", "x", "lost"},
		{"payments", "resolve", "--payer", "0x1", "--nonce", "0x1", "--reason", "x", "settled"},
		{"payments", "resolve", "--payer", "0x1", "--nonce", "0x1", "--reason", "x", "--transaction", "0x1", "dead"},
		{"payments", "resolve", "--payer", "0x1", "--reason", "x", "dead"},
		{"payments", "resolve", "--payer", "0x1", "--nonce", "0x1", "dead"},
		{"payments", "list", "--state", "lost"},
		{"payments", "sum", "--limit", "1"},
		{"payments", "list", "--from", "yesterday"},
		{"payments", "list", "more"},
	} {
		err := execute(w.getenv, io.Discard, args...)
		if err == nil || !strings.HasPrefix(err.Error(), "exit code 1: verifier: ") || !strings.Contains(err.Error(), `Run "verifier --help"`) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestCheck_NamesWhatIsWrongAndMakesNoLedger(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "verifier.db"))
	w.command(nil, "check")
	w.env["REPEAT_WINDOW"] = "7d"
	if err := execute(w.getenv, io.Discard, "check"); err == nil || !strings.Contains(err.Error(), "REPEAT_WINDOW") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(strings.TrimPrefix(w.env["DATABASE_URL"], "sqlite:")); err == nil {
		t.Error("it made a ledger")
	}
}

func TestRun_ReportsAllFaultsOfTheSettings(t *testing.T) {
	w := newWorld(t, "mysql://root:hunter2@host/db")
	file := filepath.Join(t.TempDir(), "bad")
	w.must(os.WriteFile(file, []byte("hunter2"), 0o600))
	for name, value := range map[string]string{
		"RECEIPT_SIGNING_KEY_FILE": file, "RECEIPT_RETIRED_KEYS_FILE": file, "PAYMENT_PAY_TO": "me", "PAYMENT_AMOUNT": "0.01",
		"FACILITATOR_URL": "facilitator", "FACILITATOR_FREE_SETTLEMENTS": "-1", "CDP_API_KEY_ID": "id", "CDP_API_KEY_SECRET": "hunter2",
		"CHAIN_NAME": "Base!", "CHAIN_RPC_URLS": "ftp://hunter2", "PUBLIC_URL": "seller.example", "LOG_LEVEL": "loud", "TRUSTED_PROXIES": "here",
		"PAYMENT_CONFIRM": "nobody", "RECEIPT_LOG_KEY_FILE": file, "LOG_POLICY_FILE": file,
	} {
		w.env[name] = value
	}
	err := execute(w.getenv, io.Discard)
	if err == nil {
		t.Fatal("it started")
	}
	for _, name := range []string{
		"DATABASE_URL", "RECEIPT_SIGNING_KEY", "RECEIPT_RETIRED_KEYS_FILE", "payee", "amount", "FACILITATOR_URL", "FACILITATOR_FREE_SETTLEMENTS",
		"CDP_API_KEY_SECRET", "CHAIN_", "PUBLIC_URL", "LOG_LEVEL", "TRUSTED_PROXIES", "PAYMENT_CONFIRM", "RECEIPT_LOG_KEY",
		"LOG_POLICY_FILE",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is in\n%v", err)
	}
}

func TestRun_AStartThatFailsReportsWhy(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	for name, c := range map[string]struct{ setting, value, want string }{
		"another chain":         {"CHAIN_ID", "1", "chain base"},
		"a file that is absent": {"CHAINS_FILE", "/nowhere/chains.json", "CHAINS_FILE"},
		"no node to confirm by": {"PAYMENT_RPC_URL", "-", "PAYMENT_CONFIRM=facilitator"},
		"chain without a node":  {"PAYMENT_CONFIRM", "chain", "PAYMENT_RPC_URL"},
		"one node as two":       {"PAYMENT_RPC_URL", w.env["PAYMENT_RPC_URL"] + "," + w.env["PAYMENT_RPC_URL"] + "/", "PAYMENT_RPC_URL"},
		"a mistyped payee":      {"PAYMENT_PAY_TO", "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BD", "EIP-55"},
		"another token's name":  {"PAYMENT_ASSET_NAME", "Wrong", "PAYMENT_ASSET_NAME"},
		"no token":              {"PAYMENT_ASSET", "0x000000000000000000000000000000000000dEaD", "PAYMENT_ASSET"},
	} {
		env := map[string]string{c.setting: c.value}
		if c.setting == "CHAINS_FILE" {
			env["CHAIN_RPC_URLS"] = "-"
		}
		if c.setting == "PAYMENT_ASSET" {
			env["PAYMENT_ASSET_NAME"], env["PAYMENT_ASSET_VERSION"] = "Coin", "1"
		}
		if c.setting == "PAYMENT_CONFIRM" {
			env["PAYMENT_RPC_URL"] = "-"
		}
		err := execute(func(n string) string {
			if v, ok := env[n]; ok {
				return strings.TrimPrefix(v, "-")
			}
			return w.env[n]
		}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStart_WarnsOfSettingsThatWeaken(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"nothing":                {nil, ""},
		"the facilitator's word": {map[string]string{"PAYMENT_CONFIRM": "facilitator"}, "PAYMENT_CONFIRM"},
		"everybody is trusted":   {map[string]string{"TRUSTED_PROXIES": "0.0.0.0/0,::/0"}, "TRUSTED_PROXIES"},
		"one node for a quorum":  {map[string]string{"CHAIN_ID": "84532", "CHAIN_RPC_URLS": "http://127.0.0.1:1,http://127.0.0.1:2"}, "PAYMENT_RPC_URL"},
		"a node that is away":    {map[string]string{"PAYMENT_RPC_URL": "http://127.0.0.1:1"}, "PAYMENT_ASSET"},
	} {
		w := newWorld(t, sqldbtest.SQLite(t))
		maps.Copy(w.env, c.change)
		printed := w.run().stderr.String()
		if c.want == "" && strings.Contains(printed, "WARN") || !strings.Contains(printed, c.want) {
			t.Errorf("%s: %s", name, printed)
		}
	}
}

func TestRun_SigningKeysLineEndsMayBeSpelledOut(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	pem, err := w.key.PEM()
	w.must(err)
	w.env["RECEIPT_SIGNING_KEY_FILE"], w.env["RECEIPT_SIGNING_KEY"] = "", strings.ReplaceAll(string(pem), "\n", `\n`)
	w.wantReceipt(w.post(w.run().url, w.pay("1")))
}

func TestRun_AnUnusableLedgerFileFailsAtOnce(t *testing.T) {
	w := newWorld(t, "sqlite:/dev/null/ledger.db")
	began := time.Now()
	err := execute(w.getenv, io.Discard)
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestRun_ServesSeveralChains(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	file := filepath.Join(t.TempDir(), "chains.json")
	ethereum := chaintest.NewNode(t, chaintest.Load(t, "ethereum-18000000"))
	w.must(os.WriteFile(file, []byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["`+w.env["CHAIN_RPC_URLS"]+`"]},
		{"name":"ethereum","id":1,"rpcUrls":["`+ethereum.URL+`"]}]}`), 0o600))
	w.env["CHAINS_FILE"], w.env["CHAIN_RPC_URLS"] = file, ""
	r := w.run()
	w.wantReceipt(w.post(r.url, w.pay("1")))
	w.wantReceipt(w.ask(r.url+"/v1/verify/chain-transaction", goodBody, w.pay("2")))
	question := `{"transactionHash":"0x513a4abc759c2d30fd7f5a7e5239e72fccc1b24491b1ed99fa9f24b96e36fc88"}`
	w.wantReceipt(w.ask(r.url+"/v1/verify/ethereum-transaction", question, w.pay("3")))
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestRun_ServesToolsUnlessSwitchedOff(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	if status, body := w.callTool(w.run().url, "1"); status != http.StatusOK {
		t.Errorf("got %d: %s", status, body)
	}
	w.env["MCP"] = "false"
	w.env["DATABASE_URL"] = sqldbtest.SQLite(t)
	if status, body := w.callTool(w.run().url, "2"); status != 0 {
		t.Errorf("switched off: %d %s", status, body)
	}
}

func TestStart_LogsWhatIsSoldToWhom(t *testing.T) {
	w := newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "verifier.db"))
	v := w.run()
	for _, want := range []string{`"msg":"sells"`, `"pay_to":"` + paymenttest.Seller + `"`, `"network":"eip155:84532"`, `base (1 of 1 nodes)`} {
		if !strings.Contains(v.stderr.String(), want) {
			t.Errorf("%s is not in %s", want, v.stderr)
		}
	}
}
