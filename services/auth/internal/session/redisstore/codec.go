package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// encode returns the fields of a session's hash: name, value, name, value.
func encode(s session.Session) []any {
	return []any{
		"username", s.Username, "role", s.Role, "csrf", s.CSRFToken, "agent", s.UserAgent, "created", s.CreatedAt.Unix(), "stamp", s.Stamp,
	}
}

// decode reads the values that lua/values.lua returns.
func decode(ref session.Ref, values []string) (session.Session, error) {
	if len(values) != 6 {
		return session.Session{}, errReply
	}
	created, err := strconv.ParseInt(values[4], 10, 64)
	if err != nil {
		return session.Session{}, fmt.Errorf("%w: created is not a number", errReply)
	}
	return session.Session{
		Ref: ref, Username: values[0], Role: values[1], CSRFToken: values[2], UserAgent: values[3], CreatedAt: time.Unix(created, 0).UTC(), Stamp: values[5],
	}, nil
}

// decodeEntry reads one entry of lua/list.lua.
func decodeEntry(userID int64, entry any) (session.Info, error) {
	parts, _ := entry.([]any)
	if len(parts) != 3 {
		return session.Info{}, errReply
	}
	key, _ := parts[0].(string)
	score, _ := parts[1].(string)
	expires, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return session.Info{}, fmt.Errorf("%w: score is not a number", errReply)
	}
	found, _ := parts[2].([]any)
	values := make([]string, len(found))
	for i, value := range found {
		values[i], _ = value.(string)
	}
	s, err := decode(session.Ref{UserID: userID, Key: key}, values)
	return session.Info{Session: s, ExpiresAt: time.UnixMilli(int64(expires)).UTC()}, err
}
