package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// encode gives the fields of a session's hash: name, value, name, value.
func encode(s session.Session) []any {
	return []any{
		"username", s.Username, "role", s.Role, "csrf", s.CSRFToken, "agent", s.UserAgent, "created", s.CreatedAt.Unix(),
	}
}

// decode is the inverse of encode. Names it does not know are passed over, so
// that an older program can read what a newer one wrote.
func decode(ref session.Ref, fields []string) (session.Session, error) {
	s := session.Session{Ref: ref}
	for i := 0; i+1 < len(fields); i += 2 {
		value := fields[i+1]
		switch fields[i] {
		case "username":
			s.Username = value
		case "role":
			s.Role = value
		case "csrf":
			s.CSRFToken = value
		case "agent":
			s.UserAgent = value
		case "created":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return session.Session{}, fmt.Errorf("%w: created is no number", errReply)
			}
			s.CreatedAt = time.Unix(seconds, 0).UTC()
		}
	}
	return s, nil
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
		return session.Info{}, fmt.Errorf("%w: score is no number", errReply)
	}
	values, _ := parts[2].([]any)
	fields := make([]string, len(values))
	for i, value := range values {
		fields[i], _ = value.(string)
	}
	s, err := decode(session.Ref{UserID: userID, Key: key}, fields)
	return session.Info{Session: s, ExpiresAt: time.UnixMilli(int64(expires)).UTC()}, err
}
