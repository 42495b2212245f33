package session

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// token is the content of the session cookie before it is signed: the user, the
// session's id, and when the cookie was signed. It names the user because a store
// keeps a user's sessions together.
type token struct {
	userID   int64
	id       string
	signedAt time.Time
}

var errToken = errors.New("malformed session token")

func (t token) ref() Ref { return Ref{UserID: t.userID, Key: keyOf(t.id)} }

// String is "<user id>.<session id>.<unix seconds>".
func (t token) String() string {
	return strconv.FormatInt(t.userID, 10) + "." + t.id + "." + strconv.FormatInt(t.signedAt.Unix(), 10)
}

// parseToken is the inverse of String and accepts nothing else.
func parseToken(text string) (token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return token{}, errToken
	}
	userID, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || userID <= 0 {
		return token{}, errToken
	}
	signedAt, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return token{}, errToken
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil || len(id) != idBytes {
		return token{}, errToken
	}
	t := token{userID: userID, id: parts[1], signedAt: time.Unix(signedAt, 0)}
	if t.String() != text {
		return token{}, errToken
	}
	return t, nil
}
