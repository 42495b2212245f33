package httpapi

import (
	"context"
	"sync/atomic"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// A client may take an answer as slowly as the server lets it, and the answer is in memory for as long. Most
// have some thousand bytes and the largest 16 MB, so what answers from payment.LargeAnswer bytes on take together is
// bounded: of those that are sold, and of those that are read for nothing by their hash (VERIFIER-6.12).
const (
	mostSold = 64 << 20
	mostFree = 32 << 20
)

// rewritten is how many times its bytes an answer counts as that is read as JSON, and written into JSON again: by a
// tool, and as an envelope.
const rewritten = 2

// largeAnswers is how many bytes large answers may still take.
type largeAnswers struct{ left atomic.Int64 }

func newLargeAnswers(bytes int64) *largeAnswers {
	l := new(largeAnswers)
	l.left.Store(bytes)
	return l
}

// taken returns how many bytes an answer of a size takes that counts so many times; 0 for one that is not large.
func taken(size, times int) int64 {
	if size < payment.LargeAnswer {
		return 0
	}
	return int64(size) * int64(times)
}

// hold reports whether an answer that takes n bytes may be written. It takes them until ended is closed. A
// request's context ends sooner where a client says that it sends no more, and reads on.
func (l *largeAnswers) hold(n int64, ended <-chan struct{}) bool {
	if n == 0 {
		return true
	}
	if l.left.Add(-n) < 0 {
		l.left.Add(n)
		return false
	}
	go func() {
		<-ended
		l.left.Add(n)
	}()
	return true
}

// fits reports whether hold would be true now.
func (l *largeAnswers) fits(n int64) bool { return n == 0 || l.left.Load() >= n }

// placed is a Reader that returns a transaction once there is place in memory for the answer about it, whose bytes
// are nearly all those of the proof in hexadecimal digits.
type placed struct{ verification.Reader }

// Read implements verification.Reader. paywall.Hold's error, which holds no *chain.Fault.
func (p placed) Read(ctx context.Context, transaction chain.Hash) (chain.Snapshot, error) {
	found, err := p.Reader.Read(ctx, transaction)
	if err != nil {
		return found, err
	}
	bytes := len(found.Proof.HeaderRLP)
	for _, nodes := range [][][]byte{found.Proof.Transaction, found.Proof.Receipt} {
		for _, node := range nodes {
			bytes += len(node)
		}
	}
	return found, paywall.Hold(ctx, 2*bytes)
}
