package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/redisclient"
	"github.com/pforte/pforte/pkg/sqldb"
)

// ending is what is there when everybody has left.
type ending struct {
	// lasting is the number of keys in Redis that belong to a session or never
	// expire.
	lasting          int
	payments, ledger int
}

// settle logs everybody out, waits until what may expire has, and counts.
func settle(ctx context.Context, l layout.Layout, load *load) (e ending, err error) {
	for _, v := range append(load.members[:2:2], load.admin) {
		if err := v.want(ctx, 200, "POST", "/logout", ""); err != nil {
			return e, fmt.Errorf("log %s out: %w", v.name, err)
		}
	}
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		e.lasting, err = lastingKeys(ctx, l.Redis)
		if err != nil || e.lasting == 0 || time.Now().After(until) {
			break
		}
	}
	e.payments = 1 + load.done["verification, paid"] + load.done["new transaction, verification, paid"] // the first one prepared the load
	rows, rowsErr := ledgerRows(ctx, l.Path("verifier.db"))
	e.ledger = rows
	return e, errors.Join(err, rowsErr)
}

// lastingKeys counts what should be gone. A user's fence is not: it expires by
// itself, minutes after his last login.
func lastingKeys(ctx context.Context, addr string) (int, error) {
	const count = `local n = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 or string.find(key, 'session', 1, true) then n = n + 1 end
end
return n`
	redis := redisclient.Open(addr, redisWithin)
	defer func() { _ = redis.Close() }()
	return redis.Eval(ctx, count, nil).Int()
}

func ledgerRows(ctx context.Context, path string) (rows int, err error) {
	db, err := sqldb.OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM payments").Scan(&rows)
	return rows, err
}

// allowed is how much a measured value may be higher at the end of the second
// half of the run than at its beginning, by the line fitted through it: a part
// of its middle value, or a number of things that come and go.
func allowed(name string, middle float64) float64 {
	switch {
	case strings.HasSuffix(name, "MiB"):
		return max(0.10*middle, 4)
	default:
		return max(0.05*middle, 5)
	}
}

// growth fits a line through the second half of the samples and gives how much
// it rises from their first to their last moment, and their middle value.
func growth(samples []sample, name string) (rise, middle float64) {
	half := samples[len(samples)/2:]
	var n, sx, sy, sxx, sxy float64
	values := make([]float64, 0, len(half))
	for _, s := range half {
		x, y := s["minute"], s[name]
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		values = append(values, y)
	}
	slices.Sort(values)
	middle = values[len(values)/2]
	if d := n*sxx - sx*sx; d > 0 {
		rise = (n*sxy - sx*sy) / d * (half[len(half)-1]["minute"] - half[0]["minute"])
	}
	return rise, middle
}

// report prints the tables and gives an error that names what does not hold.
func report(w io.Writer, samples []sample, end ending, load *load) error {
	if len(samples) < 4 {
		return fmt.Errorf("%d samples are too few to judge", len(samples))
	}
	var out strings.Builder
	var faults []string
	fmt.Fprintf(&out, "\n| done | times | failed |\n|---|---:|---:|\n")
	for _, j := range load.jobs() {
		fmt.Fprintf(&out, "| %s | %d | %d |\n", j.name, load.done[j.name], load.failed[j.name])
	}
	fmt.Fprintf(&out, "\nOver the second half of %.0f minutes, %d samples:\n\n| measured | middle | rise | allowed |\n|---|---:|---:|---:|\n",
		samples[len(samples)-1]["minute"], len(samples)-len(samples)/2)
	for _, name := range slices.Sorted(maps.Keys(samples[0])) {
		if name == "minute" {
			continue
		}
		rise, middle := growth(samples, name)
		fmt.Fprintf(&out, "| %s | %.1f | %+.1f | %.1f |\n", name, middle, rise, allowed(name, middle))
		if rise > allowed(name, middle) {
			faults = append(faults, name+" grew")
		}
	}
	fmt.Fprintf(&out, "\nWhen everybody had left: %d keys in Redis were of a session or without an end; %d payments made, %d in the ledger.\n", end.lasting, end.payments, end.ledger)
	if end.lasting != 0 {
		faults = append(faults, "keys stayed in Redis")
	}
	if end.payments != end.ledger {
		faults = append(faults, "the ledger does not hold just the payments")
	}
	faults = append(faults, load.faults...)
	_, err := io.WriteString(w, out.String())
	if len(faults) > 0 {
		err = errors.Join(err, errors.New(strings.Join(faults, "\n  ")))
	}
	return err
}
