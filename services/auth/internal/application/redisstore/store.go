package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/application"
)

const (
	proxyLife = 10 * time.Second
	probeLife = 30 * time.Second
	// timeout bounds a method: the answer to a proxy must not wait long for what pages only show.
	timeout = time.Second
	// How many proxies and open probes the indexes have at most: the newest ones.
	maxProxies = 32
	maxProbes  = 64
)

type store struct {
	client redis.UniversalClient
	app    string
	now    func() time.Time
}

// New returns a store whose keys begin with app, the setting APP_NAME.
func New(client redis.UniversalClient, app string, now func() time.Time) application.Proxies {
	return &store{client, app, now}
}

// proxies and probes return the keys of the two indexes: sorted sets by time of the IDs of proxies and of open probes,
// because a Cluster cannot list keys. proxy and probe return the key of one of them.
func (s *store) proxies() string        { return s.app + ":routes:proxies" }
func (s *store) proxy(id string) string { return s.app + ":routes:proxy:" + id }
func (s *store) probes() string         { return s.app + ":routes:probes" }
func (s *store) probe(id string) string { return s.app + ":routes:probe:" + id }

// add adds an ID to an index, which keeps so many at most, the newest ones, and expires a life after the last add.
func (s *store) add(ctx context.Context, pipe redis.Pipeliner, index, id string, most int64, life time.Duration) {
	pipe.ZAdd(ctx, index, redis.Z{Score: float64(s.now().UnixMilli()), Member: id})
	pipe.ZRemRangeByRank(ctx, index, 0, -most-1)
	pipe.Expire(ctx, index, life)
}

// Report implements application.Proxies.
func (s *store) Report(ctx context.Context, p application.Proxy, answers []application.Probe) (
	[]application.Probe, error,
) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	for _, answer := range answers {
		if err := s.answer(ctx, answer); err != nil {
			return nil, fmt.Errorf("answer probe: %w", err)
		}
	}
	var open *redis.StringSliceCmd
	_, err = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, s.proxy(p.ID), encoded, proxyLife)
		s.add(ctx, pipe, s.proxies(), p.ID, maxProxies, time.Hour)
		open = pipe.ZRange(ctx, s.probes(), 0, maxProbes)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("report of a proxy: %w", err)
	}
	probes, err := read[application.Probe](ctx, s, s.probe, open.Val())
	return slices.DeleteFunc(probes, application.Probe.Answered), err
}

// answer keeps the answer to a probe, for probeLife, unless the probe has expired or is answered.
func (s *store) answer(ctx context.Context, answer application.Probe) error {
	asked, err := s.Probe(ctx, answer.ID)
	if err != nil || asked.ID == "" || asked.Answered() {
		return err
	}
	answer.To = asked.To
	encoded, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, s.probe(answer.ID), encoded, probeLife)
		pipe.ZRem(ctx, s.probes(), answer.ID)
		return nil
	})
	return err
}

// Proxies implements application.Proxies.
func (s *store) Proxies(ctx context.Context) ([]application.Proxy, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ids, err := s.client.ZRange(ctx, s.proxies(), 0, maxProxies).Result()
	if err != nil {
		return nil, fmt.Errorf("list proxies: %w", err)
	}
	proxies, err := read[application.Proxy](ctx, s, s.proxy, ids)
	slices.SortFunc(proxies, func(a, b application.Proxy) int { return cmp.Compare(a.ID, b.ID) })
	return proxies, err
}

// Ask implements application.Proxies.
func (s *store) Ask(ctx context.Context, p application.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	encoded, err := json.Marshal(p)
	if err != nil {
		return err
	}
	added, err := s.client.SetNX(ctx, s.probe(p.ID), encoded, probeLife).Result()
	if err != nil || !added {
		return err
	}
	_, err = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		s.add(ctx, pipe, s.probes(), p.ID, maxProbes, probeLife)
		return nil
	})
	return err
}

// Probe implements application.Proxies.
func (s *store) Probe(ctx context.Context, id string) (application.Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := read[application.Probe](ctx, s, s.probe, []string{id})
	if err != nil || len(found) == 0 {
		return application.Probe{}, err
	}
	return found[0], nil
}

// read returns the values of IDs, without those that have expired.
func read[T any](ctx context.Context, s *store, key func(string) string, ids []string) ([]T, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	replies := make([]*redis.StringCmd, len(ids))
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range ids {
			replies[i] = pipe.Get(ctx, key(id))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var values []T
	for _, reply := range replies {
		encoded, err := reply.Bytes()
		if errors.Is(err, redis.Nil) {
			continue
		}
		var value T
		if err == nil {
			err = json.Unmarshal(encoded, &value)
		}
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}
