package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pforte/pforte/services/auth/internal/session"
)

func (s *store) handOver(key string) string { return s.app + ":handover:" + key }

func (s *store) CreateHandOver(ctx context.Context, h session.HandOver) (string, error) {
	code, key := session.NewSecret()
	err := putScript.Run(ctx, s.client, []string{s.handOver(key)}, milliseconds(session.HandOverLifetime),
		"user", h.UserID, "key", h.Key, "host", h.Host, "state", h.State, "device", string(h.Device)).Err()
	return code, failed("create hand-over", err)
}

func (s *store) TakeHandOver(ctx context.Context, code string) (session.HandOver, error) {
	values, err := s.take(ctx, s.handOver(session.HashOf(code)), "user", "key", "host", "state", "device")
	if err != nil {
		return session.HandOver{}, failed("take hand-over", err)
	}
	if len(values) == 0 {
		return session.HandOver{}, session.ErrNotFound
	}
	if len(values) != 5 {
		return session.HandOver{}, errReply
	}
	userID, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return session.HandOver{}, fmt.Errorf("%w: user is not a number", errReply)
	}
	return session.HandOver{
		Ref: session.Ref{UserID: userID, Key: values[1]}, Host: values[2], State: values[3],
		Device: session.Device(values[4]),
	}, nil
}

func (s *store) OpenHost(ctx context.Context, ref session.Ref, host, secretHash string) error {
	opened, err := openHostScript.Run(ctx, s.client, s.pair(ref), ref.Key, host, secretHash, session.MaxHosts).Int()
	if err != nil {
		return failed("open host", err)
	}
	if opened == 0 {
		return session.ErrNotFound
	}
	return nil
}

// LoadHost implements session.Store. It shares the pipelines of Load.
func (s *store) LoadHost(
	ctx context.Context, ref session.Ref, host, secretHash string, lifetimes session.Lifetimes,
) (session.Session, error) {
	return s.load(ctx, &load{ref: ref, lifetimes: lifetimes, ofHost: []any{host, secretHash}})
}
