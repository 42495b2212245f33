package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"time"
)

// Pace asks at a steady rate a second on one connection, whatever the answers
// take, as somebody does who has other things to do. A latency counts from when
// the request was due, so a slow answer makes those behind it late as well.
func Pace(ctx context.Context, j Job, rate int) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", j.Addr)
	if err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(j.For + stall)); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	interval := time.Second / time.Duration(rate)
	began := time.Now()
	var latencies []time.Duration
	for due := began; due.Before(began.Add(j.For)) && ctx.Err() == nil; due = due.Add(interval) {
		time.Sleep(time.Until(due))
		if err := exchange(conn, j); err != nil {
			return Result{}, err
		}
		latencies = append(latencies, time.Since(due))
	}
	slices.Sort(latencies)
	took := time.Since(began)
	return Result{Answers: len(latencies), Took: took, Rate: float64(len(latencies)) / took.Seconds(), Latencies: latencies}, ctx.Err()
}

// exchange sends one request and reads its answer.
func exchange(conn io.ReadWriter, j Job) error {
	if _, err := conn.Write(j.Request()); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	buffer := make([]byte, 64<<10)
	for n := 0; ; {
		if n == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
		more, err := conn.Read(buffer[n:])
		if err != nil {
			return fmt.Errorf("load: %s: %w", j.Addr, err)
		}
		n += more
		status, ok, err := whole(buffer[:n])
		if err != nil {
			return err
		}
		if ok && status != j.Status {
			return fmt.Errorf("load: %s answered %d, not %d: %.600s", j.Addr, status, j.Status, buffer[:n])
		}
		if ok {
			return nil
		}
	}
}
