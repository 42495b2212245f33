package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// longestLook is the longest pause before the seller is asked again how far a transaction is.
const longestLook = time.Minute

// progress is the seller's word on how far a transaction is, before anything is signed. What look returns of it has no
// free text: Block is a number, and KnownOn the name of a chain, or they are "".
type progress struct {
	Status         string `json:"status"`
	Block          string `json:"block"`
	FinalInSeconds int    `json:"finalInSeconds"`
	KnownOn        string `json:"knownOn"`
}

// tooEarly means that the seller says that a transaction cannot be verified yet, or not on this chain. Nothing
// was signed.
type tooEarly struct {
	progress
	chain string
}

func (e *tooEarly) Error() string {
	switch {
	case e.Status == "included":
		return fmt.Sprintf("nothing was signed: the transaction is in block %s, which is final in about %d s",
			cmp.Or(e.Block, "?"), e.FinalInSeconds)
	case e.Status == "pending":
		return "nothing was signed: the transaction is in no block yet"
	case e.KnownOn != "":
		return fmt.Sprintf("nothing was signed: the chain %s does not have this transaction; %s has it", e.chain,
			e.KnownOn)
	default:
		return fmt.Sprintf("nothing was signed: no node of the chain %s knows this transaction", e.chain)
	}
}

// reason returns the reason with which the seller would refuse a payment.
func (e *tooEarly) reason() string {
	switch e.Status {
	case "included":
		return "not_finalized"
	case "pending":
		return "transaction_pending"
	default:
		return "transaction_not_found"
	}
}

// mayChange returns after how long to ask again, and whether the seller's answer may change by itself.
func (e *tooEarly) mayChange() (after time.Duration, yes bool) {
	if e.Status == "unknown" {
		return 0, false
	}
	return min(max(time.Duration(e.FinalInSeconds)*time.Second, usualPause), longestLook), true
}

// waitFinal asks the seller how far the transaction of a request is until it is final, for at most b.finalWait.
// It returns a *tooEarly, at once if the seller does not know the transaction, else when its next look, at most
// longestLook away, would come after that time; nil if the transaction is final, or the seller does not tell; and the
// cause of ctx if ctx ends.
func (b *buyer) waitFinal(ctx context.Context, e entry) error {
	for end := time.Now().Add(b.finalWait); ; {
		early := b.look(ctx, e)
		if early == nil {
			return nil
		}
		pause, may := early.mayChange()
		if !may || time.Now().Add(pause).After(end) {
			return early
		}
		b.print("Not yet: %v. It is looked at again in %s.", early, pause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// look asks the seller once. It returns nil if the transaction is final, or if that cannot be learnt.
func (b *buyer) look(ctx context.Context, e entry) *tooEarly {
	hash := hashOf([]byte(e.Body))
	chain, usual := chainOf(strings.TrimPrefix(e.URL, b.url))
	if !usual || !transactionHash.MatchString(hash) {
		return nil
	}
	got, err := b.get(ctx, b.url+"/v1/status/"+chain+"/"+hash)
	early := &tooEarly{chain: chain}
	if err != nil || json.Unmarshal(got.body, &early.progress) != nil {
		return nil
	}
	if !blockNumber.MatchString(early.Block) {
		early.Block = ""
	}
	if !chainName.MatchString(early.KnownOn) {
		early.KnownOn = ""
	}
	early.FinalInSeconds = min(max(early.FinalInSeconds, 0), maxFinalSeconds)
	switch early.Status {
	case "unknown", "pending", "included":
		return early
	default:
		return nil
	}
}

// hashOf returns the hash of the transaction that a request asks about, "" if there is none that can be read.
func hashOf(body []byte) string {
	var asked struct {
		TransactionHash string `json:"transactionHash"`
	}
	if json.Unmarshal(body, &asked) != nil {
		return ""
	}
	return asked.TransactionHash
}

// maxFinalSeconds bounds what a seller says of a transaction's finality: it is a day.
const maxFinalSeconds = 24 * 60 * 60

var blockNumber = regexp.MustCompile("^[0-9]{1,20}$")

// chainOf returns the chain's name in the path of a paid route for one question, or anyChain for a path without
// one. It returns false for any other path.
func chainOf(route string) (chain string, ok bool) {
	if route == firstPaths[transferSuffix] {
		return anyChain, true
	}
	folder, last := path.Split(route)
	chain, ok = strings.CutSuffix(last, transferSuffix)
	if !ok {
		chain, ok = strings.CutSuffix(last, transactionSuffix)
	}
	return chain, ok && folder == "/v1/verify/" && chainName.MatchString(chain)
}
