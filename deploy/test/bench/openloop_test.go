package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostConnections is how many connections the clients have together; an arrival
	// that finds all of them in use waits for one, and its latency counts that.
	mostConnections = 1_000
	// patience is how long a client waits for an answer.
	patience = 10 * time.Second
)

// outcome is what became of one arrival.
type outcome struct {
	due, took  time.Duration // since the first arrival, and from due to the answer or its failure
	status     int           // 0: no answer came
	retryAfter bool
}

// steadily returns when the arrivals of a constant rate are due, after begin.
func steadily(rate float64, begin, duration time.Duration) []time.Duration {
	due := make([]time.Duration, int(rate*duration.Seconds()))
	for i := range due {
		due[i] = begin + time.Duration(float64(i)/rate*float64(time.Second))
	}
	return due
}

// tickOfArrivals is how often arrivals are sent that are due: more often, the generator
// would spend more on sleeping than on sending. Latencies count from when each was due.
const tickOfArrivals = time.Millisecond

// openLoop sends requests, one after the other and then from the first again, when
// they are due, no matter whether those before have been answered: so it does to a
// server what many clients do who know nothing of each other. wrk, autocannon and
// hey wait for answers and send less when the server is slow.
func openLoop(ctx context.Context, addr string, requests [][]byte, due []time.Duration) []outcome {
	outcomes := make([]outcome, len(due))
	queue := make(chan int, len(due))
	var idle atomic.Int64
	var connections sync.WaitGroup
	began := time.Now()
	client := func() {
		c := connection{addr: addr}
		defer c.close()
		for {
			idle.Add(1)
			i, more := <-queue
			idle.Add(-1)
			if !more {
				return
			}
			outcomes[i] = c.exchange(ctx, requests[i%len(requests)], began.Add(due[i]))
			outcomes[i].due = due[i]
		}
	}
	opened := 0
	for i := range due {
		if wait := due[i] - time.Since(began); wait > 0 {
			time.Sleep(max(wait, tickOfArrivals))
		}
		if int64(len(queue)) >= idle.Load() && opened < mostConnections {
			opened++
			connections.Go(client)
		}
		queue <- i
	}
	close(queue)
	connections.Wait()
	return outcomes
}

// connection is one of HTTP/1.1, opened when it is needed.
type connection struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// exchange sends a request and reads its answer.
func (c *connection) exchange(ctx context.Context, request []byte, due time.Time) (o outcome) {
	defer func() { o.took = time.Since(due) }()
	if c.conn == nil {
		conn, err := (&net.Dialer{Deadline: due.Add(patience)}).DialContext(ctx, "tcp", c.addr)
		if err != nil {
			return outcome{}
		}
		c.conn, c.in = conn, bufio.NewReaderSize(conn, longestLine)
	}
	err := c.conn.SetDeadline(due.Add(patience))
	if err == nil {
		_, err = c.conn.Write(request)
	}
	var last bool
	if err == nil {
		o, last, err = readAnswer(c.in)
	}
	if err != nil || last {
		c.close()
	}
	if err != nil {
		return outcome{}
	}
	return o
}

// longestLine is of an answer's header: offers are in it.
const longestLine = 16 << 10

// readAnswer reads an answer of HTTP/1.1 and reports whether the connection ends with
// it. It takes a third of the time of http.ReadResponse, which the generator would
// need for itself.
func readAnswer(in *bufio.Reader) (o outcome, last bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return o, false, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return o, false, fmt.Errorf("no answer of HTTP: %q", line)
	}
	if o.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return o, false, err
	}
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return o, false, err
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		switch {
		case len(name) == 0:
			if length < 0 {
				return o, false, errors.New("an answer without Content-Length")
			}
			_, err = in.Discard(length)
			return o, last, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return o, false, err
			}
		case bytes.EqualFold(name, []byte("Retry-After")):
			o.retryAfter = len(value) > 0
		case bytes.EqualFold(name, []byte("Connection")):
			last = bytes.EqualFold(value, []byte("close"))
		}
	}
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = nil
}

// p99 returns the latency in milliseconds that one in a hundred exceeds: patience,
// when there are none.
func p99(outcomes []outcome) float64 { return latency(outcomes, 0.99) }

// latency returns the latency in milliseconds that a share of the outcomes do not exceed: patience, when there are none.
func latency(outcomes []outcome, share float64) float64 {
	if len(outcomes) == 0 {
		return milli(patience)
	}
	took := make(samples, len(outcomes))
	for i, o := range outcomes {
		took[i] = milli(o.took)
	}
	return took.quantile(share)
}
