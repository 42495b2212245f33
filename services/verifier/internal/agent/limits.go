package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// day is how long after its ValidBefore a payment counts against the cap of 24 hours.
const day = 24 * time.Hour

// Errors of a payment that the limits do not allow.
var (
	// ErrDayCap means that the payment would exceed the cap of 24 hours.
	ErrDayCap = errors.New("the cap of 24 hours is reached")
	// ErrPayee means that a seller wants to be paid at another address than before on the same network.
	ErrPayee = errors.New("the seller's payee has changed")
)

// limits count what each payer signs, in a folder that several processes share. A payment that is sent counts from
// before it is signed until 24 hours after its ValidBefore, whatever the seller answers, because that no money moved
// would be only the seller's word. A payment for an answer that was reused counts as well: the seller holds a
// signature that the token takes until ValidBefore, and a seller that settles it and reports a reuse could
// otherwise take any sum in a day.
type limits struct {
	folder string
	// day is the most that one payer may sign for in 24 hours, in atomic units; nil is no limit.
	day *big.Int
	// pinned means that a seller must be paid, on each network, at the address that was to be paid there first.
	pinned bool
	now    func() time.Time
}

// signed is one counted payment.
type signed struct {
	Payer string `json:"payer"`
	// Question is the name of the journal's entry for what is bought.
	Question string `json:"question"`
	Nonce    string `json:"nonce"`
	// Amount is in atomic units.
	Amount      string    `json:"amount"`
	ValidBefore time.Time `json:"validBefore"`
	// Closed means that the journal has no more use for the payment, so that the next one for the same question
	// does not replace it. It is set before the journal drops the payment.
	Closed bool `json:"closed"`
}

// locked runs f while no other call of locked for this folder runs, in any process.
func (l limits) locked(f func() error) (err error) {
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return fmt.Errorf("limits of spending: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(l.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("limits of spending: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("limits of spending: lock: %w", err)
	}
	return f()
}

// count counts a payment that is about to be signed; it is on the disk when count returns no error. It replaces
// the payer's payment for the same question that is not Closed: one that never came into the journal, as after a
// crash. The caller has found none in the journal, and holds the lock. ErrDayCap.
func (l limits) count(s signed, amount *big.Int) error {
	all, err := l.counted()
	if err != nil {
		return err
	}
	sum, kept := new(big.Int), make([]signed, 0, len(all)+1)
	for _, other := range all {
		if other.Payer == s.Payer && other.Question == s.Question && !other.Closed {
			continue
		}
		kept = append(kept, other)
		if other.Payer == s.Payer {
			sum.Add(sum, other.amount())
		}
	}
	if err := l.checkDay(sum, amount); err != nil {
		return err
	}
	s.Amount = amount.String()
	return l.write("spent.json", append(kept, s))
}

// checkDay returns an error if amount, added to sum, is above the cap of the day. ErrDayCap.
func (l limits) checkDay(sum, amount *big.Int) error {
	if l.day != nil && new(big.Int).Add(sum, amount).Cmp(l.day) > 0 {
		return fmt.Errorf("%w: %s USD of %s USD are signed for, and this costs %s USD", ErrDayCap, x402.Dollars(sum),
			x402.Dollars(l.day), x402.Dollars(amount))
	}
	return nil
}

// close marks a payment as Closed if it is counted. It goes on counting. The caller holds the lock.
func (l limits) close(e entry) error {
	all, err := l.counted()
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Payer == e.Payer && all[i].Nonce == e.Nonce && !all[i].Closed {
			all[i].Closed = true
			return l.write("spent.json", all)
		}
	}
	return nil
}

// spent returns the sum of the payer's payments that still count, in atomic units.
func (l limits) spent(payer string) (*big.Int, error) {
	sum := new(big.Int)
	all, err := l.counted()
	for _, s := range all {
		if s.Payer == payer {
			sum.Add(sum, s.amount())
		}
	}
	return sum, err
}

// counted returns the payments of all payers that still count. A file that is there and cannot be read is an error,
// and is not taken for an empty one. A payment whose time is in the future counts, so that a clock that was set
// back frees nothing.
func (l limits) counted() ([]signed, error) {
	var all []signed
	if err := l.read("spent.json", &all); err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, s := range all {
		if _, ok := new(big.Int).SetString(s.Amount, 10); !ok || strings.HasPrefix(s.Amount, "-") {
			return nil, fmt.Errorf("limits of spending: %s has the amount %q", filepath.Join(l.folder, "spent.json"),
				s.Amount)
		}
		if l.now().Before(s.ValidBefore.Add(day)) {
			kept = append(kept, s)
		}
	}
	return kept, nil
}

func (s signed) amount() *big.Int {
	n, _ := new(big.Int).SetString(s.Amount, 10) // counted has checked it
	return n
}

// pin keeps the payee of a seller on a network, or compares it with the one that was kept at the first payment.
// Unless l.pinned is set it does nothing. The caller holds the lock. ErrPayee.
func (l limits) pin(seller, network, payee string) error {
	if !l.pinned {
		return nil
	}
	payees, err := l.payees()
	if err != nil {
		return err
	}
	if err := l.checkPayee(payees, seller, network, payee); err != nil {
		return err
	}
	if payees[payeeKey(seller, network)] != "" {
		return nil
	}
	payees[payeeKey(seller, network)] = payee
	return l.write("payees.json", payees)
}

// payeeKey returns the name of a seller on a network in payees.json.
func payeeKey(seller, network string) string { return seller + " " + network }

// checkPayee compares a payee with the one in payees, if there is one. ErrPayee.
func (l limits) checkPayee(payees map[string]string, seller, network, payee string) error {
	before := payees[payeeKey(seller, network)]
	if before == "" || strings.EqualFold(before, payee) {
		return nil
	}
	return fmt.Errorf("%w: %s was paid at %s on %s and now wants %s; if the change is right, remove the first from %s",
		ErrPayee, seller, before, network, payee, filepath.Join(l.folder, "payees.json"))
}

// payees returns the pinned payees by payeeKey.
func (l limits) payees() (payees map[string]string, err error) {
	if err = l.read("payees.json", &payees); payees == nil { // no file, or null in it
		payees = map[string]string{}
	}
	return payees, err
}

// read reads a JSON file into v, which stays as it is when there is no such file.
func (l limits) read(name string, v any) error {
	text, err := readFile(filepath.Join(l.folder, name))
	if err == nil && text != nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("limits of spending: read %s: %w", filepath.Join(l.folder, name), err)
	}
	return nil
}

func (l limits) write(name string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = replaceFile(filepath.Join(l.folder, name), text)
	}
	if err != nil {
		return fmt.Errorf("limits of spending: %w", err)
	}
	return nil
}

// allows returns the error with which the limits would refuse a payment now, or nil.
func (l limits) allows(payer, seller string, offer x402.Requirements, amount *big.Int) error {
	spent, err := l.spent(payer)
	if err != nil {
		return err
	}
	payees, err := l.payees()
	if err != nil {
		return err
	}
	if err := l.checkPayee(payees, seller, offer.Network, offer.PayTo); err != nil {
		return err
	}
	return l.checkDay(spent, amount)
}
