package payment

import (
	"errors"
	"time"
)

// ErrClosed means that a month is closed already.
var ErrClosed = errors.New("the month is closed already")

// Statement is what the payments claimed in a month have brought. Once an operator has closed the
// month its lines stay, and what became of a payment since is a correction.
type Statement struct {
	Month string `json:"month"`
	// Closed is when it was closed and By the operating system's user who did; zero and "" while
	// the lines may still change.
	Closed time.Time       `json:"closed,omitzero"`
	By     string          `json:"by,omitempty"`
	Lines  []StatementLine `json:"lines"`
	// Corrections are there once it is closed, the oldest first, those without At last.
	Corrections []Correction `json:"corrections"`
	// Open is how many payments that were claimed in the month are Settling or Unknown.
	Open int `json:"open"`
}

// StatementLine is the income in one token. Amounts are decimal, in atomic units.
type StatementLine struct {
	Network  string `json:"network"`
	Asset    string `json:"asset"`
	Payments int    `json:"payments"`
	Amount   string `json:"amount"`
	Refunded string `json:"refunded"`
	// Net is Amount less Refunded.
	Net string `json:"net"`
}

// Correction is a change after the month was closed. Amount is what it adds to the net, and may be
// negative.
type Correction struct {
	// At is zero for the difference that no decision and no refund explains, such as the outcome
	// of payments that were open, or transfers that the chain lost.
	At      time.Time `json:"at,omitzero"`
	Network string    `json:"network"`
	Asset   string    `json:"asset"`
	Amount  string    `json:"amount"`
	// Why is "decided", "refunded" or "chain".
	Why   string `json:"why"`
	Nonce string `json:"nonce,omitempty"`
	By    string `json:"by,omitempty"`
	Note  string `json:"note,omitempty"`
}

// Why a statement is corrected.
const (
	CorrectedByDecision = "decided"
	CorrectedByRefund   = "refunded"
	CorrectedByChain    = "chain"
)
