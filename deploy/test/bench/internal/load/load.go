package load

import (
	"slices"
	"time"
)

// Job is what to ask, and how.
type Job struct {
	// Addr is the server's host:port, of this machine.
	Addr string
	// Conns is how many connections wait for an answer at any time.
	Conns int
	// For is how long to ask. Answers that are under way then are awaited.
	For time.Duration
	// Request gives the bytes of the next request. It is called by one thread.
	Request func() []byte
	// Status is what every answer must have; another one ends the job.
	Status int
	// Each, when set, is given the whole of each answer.
	Each func(answer []byte)
}

// Result is what came of a job.
type Result struct {
	Answers int
	// Took is until the last of them.
	Took time.Duration
	// Rate is how many answers came in a second; of Run see steadyRate.
	Rate float64
	// Latencies are sorted, one for each answer.
	Latencies []time.Duration
}

// steadyRate is how many answers came in a second, from one of the first quarter
// of length to the last before its end. In the beginning a slow server has
// answered nobody yet, and after the end fewer and fewer wait; work that is under
// way at both moments makes up for each other. answered is when they came, in
// their order.
func steadyRate(answered []time.Duration, length time.Duration) float64 {
	first, _ := slices.BinarySearch(answered, length/4)
	end, _ := slices.BinarySearch(answered, length+1)
	if first == end {
		return 0
	}
	from := time.Duration(0)
	if first > 0 {
		from = answered[first-1]
	}
	return float64(end-first) / (answered[end-1] - from).Seconds()
}

// Quantile is the latency that the share q of the answers did not exceed.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(len(r.Latencies)-1, int(q*float64(len(r.Latencies))))]
}

// stall bounds how long no answer at all may come.
const stall = 30 * time.Second
