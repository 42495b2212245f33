package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// statusPath is followed by the chain's name, or anyChain, and the transaction's hash.
const statusPath = "/v1/status/"

// anyChain stands for the first chain, as in the firstPath of transactionKind.
const anyChain = "chain"

// statusTimeout is how long a question about the state of a transaction waits for nodes.
const statusTimeout = 1500 * time.Millisecond

var errTooManyLookups = errors.New("too many free questions about transactions")

// unknownChain is the error for a name of a chain that is none of names.
type unknownChain struct{ names []string }

func (e *unknownChain) Error() string {
	return "This verifier has no such chain; it has: " + strings.Join(e.names, ", ")
}

// unknownChain returns the error for a name that is none of the chains'.
func (a *api) unknownChain() error {
	names := make([]string, len(a.Chains))
	for i, c := range a.Chains {
		names[i] = c.Name
	}
	return &unknownChain{names}
}

// namesAChain reports whether a path has the form of those that sell evidence about a chain.
func namesAChain(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1/verify/")
	return ok && slices.ContainsFunc(kinds, func(k *kind) bool {
		name, ok := strings.CutSuffix(rest, k.suffix)
		return ok && name != "" && !strings.Contains(name, "/")
	})
}

// statusBody is how far a transaction is, before anything is bought.
type statusBody struct {
	Status chain.Stage `json:"status"`
	// Block is the decimal number of the transaction's block.
	Block string `json:"block,omitempty"`
	// FinalInSeconds estimates in how many seconds an included transaction is final.
	FinalInSeconds int `json:"finalInSeconds,omitempty"`
	// KnownOn names another chain of this verifier, whose nodes know the transaction.
	KnownOn string `json:"knownOn,omitempty"`
}

// statusOf returns how far a transaction is. Where no node of the chain knows it, those of the others are asked. It is
// free, and costs nodes little: see Paywall.CountLookup.
func (a *api) statusOf(ctx context.Context, name string, transaction chain.Hash, address string) (statusBody, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	// A question counts once, however many chains it concerns: who polls does not choose how many there are.
	ask := sync.OnceValue(func() error {
		if a.Paywall.CountLookup(address) != nil {
			return errTooManyLookups
		}
		return nil
	})
	if name == anyChain {
		name = a.Chains[0].Name
	}
	for _, c := range a.Chains {
		if c.Name != name {
			continue
		}
		status, err := c.Progress(ctx, transaction, ask)
		if err != nil || status.Stage != chain.Unknown {
			return bodyOfStatus(status), err
		}
		return statusBody{Status: chain.Unknown, KnownOn: a.knownOn(ctx, name, transaction, ask)}, nil
	}
	return statusBody{}, a.unknownChain()
}

func bodyOfStatus(status chain.Progress) statusBody {
	body := statusBody{Status: status.Stage}
	if status.Stage == chain.Included || status.Stage == chain.Final {
		body.Block = strconv.FormatUint(status.Block, 10)
	}
	if status.Stage == chain.Included {
		body.FinalInSeconds = seconds(status.FinalIn)
	}
	return body
}

// knownOn returns the first other chain that is found to know the transaction, or "". Chains whose
// lookup fails are passed over.
func (a *api) knownOn(ctx context.Context, name string, transaction chain.Hash, ask func() error) string {
	known := make([]bool, len(a.Chains))
	var all sync.WaitGroup
	for i, c := range a.Chains {
		if c.Name == name {
			continue
		}
		all.Go(func() {
			status, err := c.Progress(ctx, transaction, ask)
			known[i] = err == nil && status.Stage != chain.Unknown // what is not known is no error
		})
	}
	all.Wait()
	for i, c := range a.Chains {
		if known[i] {
			return c.Name
		}
	}
	return ""
}

// status is GET statusPath.
func (a *api) status(c echo.Context) error {
	transaction, err := readHash(c.Param("hash"))
	if err != nil {
		return err
	}
	status, err := a.statusOf(c.Request().Context(), c.Param("chain"), transaction, c.RealIP())
	if err != nil {
		return err
	}
	body, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return answer{status: http.StatusOK, header: noStore, body: body}.write(c)
}

// readHash reads a transaction's hash as the routes that sell take it.
func readHash(text string) (chain.Hash, error) {
	hash, err := chain.ParseHash(text)
	if err != nil {
		return hash, &strictjson.Error{Pointer: "/transactionHash", Reason: err.Error()}
	}
	return hash, nil
}

// statusTool returns the tool transaction_status.
func (a *api) statusTool() tool {
	type arguments struct {
		Chain           *string `json:"chain"`
		TransactionHash string  `json:"transactionHash"`
	}
	schema := a.withChain(`{"type":"object","required":["transactionHash"],"additionalProperties":false,` +
		`"properties":{"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"}}}`)
	return freeTool("transaction_status", "State of a transaction",
		"Says whether a transaction is unknown, pending, included or final, and in how many seconds it will be: "+
			"only a final one can be verified. By the word of a node, not signed. Free.",
		schema, statusOutput, strictjson.Rules{},
		func(ctx context.Context, call toolCall, in arguments) (any, error) {
			transaction, err := readHash(in.TransactionHash)
			if err != nil {
				return nil, err
			}
			name := anyChain
			if in.Chain != nil {
				name = *in.Chain
			}
			status, err := a.statusOf(ctx, name, transaction, call.address)
			var unknown *unknownChain
			if errors.As(err, &unknown) {
				err = &strictjson.Error{
					Pointer: "/chain",
					Reason:  "is none of the chains here, which are " + strings.Join(unknown.names, ", "),
				}
			}
			return status, err
		})
}
