package rpc

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// guarded runs work that has a goroutine of its own: a panic in it, as over an
// answer that it was not made for, is an error of the one call and not the end of
// the process with its payments.
func guarded(log *slog.Logger, work func() error) error {
	_, err := flight.Guard(func() (struct{}, error) { return struct{}{}, work() })
	return faultOf(log, err)
}

// faultOf gives every error of shared or guarded work a *chain.Fault: to a panic,
// and to a caller that left.
func faultOf(log *slog.Logger, err error) error {
	var panicked *flight.PanicError
	switch {
	case err == nil, isFault(err):
		return err
	case errors.As(err, &panicked):
		log.Error("panic while reading a chain", "panic", panicked.Value, "stack", string(panicked.Stack))
		return fmt.Errorf("panic: %v: %w", panicked.Value, chain.ErrUnavailable)
	default:
		return fmt.Errorf("%w: %w", errGone, chain.ErrUnavailable)
	}
}
