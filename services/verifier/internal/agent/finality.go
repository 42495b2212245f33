package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/retryafter"
)

var (
	// errFinality means that the receipt holds, and that its block is not proven to be final.
	errFinality = errors.New("the receipt was paid for and holds, but its block is not proven to be final")
	// errFinalLater means that no proof was got in time, and that there may be one later.
	errFinalLater = errors.New("the receipt was paid for and holds, but the proof that its block is final is not " +
		"there yet; run the same command again, it sends the same payment")
)

// finalityTrust is what the user trusts to see that a block is final.
type finalityTrust struct {
	wanted     bool
	checkpoint finality.Root
	network    *finality.Network // nil: the one known for the receipt's chain
}

// flags adds the flags --finality, --checkpoint and --beacon-network, and returns where the values of the last
// two will be.
func (f *finalityTrust) flags(set *flag.FlagSet) (checkpoint, network *string) {
	set.BoolVar(&f.wanted, "finality", false, "also fetch the proof that the receipt's block is final, and "+
		"check it from --checkpoint")
	return set.String("checkpoint", "", "`root` of a finalized beacon block, from a source other than the verifier"),
		set.String("beacon-network", "", "its `network`: mainnet, sepolia, hoodi or a file; without it the known "+
			"one of the receipt's chain")
}

// read takes the values of --checkpoint and --beacon-network after the flags are parsed, and checks that they
// and --finality go together.
func (f *finalityTrust) read(checkpoint, network string) (err error) {
	switch {
	case !f.wanted && checkpoint == "" && network == "":
		return nil
	case checkpoint == "":
		return errors.New("--finality: pin a checkpoint with --checkpoint: without one a finality proof proves nothing")
	case !f.wanted:
		return errors.New("--checkpoint and --beacon-network need --finality")
	}
	if err := f.checkpoint.UnmarshalText([]byte(checkpoint)); err != nil {
		return errors.New("--checkpoint: not the root of a beacon block, 0x and 64 lower-case hexadecimal digits")
	}
	if network == "" {
		return nil
	}
	known := false
	if f.network, known = finality.NetworkByName(network); known {
		return nil
	}
	text, err := os.ReadFile(network) //nolint:gosec // the user names the file
	if err != nil {
		return fmt.Errorf("--beacon-network: neither mainnet, sepolia or hoodi, nor a file: %w", err)
	}
	if f.network, err = finality.ParseNetwork(text); err != nil {
		return fmt.Errorf("--beacon-network: %w", err)
	}
	return nil
}

// proveFinal fetches the proof that the block of a checked receipt is final, waits for it for at most wait, and
// checks it from the user's checkpoint. Without --finality it returns nil, nil. errFinality, errFinalLater.
func (b *buyer) proveFinal(
	ctx context.Context, trust finalityTrust, sold receipt.Document, wait time.Duration,
) (*finality.Result, error) {
	if !trust.wanted {
		return nil, nil //nolint:nilnil // see above
	}
	about := sold.Receipt
	address := b.url + "/v1/finality/" + url.PathEscape(about.Chain.Name) + "/" +
		url.PathEscape(about.Block.Hash) + "?checkpoint=" + trust.checkpoint.String()
	b.print("Fetching the proof that block %s is final", about.Block.Number)
	end := time.Now().Add(wait)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for {
		pause := usualPause
		got, err := b.exchange(ctx, http.MethodGet, address, nil, "")
		if err == nil {
			refused := got.refusal()
			switch {
			case got.status == http.StatusOK:
				return trust.check(sold, got.body)
			case got.status != http.StatusAccepted && !refused.mayChange():
				return nil, fmt.Errorf("%w: %w", errFinality, refused)
			}
			pause, err = retryafter.Read(got.header, time.Now(), usualPause, longestPause), refused
		}
		if time.Now().Add(pause).After(end) {
			return nil, fmt.Errorf("%w: %w", errFinalLater, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errFinalLater, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// check checks the proof that the block of a receipt is final. errFinality.
func (f *finalityTrust) check(sold receipt.Document, document []byte) (*finality.Result, error) {
	d, err := finality.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFinality, err)
	}
	trust := finality.Trust{Checkpoint: f.checkpoint, Network: f.network}
	if sold.Proof != nil { // it holds
		trust.Header = sold.Proof.HeaderRLP
	}
	result, err := finality.Verify(&sold.Receipt, d, trust)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFinality, err)
	}
	return result, nil
}
