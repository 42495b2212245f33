package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// A device is a hash: device (JSON), secret, client, state (waiting, allowed, denied, taken), proved (a login), code
// (JSON, once answered), by (the last question that counted), word (what it was told while the user had not answered),
// next (when it may ask again, in milliseconds) and interval (milliseconds). Each script is one step. Where a reply is
// lost and the client sends the script again, it is answered as before; putDevice then says that the code is not free.
var (
	putDevice = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'device', ARGV[1], 'secret', ARGV[2], 'client', ARGV[3], 'state', 'waiting',
  'next', 0, 'interval', ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1`)

	proveDevice = redis.NewScript(`
if redis.call('HGET', KEYS[1], 'state') ~= 'waiting' then return 0 end
redis.call('HSET', KEYS[1], 'proved', ARGV[1])
return 1`)

	// answerDevice keeps an answer where the state is ARGV[1]. Sent again with the same code it succeeds too; each
	// code names a grant of its own, that of a denial too.
	answerDevice = redis.NewScript(`
local d = redis.call('HMGET', KEYS[1], 'state', 'code')
if d[1] == ARGV[2] and d[2] == ARGV[3] then return 1 end
if d[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'code', ARGV[3])
return 1`)

	pollDevice = redis.NewScript(`
local d = redis.call('HMGET', KEYS[1], 'secret', 'client', 'state', 'code', 'next', 'interval', 'by', 'word')
if not d[1] or d[1] ~= ARGV[1] then return {'gone', ''} end
if d[2] ~= ARGV[2] then return {'client', ''} end
local now, interval, word = tonumber(ARGV[3]), tonumber(d[6]), 'waiting'
if d[3] == 'allowed' or d[3] == 'taken' and (now >= tonumber(d[5]) or d[7] == ARGV[6]) then
  redis.call('HSET', KEYS[1], 'state', 'taken', 'by', ARGV[6], 'next', now + interval - tonumber(ARGV[5]))
  return {'allowed', d[4]}
end
if d[3] == 'taken' then return {'gone', ''} end
if d[3] ~= 'waiting' then return {d[3], ''} end
if d[7] == ARGV[6] then return {d[8], ''} end
if now < tonumber(d[5]) then
  interval, word = interval + tonumber(ARGV[4]), 'slow'
end
redis.call('HSET', KEYS[1], 'by', ARGV[6], 'word', word, 'next', now + interval - tonumber(ARGV[5]),
  'interval', interval)
return {word, ''}`)
)

// early is by how much a device may ask before its interval is over: its clock and the network are not exact.
const early = 500 * time.Millisecond

const (
	deviceWaiting = "waiting"
	deviceAllowed = "allowed"
	deviceDenied  = "denied"
	deviceTaken   = "taken"
)

func (s *store) device(hash string) []string { return []string{s.key("device", hash)} }

// PutDevice implements oidc.ShortLived.
func (s *store) PutDevice(ctx context.Context, hash string, d oidc.Device, stranger bool) (free bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	encoded, err := encode(d)
	if err == nil && stranger {
		err = s.devices.Add(ctx, s.device(hash)[0], len(encoded))
	}
	if err == nil {
		free, err = putDevice.Run(ctx, s.client, s.device(hash), encoded, d.Secret, d.ClientID,
			oidc.DeviceInterval.Milliseconds(), oidc.DeviceLifetime.Seconds()).Bool()
	}
	return free, failed("keep device", err)
}

// Device implements oidc.ShortLived.
func (s *store) Device(ctx context.Context, hash string) (d oidc.Device, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	values, err := s.client.HMGet(ctx, s.device(hash)[0], "state", "device", "proved").Result()
	if err != nil {
		return oidc.Device{}, failed("read device", err)
	}
	encoded, _ := values[1].(string)
	if values[0] != deviceWaiting {
		return oidc.Device{}, oidc.ErrNoDevice
	}
	if err := json.Unmarshal([]byte(encoded), &d); err != nil {
		return oidc.Device{}, failed("read device", err)
	}
	d.ProvedBy, _ = values[2].(string)
	return d, nil
}

// ProveDevice implements oidc.ShortLived.
func (s *store) ProveDevice(ctx context.Context, hash, login string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	switch noted, err := proveDevice.Run(ctx, s.client, s.device(hash), login).Bool(); {
	case err != nil:
		return failed("note a proof for a device", err)
	case !noted:
		return oidc.ErrNoDevice
	}
	return nil
}

// AnswerDevice implements oidc.ShortLived.
func (s *store) AnswerDevice(ctx context.Context, hash string, allowed *oidc.Code) error {
	if allowed == nil {
		return s.answerDevice(ctx, hash, deviceWaiting, deviceDenied, oidc.Code{Grant: oidc.NewGrantID()})
	}
	return s.answerDevice(ctx, hash, deviceWaiting, deviceAllowed, *allowed)
}

// GiveDeviceBack implements oidc.ShortLived.
func (s *store) GiveDeviceBack(ctx context.Context, hash string, c oidc.Code) error {
	return s.answerDevice(ctx, hash, deviceTaken, deviceAllowed, c)
}

func (s *store) answerDevice(ctx context.Context, hash, from, to string, c oidc.Code) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	encoded, err := encode(c)
	if err != nil {
		return failed("answer device", err)
	}
	switch kept, err := answerDevice.Run(ctx, s.client, s.device(hash), from, to, encoded).Bool(); {
	case err != nil:
		return failed("answer device", err)
	case !kept:
		return oidc.ErrNoDevice
	}
	return nil
}

// PollDevice implements oidc.ShortLived.
func (s *store) PollDevice(
	ctx context.Context, hash, secret, clientID string, now time.Time,
) (c oidc.Code, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	got, err := pollDevice.Run(ctx, s.client, s.device(hash), secret, clientID, now.UnixMilli(),
		oidc.DeviceInterval.Milliseconds(), early.Milliseconds(), rand.Text()).StringSlice()
	if err == nil && len(got) != 2 {
		err = errors.New("unexpected reply of the script")
	}
	if err != nil {
		return oidc.Code{}, failed("ask for a device", err)
	}
	switch got[0] {
	case deviceAllowed:
		if err := json.Unmarshal([]byte(got[1]), &c); err != nil {
			return oidc.Code{}, failed("ask for a device", err)
		}
		return c, nil
	case deviceWaiting:
		return oidc.Code{}, oidc.ErrPending
	case "slow":
		return oidc.Code{}, oidc.ErrSlowDown
	case deviceDenied:
		return oidc.Code{}, oidc.ErrDenied
	case "client":
		return oidc.Code{}, oidc.ErrCodeClient
	}
	return oidc.Code{}, oidc.ErrNoDevice
}
