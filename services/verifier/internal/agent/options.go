package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const usage = `agent buys a verification of a transaction and checks the signed receipt offline.

  agent                     send a transaction on the development chain and verify it
  agent --tx HASH           verify a transaction that is there
  agent --tx HASH --status success --from 0x… --to 0x… --selector 0x… --min-confirmations 12

The private key that pays comes from AGENT_PRIVATE_KEY (0x-hex), never from an
argument. Without it, and at a verifier on this machine only, the payer of the
development network pays, whose key is public.

The receipt must be about the chain that was paid for: the one of --chain, of the
path (/v1/verify/base-transaction), or of the node that took the agent's own
transaction. A path that names none stands for the verifier's first chain.

The agent pays known US dollar tokens only, at most --max-usd for one answer. A
signed payment is kept in --state until its answer is there; after a crash the
same command sends the same payment again.

With --json it prints one JSON object, also of a failure: then with "verified":
false, "error", "reason" and "paid": "no", "unknown" or "yes".

Exit codes: 0 receipt in hand and checked; 1 failed, nothing was paid; 2 wrong
usage; 3 paid or perhaps paid, run the same command again; 4 paid, but the
receipt does not hold.

`

// options are the command line.
type options struct {
	url, path, rpc string
	tx             string
	// chain is the id of the one that the receipt must be about, "" when the path
	// or the verifier's key document has it.
	chain         string
	expect        expectations
	most          *big.Int
	network       string
	state, out    string
	maxWait       time.Duration
	json, version bool
	key           string
}

// expectations is the request's member of that name (contract section 2).
type expectations struct {
	Status           string `json:"status,omitempty"`
	From             string `json:"from,omitempty"`
	To               string `json:"to,omitempty"`
	Selector         string `json:"selector,omitempty"`
	MinConfirmations int    `json:"minConfirmations,omitempty"`
}

// devKey is the payer of the development network: the first account of the
// mnemonic that every Ethereum development chain uses, which is public.
const devKey = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

var errNoKey = errors.New("AGENT_PRIVATE_KEY is not set")

func parse(args []string, getenv func(string) string, stdout io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.url, "url", "http://127.0.0.1:8080", "`address` of the verifier")
	f.StringVar(&o.path, "path", "/v1/verify/chain-transaction", "`path` of the paid route")
	f.StringVar(&o.rpc, "rpc", "http://127.0.0.1:8545", "`address` of a node of the chain, to send a transaction without --tx")
	f.StringVar(&o.tx, "tx", "", "`hash` of the transaction to verify")
	f.StringVar(&o.chain, "chain", "", "`id` of the transaction's chain, such as eip155:8453; without it the one that the path names, else the verifier's first")
	f.StringVar(&o.expect.Status, "status", "", "expected outcome: `success|reverted`")
	f.StringVar(&o.expect.From, "from", "", "expected sender, an `address`")
	f.StringVar(&o.expect.To, "to", "", "expected recipient, an `address`")
	f.StringVar(&o.expect.Selector, "selector", "", "expected function `selector`")
	f.IntVar(&o.expect.MinConfirmations, "min-confirmations", 0, "expected confirmations, a `number`")
	most := f.String("max-usd", "0.05", "most that one answer may cost, in US `dollars`")
	f.StringVar(&o.network, "network", "", "pay on this `network` only, such as eip155:8453; without it on any that has a known token")
	f.StringVar(&o.state, "state", defaultState(), "`folder` of the journal of payments")
	f.StringVar(&o.out, "out", "", "`file` to write the receipt to")
	f.DurationVar(&o.maxWait, "patience", 2*time.Minute, "how long to wait for finality, and for an answer to a payment")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVar(&o.version, "version", false, "print the version")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = io.WriteString(stdout, usage)
			f.SetOutput(stdout)
			f.PrintDefaults()
		}
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q; see agent --help", f.Arg(0))
	}
	var err error
	if o.most, err = parseDollars(*most); err != nil {
		return o, fmt.Errorf("--max-usd: %w", err)
	}
	if o.chain != "" && !isChainID(o.chain) {
		return o, fmt.Errorf("--chain: %q is not of the form eip155:8453", o.chain)
	}
	return o, o.takeKey(getenv("AGENT_PRIVATE_KEY"))
}

// takeKey takes the key of the environment, or the development one where the
// verifier is on this machine.
func (o *options) takeKey(key string) error {
	u, err := url.Parse(o.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--url: %q is not an http or https address", o.url)
	}
	local := u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	if u.Scheme == "http" && !local && !isPrivateName(u.Hostname()) {
		return fmt.Errorf("--url: payments go to https, or stay on this machine or its private network; %s does neither", o.url)
	}
	if key == "" && local {
		key = devKey
	}
	if key == "" && !o.version {
		return errNoKey
	}
	o.key = key
	return nil
}

// isChainID reports whether a text is the id of an Ethereum chain (CAIP-2).
func isChainID(text string) bool {
	number, err := strconv.ParseUint(strings.TrimPrefix(text, "eip155:"), 10, 64)
	return err == nil && number > 0 && text == fmt.Sprintf("eip155:%d", number)
}

// isPrivateName reports whether a name has no dot, as those of a private network,
// such as a container's. A number is not a name: some resolvers take it for an
// address (2130706433 and 0x7f000001 are 127.0.0.1).
func isPrivateName(host string) bool {
	_, err := strconv.ParseUint(host, 0, 64)
	isNumber := err == nil || strings.Trim(host, "0123456789") == ""
	return !isNumber && !strings.ContainsAny(host, ".:")
}

func defaultState() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "pforte-agent")
	}
	return ".pforte-agent"
}
