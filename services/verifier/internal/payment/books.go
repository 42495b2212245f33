package payment

import (
	"errors"
	"math/big"
	"time"
)

// Faults of decisions and refunds.
var (
	// ErrUnderWay means that the payment is Working or Settling.
	ErrUnderWay = errors.New("payment is under way")
	// ErrBooked means that a refund of the payment by this transaction is kept already.
	ErrBooked = errors.New("refund is booked already")
	// ErrTooMuch means that more would be refunded than was paid, or than the transaction has
	// moved to the payer.
	ErrTooMuch = errors.New("refund is too large")
)

// Decision is how an operator ended a payment, or had the chain end it.
type Decision struct {
	At time.Time `json:"at"`
	// From and To are the states before and after.
	From State `json:"from"`
	To   State `json:"to"`
	// Transaction is the hash of the transfer where To is Settled, else of a transaction that was
	// named for the payment, or "".
	Transaction string `json:"transaction,omitempty"`
	// By is the operating system's user, and Note why they decided so.
	By   string `json:"by"`
	Note string `json:"note"`
}

// Refund is money that the operator has sent back to a payer by other means: the service
// holds no key of the payee.
type Refund struct {
	At          time.Time `json:"at"`
	Transaction string    `json:"transaction"`
	// Amount is in atomic units, decimal.
	Amount string `json:"amount"`
	// Proven reports that a node of the payment network showed the transfer.
	Proven bool   `json:"proven"`
	By     string `json:"by"`
	Note   string `json:"note"`
	// Moved is how much the transaction has moved to the payer; nil when no node was asked. It is
	// not kept.
	Moved *big.Int `json:"-"`
}

// DecidedReason returns the Reason of a record that an operator decided with a note.
func DecidedReason(note string) string { return "decided: " + word(note) }

// IsAmount reports whether a text is an amount of at least one atomic unit.
func IsAmount(text string) bool {
	n, ok := parseAmount(text)
	return ok && n.Sign() > 0
}
