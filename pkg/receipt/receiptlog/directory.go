package receiptlog

import (
	"encoding/hex"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

const (
	// DirectoryPath is where a verifier lists the generations of its log.
	DirectoryPath = "/.well-known/receipt-log.json"
	// MaxDirectory bounds the list in bytes.
	MaxDirectory   = 1 << 20
	maxGenerations = 64
)

// Directory lists the generations of a verifier's log. It is what the verifier says about
// itself: a reader who takes keys and policy from it trusts the verifier.
type Directory struct {
	Logs       []Generation `json:"logs"`       // the newest first
	MergeDelay int64        `json:"mergeDelay"` // seconds within which what was sold should get a proof
	Policy     string       `json:"policy"`     // tlog-policy
}

// Generation is one Merkle tree of a verifier's log. The next one begins when the operator
// closes it.
type Generation struct {
	Origin string `json:"origin"`
	Key    string `json:"key"`             // verifier key (vkey)
	Prefix string `json:"prefix"`          // path on the same host
	From   string `json:"from"`            // when it began, RFC 3339
	To     string `json:"to,omitempty"`    // when it ended, RFC 3339; only of a closed one
	Final  string `json:"final,omitempty"` // last checkpoint; only of a closed one
}

// ParseDirectory reads a directory. Members that it does not know are ignored, so that it
// may grow. Only the newest generation may be open. ErrMalformed.
func ParseDirectory(data []byte) (Directory, error) {
	var d Directory
	if len(data) > MaxDirectory {
		return Directory{}, malformed("a list of logs of more than %d bytes", MaxDirectory)
	}
	if err := strictjson.Unmarshal(data, &d, strictjson.Rules{AllowUnknown: true}); err != nil {
		return Directory{}, malformed("list of logs: %v", err)
	}
	if len(d.Logs) == 0 || len(d.Logs) > maxGenerations || d.MergeDelay < 0 {
		return Directory{}, malformed("list of logs: %d logs, merge delay %d", len(d.Logs), d.MergeDelay)
	}
	for i, g := range d.Logs {
		if err := g.validate(i == 0); err != nil {
			return Directory{}, err
		}
	}
	_, err := ParsePolicy([]byte(d.Policy))
	return d, err
}

// ProofPaths returns, with each generation of the log, the path on the verifier's host where it
// has the proof of an entry. GET answers 202 where the proof is not there yet, and 404 where that
// generation lacks the entry. The oldest comes first, because the earliest entry says most.
func (d Directory) ProofPaths(leaf tlog.Hash) iter.Seq2[Generation, string] {
	return func(yield func(Generation, string) bool) {
		for _, g := range slices.Backward(d.Logs) {
			if !yield(g, strings.TrimSuffix(g.Prefix, "/")+"/proof/"+hex.EncodeToString(leaf[:])) {
				return
			}
		}
	}
}

func (g Generation) validate(newest bool) error {
	key, err := ParseLogKey(g.Key)
	if err != nil {
		return err
	}
	if key.name != g.Origin {
		return malformed("list of logs: %s has the key of %s", g.Origin, key.name)
	}
	// A path of another host, or outwards, would let the list choose what a reader asks whom.
	if !strings.HasPrefix(g.Prefix, "/") || strings.HasPrefix(g.Prefix, "//") || path.Clean(g.Prefix) != g.Prefix ||
		strings.ContainsAny(g.Prefix, "?#%\\ ") {
		return malformed("list of logs: the prefix of %s is not a path", g.Origin)
	}
	if _, err := time.Parse(time.RFC3339, g.From); err != nil {
		return malformed("list of logs: a time of %s is not RFC 3339", g.Origin)
	}
	if open := g.To == "" && g.Final == ""; open && newest {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, g.To); err != nil {
		return malformed("list of logs: a time of %s is not RFC 3339", g.Origin)
	}
	if _, err := OpenCheckpoint([]byte(g.Final), key); err != nil {
		return malformed("list of logs: the final checkpoint of %s: %v", g.Origin, err)
	}
	return nil
}

// has returns ErrUnlisted unless the generation's key signed the checkpoint and, where the
// generation is closed, the index is within its final size.
func (g Generation) has(checkpoint []byte, index int64) error {
	if _, err := g.Open(checkpoint); err != nil {
		return fmt.Errorf("%w: %s with another key: %w", ErrUnlisted, g.Origin, err)
	}
	if final, closed := g.FinalCheckpoint(); closed && index >= final.Size {
		return fmt.Errorf("%w: %s was closed with %d entries, and has no entry %d", ErrUnlisted, g.Origin, final.Size,
			index)
	}
	return nil
}

// FinalCheckpoint returns the last checkpoint of a closed generation of a list that
// ParseDirectory returned. closed is false for an open one.
func (g Generation) FinalCheckpoint() (c Checkpoint, closed bool) {
	c, err := g.Open([]byte(g.Final)) // "" is malformed
	return c, err == nil
}

// Open reads a signed checkpoint and checks its signature by the generation's key. ErrMalformed, ErrSignature,
// ErrUnknownLog.
func (g Generation) Open(checkpoint []byte) (Checkpoint, error) {
	key, err := ParseLogKey(g.Key)
	if err != nil {
		return Checkpoint{}, err
	}
	return OpenCheckpoint(checkpoint, key)
}
