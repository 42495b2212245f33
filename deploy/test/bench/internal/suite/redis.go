package suite

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// redisLink is a connection to Redis for a few commands (RESP2).
type redisLink struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(ctx context.Context, addr string) (*redisLink, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return &redisLink{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (l *redisLink) close() { _ = l.conn.Close() }

// number runs a command whose reply is an integer.
func (l *redisLink) number(words ...string) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if err := l.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	if _, err := l.conn.Write([]byte(b.String())); err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	line, err := l.in.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	digits, ok := strings.CutPrefix(strings.TrimSpace(line), ":")
	if !ok {
		return 0, fmt.Errorf("redis says %q", line)
	}
	return strconv.ParseInt(digits, 10, 64)
}

// noteKeys remembers the keys of user 1, because looking for them among a million
// others takes a second.
const noteKeys = `
redis.call('DEL', 'noted')
return redis.call('SADD', 'noted', unpack(redis.call('KEYS', '*:{u1}:*')))`

// copySessions gives the sessions of user 1 to users from..to as well: all keys
// of his, under their hash tags. It knows nothing of what is in them. A script
// that names keys it was not given is fine on one server.
const copySessions = `
local made = 0
for _, key in ipairs(redis.call('SMEMBERS', 'noted')) do
  local before, after = string.match(key, '^(.*){u1}(.*)$')
  for user = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    made = made + redis.call('COPY', key, before .. '{u' .. string.format('%d', user) .. '}' .. after, 'REPLACE')
  end
end
return made`

// someoneElse is the first of the users who get copies: nobody has such an id.
const someoneElse = 1_000_000_000

// manySessions makes n sessions and tells how many keys there are then.
func (l *redisLink) manySessions(n int) (keys int, err error) {
	const step = 5_000 // so that nobody waits long
	if _, err := l.number("EVAL", noteKeys, "0"); err != nil {
		return 0, err
	}
	for first := 0; first < n; first += step {
		last := min(first+step, n) - 1
		made, err := l.number("EVAL", copySessions, "0", strconv.Itoa(someoneElse+first), strconv.Itoa(someoneElse+last))
		if err != nil {
			return 0, err
		}
		if made < int64(last-first+1) {
			return 0, fmt.Errorf("redis: %d keys copied for %d users", made, last-first+1)
		}
	}
	all, err := l.number("DBSIZE")
	return int(all), err
}
