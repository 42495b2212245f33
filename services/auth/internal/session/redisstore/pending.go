package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pforte/pforte/services/auth/internal/session"
)

func (s *store) pending(ref session.Ref) []string {
	return []string{s.key(ref.UserID, "pending:") + ref.Key}
}

func (s *store) CreatePending(ctx context.Context, p session.Pending) error {
	err := putScript.Run(ctx, s.client, s.pending(p.Ref), milliseconds(session.PendingLifetime),
		"fingerprint", p.Fingerprint, "browser", p.Browser, "replaces", replacedBy(p.Replaces), "agent", p.UserAgent,
		"ip", p.IP,
		"device", string(p.Device), "tries", p.Tries, "created", p.CreatedAt.Unix()).Err()
	return failed("create pending login", err)
}

// replacedBy encodes the session that a login ends: "<user id> <key>", as it may be
// another user's.
func replacedBy(ref session.Ref) string {
	if ref == (session.Ref{}) {
		return ""
	}
	return strconv.FormatInt(ref.UserID, 10) + " " + ref.Key
}

func (s *store) LoadPending(ctx context.Context, ref session.Ref) (session.Pending, error) {
	return s.readPending(ctx, ref, 1)
}

func (s *store) PeekPending(ctx context.Context, ref session.Ref) (session.Pending, error) {
	return s.readPending(ctx, ref, 0)
}

func (s *store) readPending(ctx context.Context, ref session.Ref, tries int) (session.Pending, error) {
	values, err := pendingScript.Run(ctx, s.client, s.pending(ref), session.MaxTries, tries).StringSlice()
	if err != nil {
		return session.Pending{}, failed("load pending login", err)
	}
	if len(values) == 0 {
		return session.Pending{}, session.ErrNotFound
	}
	return decodePending(ref, values)
}

// decodePending reads the values that lua/pending.lua returns.
func decodePending(ref session.Ref, values []string) (session.Pending, error) {
	if len(values) != 8 {
		return session.Pending{}, errReply
	}
	p := session.Pending{
		Ref: ref, Fingerprint: values[0], Browser: values[1], UserAgent: values[3], IP: values[4],
		Device: session.Device(values[7]),
	}
	if values[2] != "" {
		if _, err := fmt.Sscanf(values[2], "%d %64s", &p.Replaces.UserID, &p.Replaces.Key); err != nil {
			return session.Pending{}, fmt.Errorf("%w: replaced session: %w", errReply, err)
		}
	}
	var err error
	if p.Tries, err = strconv.Atoi(values[5]); err != nil {
		return session.Pending{}, fmt.Errorf("%w: tries is not a number", errReply)
	}
	if p.CreatedAt, err = unix(values[6]); err != nil {
		return session.Pending{}, fmt.Errorf("%w: created is not a number", errReply)
	}
	return p, nil
}

func (s *store) DeletePending(ctx context.Context, ref session.Ref) error {
	return failed("delete pending login", s.client.Unlink(ctx, s.pending(ref)...).Err())
}

func (s *store) FinishPending(
	ctx context.Context, ref session.Ref, made session.Session, fence string, lifetimes session.Lifetimes,
) error {
	keys := append(s.createKeys(made.Ref), s.pending(ref)...)
	return stored("finish login", finishScript.Run(ctx, s.client, keys, s.createArgs(made, fence, lifetimes)...))
}

func (s *store) ceremony(key string) string { return s.app + ":ceremony:" + key }

func (s *store) PutCeremony(ctx context.Context, c session.Ceremony) (string, error) {
	id, key := session.NewSecret()
	if c.UserID == 0 && c.Owner == "" { // anyone can begin a login
		if err := s.ceremonies.Add(ctx, s.ceremony(key), len(c.Data)); err != nil {
			return "", err
		}
	}
	err := putScript.Run(ctx, s.client, []string{s.ceremony(key)}, milliseconds(session.CeremonyLifetime),
		"purpose", c.Purpose, "user", c.UserID, "owner", c.Owner, "data", c.Data).Err()
	return id, failed("begin ceremony", err)
}

func (s *store) TakeCeremony(ctx context.Context, id string) (session.Ceremony, error) {
	values, err := s.take(ctx, s.ceremony(session.HashOf(id)), "purpose", "user", "owner", "data")
	if err != nil {
		return session.Ceremony{}, failed("take ceremony", err)
	}
	if len(values) == 0 {
		return session.Ceremony{}, session.ErrNotFound
	}
	if len(values) != 4 {
		return session.Ceremony{}, errReply
	}
	userID, err := strconv.ParseInt(values[1], 10, 64)
	if err != nil {
		return session.Ceremony{}, fmt.Errorf("%w: user is not a number", errReply)
	}
	return session.Ceremony{Purpose: values[0], UserID: userID, Owner: values[2], Data: []byte(values[3])}, nil
}
