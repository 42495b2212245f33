package load

import "time"

// Job is what to ask, and how.
type Job struct {
	// Addr is the server's host:port, of this machine.
	Addr string
	// Conns is how many connections wait for an answer at any time.
	Conns int
	// For is how long to ask. Answers that are under way then are awaited, but
	// not counted.
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
	// Took is until the last of them, so that slow answers are not cut off in the
	// middle.
	Took time.Duration
	// Latencies are sorted, one for each answer.
	Latencies []time.Duration
}

// Rate is how many answers came in a second.
func (r Result) Rate() float64 { return float64(r.Answers) / r.Took.Seconds() }

// Quantile is the latency that the share q of the answers did not exceed.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(len(r.Latencies)-1, int(q*float64(len(r.Latencies))))]
}

// stall bounds how long no answer at all may come.
const stall = 30 * time.Second
