package chain

import (
	"context"
	"errors"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// ErrNoBeaconData means that a beacon node does not have what it was asked for.
var ErrNoBeaconData = errors.New("the beacon node does not have it")

// BeaconGenesis is how a beacon chain begins.
type BeaconGenesis struct {
	Time           time.Time
	ValidatorsRoot finality.Root
}

// BeaconNode is a node of a beacon chain with the light-client API. Nothing that it returns
// is verified. ErrNoBeaconData is the error when the node answers that it does not have
// what it was asked for.
type BeaconNode interface {
	// Name returns the node's host, for logs and errors.
	Name() string
	Genesis(ctx context.Context) (BeaconGenesis, error)
	// Spec returns the constants that are text, by their names.
	Spec(ctx context.Context) (map[string]string, error)
	FinalityUpdate(ctx context.Context) (*lightclient.Update, error)
	// Update returns the node's best update of a period, usually with the next sync committee.
	Update(ctx context.Context, period uint64) (*lightclient.Update, error)
	Bootstrap(ctx context.Context, root finality.Root) (*lightclient.Bootstrap, error)
}
