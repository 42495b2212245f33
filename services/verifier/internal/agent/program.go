package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/pforte/pforte/pkg/receipt"
)

// The exit codes, as the usage has them.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitUndecided
	exitReceipt
)

// errReceipt means that a paid receipt does not hold.
var errReceipt = errors.New("the receipt was paid for, but does not hold")

// Run is the program; it returns its exit code.
func Run(ctx context.Context, version string, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, getenv, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		printError(stderr, err)
		return exitUsage
	case o.version:
		_, _ = fmt.Fprintln(stdout, "agent", version)
		return exitOK
	}
	r := run{options: o, stdout: stdout, client: newClient()}
	err = r.do(ctx)
	code := exitCode(err)
	if err != nil {
		printError(stderr, err)
	}
	if err != nil && r.json {
		r.reportFailure(err, code)
	}
	return code
}

// printError prints an error; a terminal that has gone is no error.
func printError(stderr io.Writer, err error) {
	_, _ = fmt.Fprintln(stderr, "agent:", printable(err.Error()))
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUndecided):
		return exitUndecided
	case errors.Is(err, errReceipt):
		return exitReceipt
	}
	return exitFailed
}

// run is one run of the program.
type run struct {
	options
	stdout io.Writer
	client *http.Client
}

// print prints progress, but not with --json.
func (r *run) print(format string, args ...any) {
	if !r.json {
		_, _ = fmt.Fprintln(r.stdout, printable(fmt.Sprintf(format, args...)))
	}
}

// printable keeps a seller's text from controlling the terminal.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, text)
}

// request is the body of the request (contract section 2).
type request struct {
	TransactionHash string       `json:"transactionHash"`
	Expectations    expectations `json:"expectations"`
}

func (r *run) do(ctx context.Context) error {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(r.key, "0x"))
	if err != nil {
		return errors.New("AGENT_PRIVATE_KEY is not a private key: 0x and 64 hexadecimal digits")
	}
	b := buyer{
		client: r.client, key: key, most: r.most, network: r.network, journal: journal{r.state}, demo: r.tx == "",
		maxWait: r.maxWait, print: r.print, now: time.Now,
	}
	url := strings.TrimSuffix(r.url, "/") + r.path
	if b.demo {
		if err := r.resumeDemo(ctx, b, url); !errors.Is(err, errExpired) {
			return err
		}
		if err := r.makeTransaction(ctx, b); err != nil {
			return err
		}
	}
	body, err := json.Marshal(request{r.tx, r.expect})
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	p, err := b.buy(ctx, url, body)
	if err != nil {
		return err
	}
	return r.receive(ctx, b, p, url, body)
}

// resumeDemo resumes a request that an earlier run created and paid for. It returns
// errExpired when there is none.
func (r *run) resumeDemo(ctx context.Context, b buyer, url string) error {
	e, err := b.journal.findDemo(b.payer(), url)
	if err != nil {
		return err
	}
	if e == nil {
		return errExpired
	}
	var q request
	if err := json.Unmarshal([]byte(e.Body), &q); err != nil {
		return fmt.Errorf("read the journal of payments: %w", err)
	}
	r.tx, r.expect = q.TransactionHash, q.Expectations
	r.print("Going on with transaction %s of an earlier run", r.tx)
	p, err := b.again(ctx, *e)
	if err != nil {
		return err
	}
	return r.receive(ctx, b, p, url, []byte(e.Body))
}

// makeTransaction sends a transaction of its own and waits until it is final.
func (r *run) makeTransaction(ctx context.Context, b buyer) error {
	node, err := ethclient.DialContext(ctx, r.rpc)
	if err != nil {
		return fmt.Errorf("reach the chain: %w", err)
	}
	defer node.Close()
	s, err := sendTransaction(ctx, node, b.key)
	if err != nil {
		return err
	}
	r.print("Sent transaction %s", s.Hash)
	if r.chain != "" && r.chain != s.Chain {
		return fmt.Errorf("the node of --rpc is one of the chain %s, not of %s", s.Chain, r.chain)
	}
	r.chain = s.Chain
	number, err := waitFinal(ctx, node, s.Hash, r.maxWait)
	if err != nil {
		return err
	}
	r.print("Final in block %s", number)
	r.tx = s.Hash.Hex()
	r.expect = expectations{Status: receipt.StatusSuccess, From: s.From.Hex(), To: s.To.Hex(), Selector: s.Selector, MinConfirmations: 1}
	return nil
}

// receive saves what was paid for, checks it, and only then drops the payment.
func (r *run) receive(ctx context.Context, b buyer, p purchase, url string, body []byte) error {
	if r.out != "" {
		if err := os.WriteFile(r.out, p.Answer, 0o600); err != nil {
			return errors.Join(errUndecided, fmt.Errorf("save the receipt: %w", err))
		}
		r.print("Saved the receipt in %s", r.out)
	}
	result, err := r.check(ctx, p.Answer)
	if err != nil {
		return err
	}
	if err := r.report(p, result, url); err != nil {
		return errors.Join(errUndecided, err)
	}
	return b.journal.drop(entry{URL: url, Body: string(body), Payer: p.Payer})
}
