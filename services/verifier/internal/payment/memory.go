package payment

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"sync"
	"time"
)

// Memory is a ledger in memory: the executable meaning of Ledger, and what
// tests run on. It forgets everything with the process.
type Memory struct {
	now func() time.Time

	mu       sync.Mutex
	records  map[Key]*memoryRecord
	owners   map[string]time.Time
	reserved map[string]int
	// checked and taken are what Checked and Ended remember.
	checked, taken time.Time
}

type memoryRecord struct {
	Record
	checkAt, looked time.Time
}

// NewMemory makes an empty ledger. now is the clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, records: map[Key]*memoryRecord{}, owners: map[string]time.Time{}, reserved: map[string]int{}}
}

// Claim implements Ledger.
func (m *Memory) Claim(_ context.Context, r Record) (Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.records[r.Key]; ok && (old.State != Working || !m.abandoned(old)) {
		return m.view(old), false, nil
	}
	r.State, r.Claimed, r.Changed = Working, m.now(), m.now()
	m.records[r.Key] = &memoryRecord{Record: r}
	return r, true, nil
}

// Release implements Ledger.
func (m *Memory) Release(_ context.Context, key Key, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.records[key]; ok && r.State == Working && r.Owner == owner {
		delete(m.records, key)
	}
	return nil
}

// Begin implements Ledger.
func (m *Memory) Begin(_ context.Context, key Key, owner string, s Settlement) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[key]
	if !ok || r.State != Working || r.Owner != owner || r.Request != s.Request {
		return nil, ErrLost
	}
	if duplicate := m.duplicate(r); duplicate != nil {
		view := m.view(duplicate)
		return &view, nil
	}
	if m.reserved[s.Month] >= s.Limit {
		return nil, ErrLimit
	}
	if err := m.capped(r, s.Caps); err != nil {
		return nil, err
	}
	if reserved := m.reserved[s.Month]; reserved >= s.Limit || (reserved >= s.Limit-s.Kept && !m.paid(key.Payer)) {
		return nil, ErrLimit
	}
	m.reserved[s.Month]++
	r.State, r.Answer, r.Month, r.Deadline, r.Changed = Settling, s.Answer, s.Month, s.Deadline, m.now()
	r.checkAt = r.Changed
	return nil, nil
}

// capped holds a record that is about to begin against the caps.
func (m *Memory) capped(r *memoryRecord, c Caps) error {
	payer := m.count(c.Since, func(other *memoryRecord) bool { return other.Key.Payer == r.Key.Payer })
	client := m.count(c.Since, func(other *memoryRecord) bool { return r.Client != "" && other.Client == r.Client })
	if (c.Payer > 0 && payer.failed >= c.Payer) || (c.Client > 0 && client.failed >= c.Client) {
		return ErrFailing
	}
	if Crowded(c.Payer, payer.failed, payer.underWay, payer.open, payer.settled) ||
		Crowded(c.Client, client.failed, client.underWay, client.open, client.settled) {
		return ErrCrowded
	}
	return nil
}

type memoryCount struct{ failed, underWay, open, settled int }

func (m *Memory) count(since time.Time, is func(*memoryRecord) bool) (c memoryCount) {
	for _, r := range m.records {
		if !is(r) {
			continue
		}
		switch state := m.view(r).State; {
		case state == Settling:
			c.underWay++
		case state == Settled:
			c.settled++
		case state == Unknown && !r.Claimed.Before(since):
			c.open += 1 + r.Repeats
		case state == Dead && r.Reason == ReasonExpired && !r.Claimed.Before(since):
			c.open++
		case state == Dead && r.Month != "" && !r.Claimed.Before(since):
			c.failed++
		}
	}
	return c
}

func (m *Memory) paid(payer string) bool {
	for _, r := range m.records {
		if r.Key.Payer == payer && r.State == Settled {
			return true
		}
	}
	return false
}

// Paid implements Ledger.
func (m *Memory) Paid(_ context.Context, payer string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paid(payer), nil
}

// Failed implements Ledger.
func (m *Memory) Failed(_ context.Context, payer, client string, since time.Time) (Tally, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Tally{
		Payer:  m.count(since, func(r *memoryRecord) bool { return r.Key.Payer == payer }).failed,
		Client: m.count(since, func(r *memoryRecord) bool { return client != "" && r.Client == client }).failed,
	}, nil
}

// Bought implements Ledger.
func (m *Memory) Bought(_ context.Context, payer, identifier string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if duplicate := m.duplicate(&memoryRecord{Record: Record{Key: Key{Payer: payer}, Identifier: identifier}}); duplicate != nil {
		return m.view(duplicate), nil
	}
	return Record{}, ErrNotFound
}

// duplicate finds another record that the payer's identifier has bought already.
func (m *Memory) duplicate(r *memoryRecord) *memoryRecord {
	if r.Identifier == "" {
		return nil
	}
	for key, other := range m.records {
		if key != r.Key && key.Payer == r.Key.Payer && other.Identifier == r.Identifier &&
			other.State != Working && other.State != Dead {
			return other
		}
	}
	return nil
}

// Resolve implements Ledger.
func (m *Memory) Resolve(_ context.Context, key Key, how Resolution) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.records[key]; !ok || m.view(r).State != Unknown {
		return ErrLost
	}
	_, err := m.finish(key, how.Outcome())
	return err
}

// Finish implements Ledger.
func (m *Memory) Finish(_ context.Context, key Key, o Outcome) (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finish(key, o)
}

func (m *Memory) finish(key Key, o Outcome) (Outcome, error) {
	r, ok := m.records[key]
	if !ok || r.State == Working {
		return Outcome{}, ErrNotFound
	}
	if r.State == Settled || (r.State == Dead && o.State != Settled) {
		return r.Outcome(), nil
	}
	month, again, back, reserved := o.Recount(r.Record, Month(m.now()))
	for _, name := range back {
		m.reserved[name]--
	}
	for _, name := range reserved {
		m.reserved[name]++
	}
	r.Month, r.Again = month, again
	if o.State == Dead {
		r.Answer = nil
	}
	r.State, r.Reason, r.Changed = o.State, o.Reason, m.now()
	if o.Transaction != "" {
		r.Transaction = o.Transaction
	}
	return r.Outcome(), nil
}

// Repeat implements Ledger.
func (m *Memory) Repeat(_ context.Context, key Key, again Repeat) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[key]
	if !ok || (r.State != Settling && r.State != Unknown) || r.Repeats != again.Repeats {
		return ErrLost
	}
	if reserved := m.reserved[again.Month]; reserved >= again.Limit || (reserved >= again.Limit-again.Kept && !m.paid(key.Payer)) {
		return ErrLimit
	}
	m.reserved[again.Month]++
	r.Again = append(slices.Clone(r.Again), again.Month)
	r.Repeats++
	r.Changed = m.now()
	return nil
}

// Look implements Ledger.
func (m *Memory) Look(_ context.Context, key Key, since time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[key]
	if !ok || r.State != Dead || (r.looked.After(since) && !r.looked.After(m.now())) {
		return false, nil
	}
	r.looked = m.now()
	return true, nil
}

// Get implements Ledger.
func (m *Memory) Get(_ context.Context, key Key) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[key]
	if !ok || (r.State == Working && m.abandoned(r)) {
		return Record{}, ErrNotFound
	}
	return m.view(r), nil
}

// Beat implements Ledger.
func (m *Memory) Heartbeat(_ context.Context, owner string, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners[owner] = until
	return nil
}

// Register implements Ledger.
func (m *Memory) Register(ctx context.Context, owner string, until time.Time) error {
	return m.Heartbeat(ctx, owner, until)
}

// Leave implements Ledger.
func (m *Memory) Deregister(_ context.Context, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, owner)
	return nil
}

// Due implements Ledger.
func (m *Memory) Due(_ context.Context, limit int, next time.Time) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []*memoryRecord
	for _, r := range m.records {
		if m.view(r).State == Unknown && !r.checkAt.After(m.now()) {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b *memoryRecord) int { return a.checkAt.Compare(b.checkAt) })
	var due []Record
	for _, r := range open[:min(limit, len(open))] {
		r.checkAt = next
		due = append(due, m.brief(r))
	}
	return due, nil
}

// Ended implements Ledger.
func (m *Memory) Ended(_ context.Context, before time.Time, limit int, taken time.Time) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken.After(m.now()) {
		return nil, nil
	}
	m.taken = taken
	var ended []Record
	for _, r := range m.records {
		if (r.State == Settled || r.State == Dead) && r.Claimed.After(m.checked) && r.Claimed.Before(before) {
			ended = append(ended, m.brief(r))
		}
	}
	slices.SortFunc(ended, func(a, b Record) int { return a.Claimed.Compare(b.Claimed) })
	for limit < len(ended) && ended[limit].Claimed.Equal(ended[limit-1].Claimed) {
		limit++
	}
	return ended[:min(limit, len(ended))], nil
}

// Checked implements Ledger.
func (m *Memory) Checked(_ context.Context, upTo time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.taken = (time.Time{}); upTo.After(m.checked) {
		m.checked = upTo
	}
	return nil
}

// Reopen implements Ledger.
func (m *Memory) Reopen(_ context.Context, key Key, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[key]
	if !ok || r.State != Settled {
		return ErrLost
	}
	r.State, r.Reason, r.Changed, r.checkAt = Unknown, reason, m.now(), m.now()
	return nil
}

// Prune implements Ledger.
func (m *Memory) Prune(_ context.Context, before time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, r := range m.records {
		switch {
		case r.State == Working && m.abandoned(r):
			delete(m.records, key)
		case (r.State == Settled || r.State == Dead) && r.Claimed.Before(before):
			r.Answer = nil
		}
	}
	return nil
}

// QuotaStatus implements Ledger.
func (m *Memory) QuotaStatus(_ context.Context, month string) (QuotaStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := QuotaStatus{Reserved: m.reserved[month]}
	for _, r := range m.records {
		if r.State == Dead && r.Month == month {
			s.Failed++
		}
		if m.view(r).State == Unknown {
			s.Unknown++
			if s.Oldest.IsZero() || r.Claimed.Before(s.Oldest) {
				s.Oldest = r.Claimed
			}
		}
	}
	return s, nil
}

// List implements Ledger.
func (m *Memory) List(_ context.Context, f Filter) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.matching(f)
	slices.SortFunc(list, func(a, b Record) int { return b.Claimed.Compare(a.Claimed) })
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list, nil
}

func (m *Memory) matching(f Filter) []Record {
	var list []Record
	for _, r := range m.records {
		v := m.brief(r)
		if (f.State == "" || v.State == f.State) &&
			(f.From.IsZero() || !v.Claimed.Before(f.From)) && (f.Before.IsZero() || v.Claimed.Before(f.Before)) {
			list = append(list, v)
		}
	}
	return list
}

// Totals implements Ledger.
func (m *Memory) Totals(_ context.Context, f Filter) ([]Total, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := map[Total]*big.Int{} // keyed by a Total without its sums
	counts := map[Total]int{}
	for _, r := range m.matching(f) {
		group := Total{Month: Month(r.Claimed), Network: r.Key.Network, Asset: r.Key.Asset, State: r.State}
		if sums[group] == nil {
			sums[group] = new(big.Int)
		}
		amount, _ := new(big.Int).SetString(r.Amount, 10)
		sums[group].Add(sums[group], amount)
		counts[group]++
	}
	var totals []Total
	for group, sum := range sums {
		t := group
		t.Payments, t.Amount = counts[group], sum.String()
		totals = append(totals, t)
	}
	slices.SortFunc(totals, CompareTotals)
	return totals, nil
}

// CompareTotals orders totals by month, network, asset and state.
func CompareTotals(a, b Total) int {
	return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.Network, b.Network),
		cmp.Compare(a.Asset, b.Asset), cmp.Compare(a.State, b.State))
}

// Ping implements Ledger.
func (*Memory) Ping(context.Context) error { return nil }

// abandoned tells whether nobody works on a Working or Settling record.
func (m *Memory) abandoned(r *memoryRecord) bool {
	until, ok := m.owners[r.Owner]
	return !ok || !until.After(m.now()) || !r.Deadline.After(m.now())
}

// view gives the record as it reads now.
func (m *Memory) view(r *memoryRecord) Record {
	v := r.Record
	if v.State == Settling && m.abandoned(r) {
		v.State = Unknown
	}
	return v
}

// brief is view without the answer.
func (m *Memory) brief(r *memoryRecord) Record {
	v := m.view(r)
	v.Answer = nil
	return v
}
