package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/redisclient"
)

// sample is what was measured at one moment, by name.
type sample map[string]float64

// measured are the metrics of the Go runtime and the process that are taken
// from every program, and the name they get.
var measured = map[string]string{
	"process_resident_memory_bytes": "memory, MiB",
	"go_memstats_heap_inuse_bytes":  "heap, MiB",
	"go_goroutines":                 "goroutines",
	"process_open_fds":              "open files",
}

// redisWithin bounds one question to Redis: a slow machine is no fault of it.
const redisWithin = 5 * time.Second

// take asks the programs and Redis.
func take(ctx context.Context, l layout.Layout) (sample, error) {
	s := sample{}
	programs := map[string]string{"auth": l.AuthAdmin, "verifier": l.VerifierAdmin, "proxy": l.ProxyAdmin}
	for name, addr := range programs {
		if err := s.scrape(ctx, name, addr); err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", name, err)
		}
	}
	redis := redisclient.Open(l.Redis, redisWithin)
	defer func() { _ = redis.Close() }()
	keys, err := redis.DBSize(ctx).Result()
	s["Redis keys"] = float64(keys)
	return s, err
}

func (s sample) scrape(ctx context.Context, name, addr string) error {
	body, err := get(ctx, "http://"+addr+"/metrics")
	if err != nil {
		return err
	}
	found := 0
	for line := range strings.Lines(body) {
		metric, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		label, wanted := measured[metric]
		if !wanted {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		if strings.HasSuffix(label, "MiB") {
			number /= 1 << 20
		}
		s[name+" "+label] = number
		found++
	}
	if found != len(measured) {
		return fmt.Errorf("%d of %d are there", found, len(measured))
	}
	return nil
}

// write appends the sample to a table of comma-separated values.
func (s sample) write(w io.Writer, first bool) error {
	names := slices.Sorted(maps.Keys(s))
	if first {
		if _, err := fmt.Fprintln(w, `"`+strings.Join(names, `","`)+`"`); err != nil {
			return err
		}
	}
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = strconv.FormatFloat(s[name], 'f', 2, 64)
	}
	_, err := fmt.Fprintln(w, strings.Join(values, ","))
	return err
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	return string(body), err
}
