package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
)

// recordedBlock is block 2,000,000 of Base, as a node answered it.
const recordedBlock = top + "/pkg/receipt/testdata/blocks/base-mainnet-2000000.json.gz"

// bought is what the scripts in clients print.
type bought struct {
	Status  int             `json:"status"`
	Body    json.RawMessage `json:"body"`
	Payment struct {
		Success     bool   `json:"success"`
		Transaction string `json:"transaction"`
		Network     string `json:"network"`
		Payer       string `json:"payer"`
	} `json:"payment"`
}

// officialWorld verifies Base and is paid on the development chain, through a
// facilitator of the official packages.
func officialWorld(t *testing.T) *world {
	t.Helper()
	nodePath, recorder, facilitator := node(t), freeAddr(t), freeAddr(t)
	return newWorld(t, options{
		change: func(l *layout.Layout) {
			l.Extra["verifier"] = map[string]string{
				"CHAIN_NAME": "base", "CHAIN_ID": "8453", "CHAIN_RPC_URLS": "http://" + recorder,
				"FACILITATOR_URL": "http://" + facilitator,
			}
		},
		before: func(l layout.Layout) []stack.Program {
			return []stack.Program{fixture.RecordedNode(l, "recordednode", recordedBlock, recorder, 2000600, 0), officialFacilitator(l, nodePath, facilitator)}
		},
	})
}

func officialFacilitator(l layout.Layout, nodePath, addr string) stack.Program {
	_, port := split(addr)
	return stack.Program{
		Name: "facilitator", Path: nodePath, Args: []string{"clients/facilitator.mjs"},
		Env:   []string{"LISTEN_PORT=" + port, "RPC_URL=http://" + l.Chain, "FACILITATOR_KEY=" + layout.SettlerKey},
		Ready: stack.Healthy("http://" + addr + "/supported"),
	}
}

// pay buys with the example that buyers have, or with a script in clients.
func (w *world) pay(t *testing.T, script, question string) (b bought) {
	t.Helper()
	url := w.PublicURL + "/v1/verify/base-transaction"
	if script == example {
		return w.payAsWritten(t, url, question)
	}
	env := []string{"BUYER_KEY=" + layout.PayerKey, "RPC_URL=http://" + w.Chain}
	code, out := command(t, env, node(t), "clients/"+script, url, question)
	if err := json.Unmarshal(out, &b); code != 0 || err != nil {
		t.Fatalf("%s ends with %d: %v: %s\nfacilitator: %s", script, code, err, out, w.log(t, "facilitator"))
	}
	return b
}

// example is the buyer of version 2, as the verifier's page has it.
const example = "pay.mjs"

// payAsWritten buys with the example, which prints the answer, and its status and payment
// on stderr.
func (w *world) payAsWritten(t *testing.T, url, question string) (b bought) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node(t), example, url, question)
	cmd.Dir, cmd.Env = desk(t), []string{"PATH=" + os.Getenv("PATH"), "PRIVATE_KEY=" + layout.PayerKey}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	status, payment, _ := strings.Cut(strings.TrimSpace(stderr.String()), " ")
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || json.Unmarshal([]byte(status), &b.Status) != nil || (err == nil) != (b.Status == http.StatusOK) {
		t.Fatalf("%s: %v: %s\nfacilitator: %s", example, err, &stderr, w.log(t, "facilitator"))
	}
	b.Body = out
	if b.Status == http.StatusOK {
		if err := json.Unmarshal([]byte(payment), &b.Payment); err != nil {
			t.Fatalf("%s: %v: %s", example, err, payment)
		}
	}
	return b
}

func TestOfficial_ClientsBuyAndTheReceiptsHold(t *testing.T) {
	w := officialWorld(t)
	for script, c := range map[string]struct{ question, network, from string }{
		example: {
			`{"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb","expectations":{"status":"success","from":"0xF9868B3960348194371B8CA4FE87CA7DE95E40B6","to":"0xc7b006f084ca79334db41fe216d3195870fac026","selector":"0x18cbafe5","minConfirmations":12}}`,
			"eip155:84532", "0xf9868b3960348194371b8ca4fe87ca7de95e40b6",
		},
		"buy-v1.mjs": {
			`{"transactionHash":"0x95374df26fa87351a3fd3dea9691c761e63db98e03ec960d4b4f59c231eecce7"}`,
			"base-sepolia", "0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001",
		},
	} {
		t.Run(script, func(t *testing.T) {
			before := w.income(t)
			b := w.pay(t, script, c.question)
			if b.Status != http.StatusOK || !b.Payment.Success || b.Payment.Network != c.network || len(b.Payment.Transaction) != 66 {
				t.Fatalf("got %+v: %s", b, b.Body)
			}
			var answer struct {
				Receipt struct {
					Block       struct{ Number string }
					Transaction struct{ From string }
					Verdict     string
				}
			}
			if err := json.Unmarshal(b.Body, &answer); err != nil {
				t.Fatal(err)
			}
			if r := answer.Receipt; r.Block.Number != "2000000" || r.Transaction.From != c.from || r.Verdict != "verified" {
				t.Errorf("the receipt has %+v", r)
			}
			if got := w.income(t) - before; got != price {
				t.Errorf("%d moved", got)
			}
			w.checkReceipt(t, b.Body)
		})
	}
}

func TestOfficial_FacilitatorTakesOurAgentsPayment(t *testing.T) {
	w := officialWorld(t)
	before := w.income(t)
	b := w.buy(t, "--path", "/v1/verify/base-transaction", "--tx", "0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c", "--selector", "0x7ff36ab5")
	if got := w.income(t) - before; got != price {
		t.Errorf("%d moved", got)
	}
	w.checkReceipt(t, b.Answer)
}

func TestOfficial_ClientsAreNotChargedForA422(t *testing.T) {
	w := officialWorld(t)
	before := w.income(t)
	for _, script := range []string{example, "buy-v1.mjs"} {
		b := w.pay(t, script, `{"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb","expectations":{"status":"reverted"}}`)
		if b.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s got %d: %s", script, b.Status, b.Body)
		}
	}
	if got := w.income(t) - before; got != 0 {
		t.Errorf("%d moved", got)
	}
}
