package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

var (
	// errNotLogged means that the verifier does not show the receipt in a log that the user trusts.
	errNotLogged = errors.New("NOT LOGGED")
	// errLogLater means that by the verifier's word its log has the receipt, or will, and no proof of it yet.
	errLogLater = errors.New("the verifier's log has the receipt and not yet a proof; it is there within a minute")
)

// logPlace is where a log has a receipt.
type logPlace struct {
	Origin string `json:"origin"`
	Index  int64  `json:"index"`
	// Witnesses is how many witnesses of the policy cosigned the checkpoint of the proof. Earliest is the time by
	// which as many of them as the policy asks for had done so, or all if it asks for none; "" if none has.
	Witnesses int    `json:"witnesses"`
	Earliest  string `json:"earliest,omitempty"`
}

// readLogPolicy reads the file of --log-policy into o.logPolicy.
func (o *options) readLogPolicy(file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	policy, err := receiptlog.ParsePolicy(text)
	o.logPolicy = &policy
	return err
}

// findLogged fetches the proof that the verifier's log has a receipt, and checks it by the user's policy.
// Without a policy it returns nil, nil. errNotLogged, errLogLater.
func (t *toolbox) findLogged(
	ctx context.Context, document receipt.Document, keys receipt.KeyDocument,
) (*logPlace, error) {
	if t.logPolicy == nil {
		return nil, nil //nolint:nilnil // see above
	}
	entry, err := receiptlog.EntryOf(document)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotLogged, err)
	}
	got, err := t.get(ctx, t.url+receiptlog.DirectoryPath)
	var list receiptlog.Directory
	if err == nil {
		list, err = receiptlog.ParseDirectory(got.body)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the list of logs: %w", err)
	}
	missing := fmt.Errorf("%w: the verifier's log does not know the receipt", errNotLogged)
	for _, path := range list.ProofPaths(entry.Leaf()) {
		got, err := t.get(ctx, t.url+path)
		switch {
		case err == nil:
			found, err := receiptlog.Verify(document, keys, got.body, t.logPolicy.WithList(list))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errNotLogged, err)
			}
			place := &logPlace{Origin: found.Origin, Index: found.Index, Witnesses: len(found.Cosignatures)}
			if at, ok := found.Earliest(); ok {
				place.Earliest = at.Format(time.RFC3339)
			}
			return place, nil
		case got.status == http.StatusAccepted:
			missing = errLogLater
		case got.status != http.StatusNotFound:
			return nil, fmt.Errorf("fetch the log's proof: %w", err)
		}
	}
	return nil, missing
}
