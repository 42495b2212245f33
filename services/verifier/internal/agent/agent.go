package agent

import (
	"context"
	_ "embed" // the help
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/x402"
)

//go:embed usage.txt
var usage string

// The exit codes, as the usage lists them.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitUndecided
	exitReceipt
	exitNotFinal
)

// Run runs the command agent with the arguments that follow its name, and returns the exit code.
func Run(
	ctx context.Context, version string, args []string, getenv func(string) string, stdin io.Reader, stdout,
	stderr io.Writer,
) int {
	read, isMCP := parse, len(args) > 0 && args[0] == "mcp"
	if isMCP {
		read, args = parseMCP, args[1:]
	}
	o, err := read(args, getenv, stdout)
	if o.warning != "" {
		_, _ = fmt.Fprintln(stderr, "agent:", printable(o.warning))
	}
	code := exitUsage
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err == nil && o.version:
		_, _ = fmt.Fprintln(stdout, "agent", version)
		return exitOK
	case err == nil && isMCP:
		err = serveTools(ctx, o, version, stdin, stdout, stderr)
		code = exitCode(err)
	case err == nil:
		r := run{options: o, stdout: stdout}
		err = r.do(ctx)
		if code = exitCode(err); err != nil && r.json && !r.reported {
			r.reportFailure(err, code)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "agent:", printable(err.Error()))
	}
	return code
}

func exitCode(err error) int {
	var no *denied
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUndecided), errors.Is(err, errHeld), errors.As(err, &no):
		return exitUndecided
	case errors.Is(err, errReceipt):
		return exitReceipt
	case errors.Is(err, errUnproven), errors.Is(err, errFinalLater):
		return exitUndecided
	case errors.Is(err, errFinality):
		return exitNotFinal
	}
	return exitFailed
}

// run is one run of the program, other than of the command mcp.
type run struct {
	options
	*buyer
	stdout io.Writer
	// reported means that the answer was reported.
	reported bool
}

// do buys and checks what the command line asks for. With --prove-payment it then buys evidence of that payment,
// unless the seller says that an earlier one has bought the answer. The first payment stays in the journal until
// the second answer is there and checked, so that the same command resumes both.
func (r *run) do(ctx context.Context) (err error) {
	if r.buyer, err = r.newBuyer(r.print); err != nil {
		return err
	}
	if r.questions != nil {
		return r.doBatch(ctx)
	}
	p, err := r.purchase(ctx)
	if err != nil {
		return err
	}
	// What was not spent cannot be proven.
	if !r.provePayment || p.isReused() {
		if _, err := r.receive(ctx, p, true); err != nil {
			return err
		}
		return r.finish(p)
	}
	result, err := r.receive(ctx, p, !r.json)
	if err != nil {
		return err
	}
	proof, err := r.buyProof(ctx, p, result.Receipt.Chain)
	if err != nil {
		return errors.Join(errUnproven, err)
	}
	if _, err := r.receive(ctx, proof, true); err != nil {
		return errors.Join(errUnproven, err)
	}
	return r.finish(proof, p)
}

// finish drops the payments of purchases from the journal, after what they bought was reported.
func (r *run) finish(all ...purchase) (err error) {
	r.reported = true
	for _, p := range all {
		if dropped := r.forget(p.entry); dropped != nil {
			err = errors.Join(errUndecided, err, dropped)
		}
	}
	return err
}

// purchase buys the answer to the single question of the command line. Without a transaction in it, purchase
// resumes the payment that an earlier run signed for a transaction of the agent's own. If there is none, or it was
// refused and has expired, purchase makes such a transaction and buys the answer about it.
func (r *run) purchase(ctx context.Context) (purchase, error) {
	if r.payment {
		if err := r.findPath(ctx); err != nil {
			if r.isOpen(r.want.TransactionHash) {
				err = fmt.Errorf("%w: %w", errHeld, err)
			}
			return purchase{}, err
		}
	}
	isDemo := r.want.TransactionHash == ""
	if isDemo {
		p, err := r.resumeDemo(ctx)
		if !errors.Is(err, errExpired) {
			return p, err
		}
		if err := r.makeTransaction(ctx); err != nil {
			return purchase{}, err
		}
	}
	e := r.entryOf(r.question())
	e.Demo = isDemo
	return r.buy(ctx, e)
}

// errUnproven means that the answer is there and holds, and that its payment is not proven (--prove-payment).
var errUnproven = errors.New("the answer is there and holds, but its payment is not proven; run the same command " +
	"again, it sends the same payments")

// buyProof waits until the payment of p is final, and buys evidence that it moved the money. It sets r.path,
// r.chain and r.want to the new question. answered is the chain of the receipt that p bought.
func (r *run) buyProof(ctx context.Context, p purchase, answered receipt.Chain) (purchase, error) {
	if answered.ID != p.Offer.Network {
		return purchase{}, fmt.Errorf("the payment was made on %s, and the verifier's path is about %s",
			p.Offer.Network, answered.ID)
	}
	if !transactionHash.MatchString(p.settled.Transaction) {
		return purchase{}, errors.New("the seller names no transaction of the payment")
	}
	r.print("Waiting until the payment is final, to have it verified as well")
	node, chainID, err := r.dial(ctx)
	if err != nil {
		return purchase{}, err
	}
	defer node.Close()
	if chain := fmt.Sprintf("eip155:%d", chainID); chain != p.Offer.Network {
		return purchase{}, fmt.Errorf("the node of --rpc is one of the chain %s, not of %s", chain, p.Offer.Network)
	}
	if _, err := waitFinal(ctx, node, common.HexToHash(p.settled.Transaction), r.options.maxWait); err != nil {
		return purchase{}, err
	}
	price, _ := priceOf(p.Offer)     // it was chosen
	r.path, _ = transferPath(r.path) // parse has checked it
	r.chain = p.Offer.Network
	r.want = receipt.Request{TransactionHash: p.settled.Transaction, Transfer: &receipt.ExpectedTransfer{
		Token: p.Offer.Asset, To: p.Offer.PayTo, Amount: price.String(),
		Authorization: &receipt.Authorization{Authorizer: p.Payer, Nonce: p.Nonce},
	}}
	e := r.entryOf(r.question())
	if p.Proof != nil && p.Proof.name() == e.name() {
		if err := r.journal.keep(*p.Proof); err != nil && !errors.Is(err, errFaster) {
			return purchase{}, err
		}
	}
	proof, err := r.buy(ctx, e)
	if err == nil {
		err = r.limits.locked(func() error { return r.journal.attach(p.entry, proof.entry) })
	}
	return proof, err
}

// resumeDemo resumes the payment that an earlier run signed for a transaction of the agent's own, and sets
// r.want to its request. errExpired, also when there is none; the other errors of replay.
func (r *run) resumeDemo(ctx context.Context) (purchase, error) {
	e, err := r.journal.findDemo(r.payer, r.buyer.url+r.path)
	if err != nil {
		return purchase{}, fmt.Errorf("%w: %w", errHeld, err)
	}
	if e == nil {
		return purchase{}, errExpired
	}
	r.want = receipt.Request{}
	if err := json.Unmarshal([]byte(e.Body), &r.want); err != nil {
		return purchase{}, fmt.Errorf("%w: read the journal of payments: %w", errHeld, err)
	}
	r.print("Going on with transaction %s of an earlier run", r.want.TransactionHash)
	return r.replay(ctx, *e)
}

// receive saves the answer of p for --out and checks it. If tell is set, it also checks the proof of finality,
// where that is asked for, and reports the answer. p may be dropped from the journal only after receive has
// returned no error.
func (r *run) receive(ctx context.Context, p purchase, tell bool) (receipt.Result, error) {
	if r.out != "" {
		if err := os.WriteFile(r.out, p.answer, 0o600); err != nil {
			return receipt.Result{}, errors.Join(errUndecided, fmt.Errorf("save the receipt: %w", err))
		}
		r.print("Saved the receipt in %s", r.out)
	}
	result, err := r.check(ctx, r.question(), p.answer)
	if err != nil {
		return receipt.Result{}, err
	}
	if tell {
		sold, err := receipt.Parse(p.answer)
		if err != nil {
			return receipt.Result{}, err
		}
		final, err := r.proveFinal(ctx, r.finality, sold, r.options.maxWait)
		if err != nil {
			return receipt.Result{}, err
		}
		if err := r.report(p, result, final); err != nil {
			return receipt.Result{}, errors.Join(errUndecided, err)
		}
	}
	return result, nil
}

// print prints a line, but not with --json.
func (r *run) print(format string, args ...any) {
	if !r.json {
		_, _ = fmt.Fprintln(r.stdout, printable(fmt.Sprintf(format, args...)))
	}
}

// printable returns text on one line and with each character replaced that is not printable, so that a seller's text
// cannot control the terminal, or add a line that looks like the agent's own.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, strings.ReplaceAll(text, "\n", "; "))
}

// options are what the command line and the environment set.
type options struct {
	url, path, rpc string
	// want is the question without --batch. Where it names no transaction, it is about one of the agent's own.
	want receipt.Request
	// chain is the id of the chain that the receipt must be about, "" where the path or the key document has it.
	chain string
	// most is the cap on one answer and day that of 24 hours, in atomic units; a nil day is no cap.
	most, day *big.Int
	// network is the only network to pay on, "" for any that has a known token.
	network string
	state   string
	out     string
	// keysFile names the key document to check receipts against; "" stands for the verifier's own.
	keysFile string
	// maxWait bounds how long one payment is sent again, and each wait of a run for finality or for its proof.
	maxWait       time.Duration
	json, version bool
	// payment means that the question is that of --payment; chain is then the chain of that payment.
	payment bool
	// questions are those of --batch.
	questions []question
	// provePayment means that the payment for the answer is then verified as well.
	provePayment bool
	// confirm means that the user is asked before each new payment (agent mcp).
	confirm    bool
	privateKey string
	// warning is about who has access to the file of the key, "" for none.
	warning string
	// finality is what the user trusts to see that the receipt's block is final.
	finality finalityTrust
	// logPolicy is what the user trusts of logs of receipts, nil for looking in none.
	logPolicy *receiptlog.Policy
}

// devKey is the payer's private key on the development network. It is public: the first account of the default
// mnemonic of Anvil and Hardhat.
const devKey = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

func parse(args []string, getenv func(string) string, stdout io.Writer) (options, error) {
	var o options
	expect := &o.want.Expectations
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.StringVar(&o.path, "path", firstPaths[transactionSuffix], "`path` of the paid route; with --transfer "+
		firstPaths[transferSuffix])
	f.StringVar(&o.rpc, "rpc", "http://127.0.0.1:8545", "`address` of a node of the chain, to send a transaction "+
		"without --tx")
	f.StringVar(&o.want.TransactionHash, "tx", "", "`hash` of the transaction to verify")
	f.StringVar(&o.chain, "chain", "", "`id` of the transaction's chain, such as eip155:8453; without it the one "+
		"that the path names, else the verifier's first")
	f.StringVar(&expect.Status, "status", "", "expected outcome: `success|reverted`")
	f.StringVar(&expect.From, "from", "", "expected sender, an `address`")
	f.StringVar(&expect.To, "to", "", "expected recipient, an `address`")
	f.StringVar(&expect.Selector, "selector", "", "expected function `selector`")
	f.IntVar(&expect.MinConfirmations, "min-confirmations", 0, "expected confirmations, a `number`")
	token := f.String("transfer", "", "verify a transfer of this `token`, by its address, or native; --from and --to "+
		"are its parties then")
	amount := f.String("amount", "", "what the transfer moved, in atomic `units`")
	minAmount := f.String("min-amount", "", "what the transfer moved at least, in atomic `units`")
	payment := f.String("payment", "", "`file` with what seller and buyer said of an x402 payment, to verify it")
	position := f.Int("log-position", -1, "`place` of the transfer among the logs of the transaction")
	authorization := f.String("authorization", "", "x402 payment (EIP-3009) that the transfer has to be: `payer:nonce`")
	f.BoolVar(&o.provePayment, "prove-payment", false, "then verify the agent's own payment, for another one; --rpc "+
		"is a node of its network")
	checkpoint, beaconNetwork := o.finality.flags(f)
	batch := f.String("batch", "", "`file` of questions that one payment buys the answers to")
	f.StringVar(&o.out, "out", "", "`file` to write the receipt to")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := o.parseCommon(f, args, "", usage, stdout); err != nil {
		return o, err
	}
	if err := o.finality.read(*checkpoint, *beaconNetwork); err != nil {
		return o, err
	}
	if err := o.takeBatch(f, *batch); err != nil {
		return o, err
	}
	if err := o.takePayment(f, *payment); err != nil {
		return o, err
	}
	if id, ok := x402.ChainID(o.chain); o.chain != "" && (!ok || !id.IsUint64()) {
		return o, fmt.Errorf("--chain: %q is not of the form eip155:8453", o.chain)
	}
	transfer := receipt.ExpectedTransfer{Token: *token, Amount: *amount, MinAmount: *minAmount}
	if *position != -1 {
		transfer.LogPosition = position
	}
	if payer, nonce, isPair := strings.Cut(*authorization, ":"); isPair {
		transfer.Authorization = &receipt.Authorization{Authorizer: payer, Nonce: nonce}
	} else if *authorization != "" {
		return o, errors.New("--authorization is not of the form payer:nonce")
	}
	if err := o.askTransfer(transfer); err != nil {
		return o, err
	}
	if _, ok := transferPath(o.path); o.provePayment && !ok {
		return o, errors.New("--prove-payment: the verifier has no known path for transfers beside this --path")
	}
	return o, o.takeKey(getenv)
}

// takeBatch reads the questions of --batch. With it the flags that go only with a single question, such as those
// of finality, are refused.
func (o *options) takeBatch(f *flag.FlagSet, file string) (err error) {
	if file == "" {
		return nil
	}
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "path", "rpc", "tx", "chain", "status", "from", "to", "selector", "min-confirmations",
			"transfer", "amount", "min-amount", "log-position", "authorization", "prove-payment", "payment",
			"finality", "checkpoint", "beacon-network":
			err = fmt.Errorf("--batch: --%s goes with a single question", set.Name)
		}
	})
	if err != nil {
		return err
	}
	if o.questions, err = readBatch(file); err != nil {
		return fmt.Errorf("--batch: %w", err)
	}
	return nil
}

// takePayment makes the question one about the payment of --payment. Of the other flags that describe a question
// only --min-confirmations goes with it: what the others demand would not be checked.
func (o *options) takePayment(f *flag.FlagSet, file string) (err error) {
	if file == "" {
		return nil
	}
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "path", "tx", "chain", "status", "from", "to", "selector", "transfer", "amount", "min-amount",
			"log-position", "authorization":
			err = fmt.Errorf("--payment: --%s goes with another question", set.Name)
		}
	})
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return fmt.Errorf("--payment: %w", err)
	}
	confirmations := o.want.Expectations.MinConfirmations
	o.want, o.chain, err = readPayment(text)
	if err != nil {
		return fmt.Errorf("--payment: %w", err)
	}
	o.want.Expectations.MinConfirmations, o.payment = confirmations, true
	return nil
}

// askTransfer makes the question one about the transfer x between --from and --to, unless x is zero.
func (o *options) askTransfer(x receipt.ExpectedTransfer) error {
	e := &o.want.Expectations
	switch {
	case x == receipt.ExpectedTransfer{}:
		return nil
	case x.Token == "":
		return errors.New("--amount, --min-amount, --log-position and --authorization need --transfer")
	case o.want.TransactionHash == "" || e.To == "" || (x.Amount == "") == (x.MinAmount == ""):
		return errors.New("--transfer needs --tx, --to, and one of --amount and --min-amount")
	case e.Status != "" || e.Selector != "":
		return errors.New("--transfer takes neither --status nor --selector: only a transaction that succeeded moves " +
			"anything")
	}
	x.From, x.To, e.From, e.To = e.From, e.To, "", ""
	o.want.Transfer = &x
	if o.path == firstPaths[transactionSuffix] {
		o.path = firstPaths[transferSuffix]
	}
	return nil
}

// parseCommon adds the flags that both commands have, and parses the arguments. dayCap is the default of
// --day-usd, where "" is no cap.
func (o *options) parseCommon(f *flag.FlagSet, args []string, dayCap, usage string, stdout io.Writer) error {
	f.SetOutput(io.Discard)
	f.StringVar(&o.url, "url", "http://127.0.0.1:8080", "`address` of the verifier")
	most := f.String("max-usd", "0.05", "most that one answer may cost, in US `dollars`")
	perDay := f.String("day-usd", dayCap, "most that may be signed for in 24 hours, in US `dollars`, over all runs "+
		"with this --state and key")
	f.StringVar(&o.network, "network", "", "pay on this `network` only, such as eip155:8453; without it on any that "+
		"has a known token")
	f.StringVar(&o.state, "state", defaultState(), "`folder` of the journal of payments and of the limits")
	f.StringVar(&o.keysFile, "keys", "", "`file` with the key document to check receipts against; without it the "+
		"verifier's own is fetched")
	f.DurationVar(&o.maxWait, "patience", 2*time.Minute,
		"how long to wait for finality, and for an answer to a payment")
	f.BoolVar(&o.version, "version", false, "print the version")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = io.WriteString(stdout, usage)
			f.SetOutput(stdout)
			f.PrintDefaults()
		}
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; see %s --help", f.Arg(0), f.Name())
	}
	var err error
	if o.most, err = parseDollars(*most); err != nil {
		return fmt.Errorf("--max-usd: %w", err)
	}
	if *perDay == "" && dayCap == "" {
		return nil
	}
	if o.day, err = parseDollars(*perDay); err != nil {
		return fmt.Errorf("--day-usd: %w", err)
	}
	return nil
}

// newBuyer returns the buyer that the options describe. With the default of --state it first moves the state of
// an earlier release there.
func (o *options) newBuyer(print func(string, ...any)) (*buyer, error) {
	if o.state == defaultState() {
		if err := moveState(formerState(), o.state); err != nil {
			return nil, err
		}
	}
	key, err := crypto.HexToECDSA(strings.TrimPrefix(o.privateKey, "0x"))
	if err != nil {
		return nil, errors.New("AGENT_PRIVATE_KEY is not a private key: 0x and 64 hexadecimal digits")
	}
	return &buyer{
		client: &http.Client{
			Timeout: 3 * time.Minute,
			// A payment goes only to the address that was given.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url: strings.TrimSuffix(o.url, "/"), key: key, payer: crypto.PubkeyToAddress(key.PublicKey).Hex(),
		most: o.most, network: o.network, journal: journal(o.state), keysFile: o.keysFile, maxWait: o.maxWait,
		finalWait: o.maxWait, batch: o.questions,
		print:  print,
		limits: limits{folder: filepath.Join(o.state, "limits"), day: o.day, now: time.Now},
	}, nil
}

// takeKey checks --url, and takes the key of the environment. Without one, the development key pays where the
// verifier is on this machine.
func (o *options) takeKey(getenv func(string) string) error {
	u, err := url.Parse(o.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--url: %q is not an http or https address", o.url)
	}
	local := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	if u.Scheme == "http" && !local && !isPrivateName(u.Hostname()) {
		return fmt.Errorf(
			"--url: payments go to https, or stay on this machine or its private network; %s does neither", o.url)
	}
	key, file := getenv("AGENT_PRIVATE_KEY"), getenv("AGENT_PRIVATE_KEY_FILE")
	switch {
	case key != "" && file != "":
		return errors.New("both AGENT_PRIVATE_KEY and AGENT_PRIVATE_KEY_FILE are set")
	case file != "":
		text, err := os.ReadFile(file) //nolint:gosec // the user names the file
		if err != nil {
			return fmt.Errorf("AGENT_PRIVATE_KEY_FILE: %w", err)
		}
		if key = strings.TrimSpace(string(text)); key == "" {
			return fmt.Errorf("AGENT_PRIVATE_KEY_FILE: %s is empty", file)
		}
		o.warning = warnKeyFile(file)
	case key == "" && local:
		key = devKey
	case key == "" && !o.version:
		return errors.New("neither AGENT_PRIVATE_KEY nor AGENT_PRIVATE_KEY_FILE is set")
	}
	o.privateKey = key
	return nil
}

// isPrivateName reports whether a host is a name without a dot, as those of a private network, such as the name
// of a container. A number is not a name: some resolvers take it for an address (2130706433 and 0x7f000001 are
// 127.0.0.1).
func isPrivateName(host string) bool {
	_, err := strconv.ParseUint(host, 0, 64)
	isNumber := err == nil || strings.Trim(host, "0123456789") == ""
	return !isNumber && !strings.ContainsAny(host, ".:")
}

// warnKeyFile returns a warning if others than its owner have access to the file of a key, else "".
func warnKeyFile(file string) string {
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("warning: AGENT_PRIVATE_KEY_FILE: others may read %s (%04o): chmod 600", file,
		info.Mode().Perm())
}
