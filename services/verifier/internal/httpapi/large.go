package httpapi

import (
	"sync/atomic"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// A client may take an answer as slowly as the server lets it, and the answer is in memory for as long. Most
// have some thousand bytes and the largest 16 MB, so what answers from payment.LargeAnswer bytes on take together is
// bounded: of those that are sold, and of those that are read for nothing by their hash (VERIFIER-6.12).
const (
	mostSold = 64 << 20
	mostFree = 32 << 20
)

// toolTimes is how many times its bytes an answer counts as that a tool writes or checks: it is read as JSON, and
// written into JSON again.
const toolTimes = 2

// largeAnswers is how many bytes large answers may still take.
type largeAnswers struct{ left atomic.Int64 }

func newLargeAnswers(bytes int64) *largeAnswers {
	l := new(largeAnswers)
	l.left.Store(bytes)
	return l
}

// hold reports whether an answer of so many bytes may be written. A large one takes them until ended is closed. A
// request's context ends sooner where a client says that it sends no more, and reads on.
func (l *largeAnswers) hold(size int, ended <-chan struct{}) bool {
	n := int64(size)
	if n < payment.LargeAnswer {
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
