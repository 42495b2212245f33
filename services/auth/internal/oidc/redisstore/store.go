package redisstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/newest"
	"github.com/pforte/pforte/services/auth/internal/oidc"
)

const (
	// timeout bounds a method.
	timeout = 2 * time.Second
	// usedLife is how long the ID of a grant is kept here after the use of its code without PKCE. Within usedGrace, a
	// second use of the code is taken for a browser that loads its callback twice.
	usedLife    = 10 * time.Minute
	usedGrace   = 5 * time.Second
	maxRefusals = 20
	refusalLife = 24 * time.Hour
	waitLife    = time.Hour
)

type store struct {
	client redis.UniversalClient
	app    string
	// requests and devices are those of strangers; known are the requests of all others.
	requests, devices, known *newest.List
}

// New returns a store whose keys begin with app, the setting APP_NAME.
func New(client redis.UniversalClient, app string) oidc.ShortLived {
	return &store{
		client: client, app: app,
		requests: newest.New(client, app, "oidc:req", oidc.RequestLifetime),
		devices:  newest.New(client, app, "oidc:device", oidc.DeviceLifetime),
		known:    newest.New(client, app, "oidc:req:known", oidc.RequestLifetime),
	}
}

func (s *store) key(kind, hash string) string { return s.app + ":oidc:" + kind + ":" + hash }

// pair returns the keys of a code, which are in one slot of a Cluster.
func (s *store) pair(hash string) []string {
	return []string{s.key("code", "{"+hash+"}"), s.key("used", "{"+hash+"}")}
}

func (s *store) last(application int64) string {
	return s.key("last", strconv.FormatInt(application, 10))
}

// answer returns a new key for what one call of a script takes, in the slot of a tag. When a reply is lost, the
// client sends the script again with the same key, and gets what is kept under it. That lasts for timeout, so what
// was taken stays in Redis for two seconds more.
func (s *store) answer(tag string) string { return s.key("answer", "{"+tag+"}:"+rand.Text()) }

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, timeout)
}

// failed returns err with what failed; nil for nil.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis: %s: %w", what, err)
}

// encode returns a value as JSON. Without the escapes for HTML, an ampersand of a kept request is one byte, not six.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// put keeps a value as JSON for its life.
func (s *store) put(ctx context.Context, what, key string, value any, life time.Duration) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	encoded, err := encode(value)
	if err == nil {
		err = s.client.Set(ctx, key, encoded, life).Err()
	}
	return failed(what, err)
}

// decoded returns the value of a reply, and the error gone where there is none.
func decoded[T any](what string, reply *redis.StringCmd, gone error) (value T, err error) {
	encoded, err := reply.Bytes()
	if errors.Is(err, redis.Nil) {
		return value, gone
	}
	if err == nil {
		err = json.Unmarshal(encoded, &value)
	}
	return value, failed(what, err)
}

// putCode keeps a code and, without PKCE, the ID of the grant that ends when it is used again.
var putCode = redis.NewScript(`
redis.call('HSET', KEYS[1], 'code', ARGV[1], 'reused', ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[3])`)

// PutCode implements oidc.ShortLived.
func (s *store) PutCode(ctx context.Context, hash string, c oidc.Code) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	encoded, err := encode(c)
	if err != nil {
		return failed("keep code", err)
	}
	reused := c.Grant
	if c.Challenge != "" { // a copy of the code alone is of no use
		reused = ""
	}
	return failed("keep code", putCode.Run(ctx, s.client, s.pair(hash)[:1], encoded, reused,
		oidc.CodeLifetime.Seconds()).Err())
}

// takeCode returns a code to one call, also where the client sends that call again (store.answer). To later calls it
// returns, of a code without PKCE, the ID of the grant that has to end, but not within usedGrace: a copy at once would
// end what the first is about to be given.
var takeCode = redis.NewScript(`
local again = redis.call('GET', KEYS[3])
if again then return {again, ''} end
local code = redis.call('HMGET', KEYS[1], 'code', 'reused')
if code[1] then
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[3], code[1], 'PX', ARGV[3])
  if code[2] ~= '' then redis.call('SET', KEYS[2], code[2], 'PX', ARGV[1]) end
  return {code[1], ''}
end
local left = redis.call('PTTL', KEYS[2])
if left < 0 or left > ARGV[1] - ARGV[2] then return {'', ''} end
return {'', redis.call('GET', KEYS[2])}`)

// TakeCode implements oidc.ShortLived.
func (s *store) TakeCode(ctx context.Context, hash string) (c oidc.Code, reused string, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	taken, err := takeCode.Run(ctx, s.client, append(s.pair(hash), s.answer(hash)), usedLife.Milliseconds(),
		usedGrace.Milliseconds(), timeout.Milliseconds()).StringSlice()
	if err == nil && len(taken) != 2 {
		err = errors.New("unexpected reply of the script")
	}
	if err != nil {
		return oidc.Code{}, "", failed("take code", err)
	}
	if taken[0] == "" {
		return oidc.Code{}, taken[1], oidc.ErrCodeUsed
	}
	if err := json.Unmarshal([]byte(taken[0]), &c); err != nil {
		return oidc.Code{}, "", failed("take code", err)
	}
	return c, "", nil
}

// PutAccess implements oidc.ShortLived.
func (s *store) PutAccess(ctx context.Context, hash string, userID int64, a oidc.Access) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	of := newest.New(s.client, s.app, "oidc:at:"+strconv.FormatInt(userID, 10), oidc.AccessLifetime)
	if err := of.Add(ctx, s.key("at", hash), 0); err != nil {
		return err
	}
	return s.put(ctx, "keep access token", s.key("at", hash), a, oidc.AccessLifetime)
}

// Access implements oidc.ShortLived.
func (s *store) Access(ctx context.Context, hash string) (oidc.Access, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return decoded[oidc.Access]("read access token", s.client.Get(ctx, s.key("at", hash)), oidc.ErrNoAccess)
}

// DropAccess implements oidc.ShortLived.
func (s *store) DropAccess(ctx context.Context, hash string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return failed("drop access token", s.client.Del(ctx, s.key("at", hash)).Err())
}

// Keep implements oidc.ShortLived.
func (s *store) Keep(ctx context.Context, hash string, k oidc.Kept, life time.Duration, stranger bool) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	list, key := s.known, s.key("req", hash)
	if stranger {
		list = s.requests
	}
	if err := list.Add(ctx, key, len(k.Query)); err != nil {
		return err
	}
	return s.put(ctx, "keep request", key, k, life)
}

// Kept implements oidc.ShortLived.
func (s *store) Kept(ctx context.Context, hash string) (oidc.Kept, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return decoded[oidc.Kept]("read request", s.client.Get(ctx, s.key("req", hash)), oidc.ErrRequestGone)
}

// takeKept returns a request once.
var takeKept = redis.NewScript(`
local again = redis.call('GET', KEYS[2])
if again then return again end
local kept = redis.call('GET', KEYS[1])
if kept then
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[2], kept, 'PX', ARGV[1])
end
return kept`)

// TakeKept implements oidc.ShortLived.
func (s *store) TakeKept(ctx context.Context, hash string) (oidc.Kept, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := s.key("req", hash)
	taken, err := takeKept.Run(ctx, s.client, []string{key, s.answer(key)}, timeout.Milliseconds()).Text()
	return decoded[oidc.Kept]("take request", redis.NewStringResult(taken, err), oidc.ErrRequestGone)
}

func (s *store) wait(application int64) string {
	return s.key("wait", strconv.FormatInt(application, 10))
}

// Wait implements oidc.ShortLived.
func (s *store) Wait(ctx context.Context, application int64, at time.Time) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return failed("note a wait", s.client.SetNX(ctx, s.wait(application), at.Unix(), waitLife).Err())
}

// Asked implements oidc.ShortLived.
func (s *store) Asked(ctx context.Context, application int64) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return failed("end a wait", s.client.Del(ctx, s.wait(application)).Err())
}

// Waiting implements oidc.ShortLived.
func (s *store) Waiting(ctx context.Context, application int64) (time.Time, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	unix, err := s.client.Get(ctx, s.wait(application)).Int64()
	if errors.Is(err, redis.Nil) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, failed("read a wait", err)
	}
	return time.Unix(unix, 0).UTC(), nil
}

// Refuse implements oidc.ShortLived.
func (s *store) Refuse(ctx context.Context, application int64, r oidc.Refusal) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	encoded, err := encode(r)
	if err == nil {
		_, err = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.LPush(ctx, s.last(application), encoded)
			pipe.LTrim(ctx, s.last(application), 0, maxRefusals-1)
			pipe.Expire(ctx, s.last(application), refusalLife)
			return nil
		})
	}
	return failed("note refusal", err)
}

// Refusals implements oidc.ShortLived.
func (s *store) Refusals(ctx context.Context, application int64) ([]oidc.Refusal, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	encoded, err := s.client.LRange(ctx, s.last(application), 0, maxRefusals-1).Result()
	if err != nil {
		return nil, failed("list refusals", err)
	}
	refusals := make([]oidc.Refusal, len(encoded))
	for i := range encoded {
		if err := json.Unmarshal([]byte(encoded[i]), &refusals[i]); err != nil {
			return nil, failed("list refusals", err)
		}
	}
	return refusals, nil
}
