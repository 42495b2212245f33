package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/newest"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// fenceLifetime is how long a fence lasts after the last login, or new proof, that asked for it.
const fenceLifetime = 10 * time.Minute

// maxStep bounds the sessions that one script reads, beside one that a revocation keeps, so that Redis answers other
// clients meanwhile: a user of an earlier version may have any number.
const maxStep = 1000

// takenLife is how long a script that takes something may be sent again (store.take): the client gives up within it.
const takenLife = 2 * time.Second

//go:embed lua
var lua embed.FS

// The scripts are sent by their hash, and in full only when Redis does not have them.
var (
	fenceScript    = script("fence")
	createScript   = script("now", "create", "created")
	rotateScript   = script("now", "rotate")
	finishScript   = script("now", "create", "finish")
	loadScript     = script("now", "values", "load")
	addCSRFScript  = script("addcsrf")
	deleteScript   = script("delete")
	revokeScript   = script("revoke")
	listScript     = script("values", "list")
	putScript      = script("put")
	pendingScript  = script("pending")
	takeScript     = script("take")
	openHostScript = script("openhost")
)

// script returns the script that is the text of the files.
func script(names ...string) *redis.Script {
	var text strings.Builder
	for _, name := range names {
		part, err := lua.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // a file is not in the program
		}
		text.Write(append(part, '\n'))
	}
	return redis.NewScript(text.String())
}

// errReply is returned for a reply that the script cannot produce.
var errReply = errors.New("unexpected reply of the script")

type store struct {
	client redis.UniversalClient
	app    string
	loads  *pipelines // nil in a Cluster
	// ceremonies are those of strangers.
	ceremonies *newest.List
}

// New returns a store whose keys begin with the application's name, which has no
// braces and no wildcards of a SCAN pattern.
func New(client redis.UniversalClient, app string) session.Stores {
	s := &store{
		client: client, app: app, ceremonies: newest.New(client, app, "ceremony", session.CeremonyLifetime),
	}
	if _, cluster := client.(*redis.ClusterClient); !cluster {
		s.loads = &pipelines{waiting: make(chan *load, maxLoading), running: make(chan struct{}, maxPipelines)}
	}
	return s
}

func (s *store) key(userID int64, rest string) string {
	return s.app + ":{u" + strconv.FormatInt(userID, 10) + "}:" + rest
}

func (s *store) set(userID int64) string         { return s.key(userID, "sessions") }
func (s *store) fence(userID int64) string       { return s.key(userID, "fence") }
func (s *store) sessionPrefix(user int64) string { return s.key(user, "session:") }
func (s *store) session(ref session.Ref) string  { return s.sessionPrefix(ref.UserID) + ref.Key }
func (s *store) pair(ref session.Ref) []string   { return []string{s.session(ref), s.set(ref.UserID)} }
func milliseconds(d time.Duration) int64         { return max(1, d.Milliseconds()) }

// failed returns err with what failed; nil for nil.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis: %s: %w", what, err)
}

// renewal returns a lifetime in milliseconds for lua/load.lua; 0: it renews nothing.
func renewal(d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return milliseconds(d)
}

func (s *store) Fence(ctx context.Context, userID int64) (string, error) {
	token, err := fenceScript.Run(ctx, s.client, []string{s.fence(userID)}, rand.Text(),
		milliseconds(fenceLifetime)).Text()
	return token, failed("fence login", err)
}

func (s *store) Create(ctx context.Context, made session.Session, fence string, lifetimes session.Lifetimes) error {
	return stored("create session", createScript.Run(ctx, s.client, s.createKeys(made.Ref),
		s.createArgs(made, fence, lifetimes)...))
}

func (s *store) createKeys(ref session.Ref) []string {
	return append(s.pair(ref), s.fence(ref.UserID))
}

func (s *store) createArgs(made session.Session, fence string, lifetimes session.Lifetimes) []any {
	return append([]any{
		made.Key, milliseconds(lifetimes.Of(made.Device)), fence, s.sessionPrefix(made.UserID), session.MaxPerUser,
		maxStep, milliseconds(lifetimes.Any), milliseconds(lifetimes.Own), milliseconds(lifetimes.Shared),
	}, encode(made)...)
}

// stored returns the error of a script that stores a session.
func stored(what string, reply *redis.Cmd) error {
	switch result, err := reply.Int(); {
	case err != nil:
		return failed(what, err)
	case result < 0:
		return session.ErrNotFound
	case result == 0:
		return session.ErrFenced
	default:
		return nil
	}
}

func (s *store) Rotate(
	ctx context.Context, old session.Ref, next session.Session, fence string, lifetimes session.Lifetimes,
) error {
	args := append([]any{next.Key, milliseconds(lifetimes.Of(next.Device)), fence, old.Key}, encode(next)...)
	return stored("replace session", rotateScript.Run(ctx, s.client, append(s.createKeys(next.Ref), s.session(old)),
		args...))
}

func (s *store) AddCSRFToken(ctx context.Context, ref session.Ref, token string) (string, error) {
	held, err := addCSRFScript.Run(ctx, s.client, s.pair(ref), ref.Key, token).Text()
	if err != nil {
		return "", failed("add CSRF token", err)
	}
	if held == "" {
		return "", session.ErrNotFound
	}
	return held, nil
}

func (s *store) Delete(ctx context.Context, ref session.Ref) error {
	return failed("delete session", deleteScript.Run(ctx, s.client, s.pair(ref), ref.Key).Err())
}

func (s *store) Revoke(ctx context.Context, userID int64, keep string) (int, error) {
	ended := 0
	for {
		reply, err := revokeScript.Run(ctx, s.client, []string{s.set(userID), s.fence(userID)},
			s.sessionPrefix(userID), keep, maxStep).Int64Slice()
		if err == nil && len(reply) != 2 {
			err = errReply
		}
		if err != nil {
			return ended, failed("revoke sessions", err)
		}
		ended += int(reply[0])
		if reply[1] <= 0 {
			return ended, nil
		}
	}
}

// take returns the values of fields of a hash, once. The client sends a script again whose reply is lost: for that the
// hash stays under a name of this call's own, in the same slot of a Cluster.
func (s *store) take(ctx context.Context, key string, fields ...any) ([]string, error) {
	keys := []string{key, s.app + ":taken:{" + key + "}:" + rand.Text()}
	args := append([]any{takenLife.Milliseconds()}, fields...)
	return takeScript.Run(ctx, s.client, keys, args...).StringSlice()
}

func (s *store) List(ctx context.Context, userID int64) ([]session.Info, error) {
	entries, err := listScript.Run(ctx, s.client, []string{s.set(userID)}, s.sessionPrefix(userID), maxStep).Slice()
	if err != nil {
		return nil, failed("list sessions", err)
	}
	infos := make([]session.Info, 0, len(entries))
	for _, entry := range entries {
		info, err := decodeEntry(userID, entry)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// scanStep is how many keys one SCAN of a sweep reads, below a millisecond of Redis's
// time.
const scanStep = 500

// Sweep implements session.Store. It may run in several processes concurrently.
func (s *store) Sweep(ctx context.Context) (session.Swept, error) {
	var expired, live atomic.Int64
	sweep := func(ctx context.Context, node redis.Cmdable) error {
		now, err := node.Time(ctx).Result()
		if err != nil {
			return err
		}
		sets := node.Scan(ctx, 0, s.app+":{u*}:sessions", scanStep).Iterator()
		for sets.Next(ctx) {
			var removed, left *redis.IntCmd
			_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				removed = pipe.ZRemRangeByScore(ctx, sets.Val(), "-inf", strconv.FormatInt(now.UnixMilli(), 10))
				left = pipe.ZCard(ctx, sets.Val())
				return nil
			})
			if err != nil {
				return err
			}
			expired.Add(removed.Val())
			live.Add(left.Val())
		}
		return sets.Err()
	}
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return sweep(ctx, node)
		})
	} else {
		err = sweep(ctx, s.client)
	}
	return session.Swept{Expired: int(expired.Load()), Live: int(live.Load())}, failed("sweep sessions", err)
}

// encode returns the fields of a session's hash: name, value, name, value.
func encode(s session.Session) []any {
	return []any{
		"username", s.Username, "role", s.Role, "csrf", s.CSRFToken, "agent", s.UserAgent, "created",
		s.CreatedAt.Unix(), "stamp", s.Stamp,
		"factor", string(s.Factor), "auth_at", s.AuthAt.Unix(), "ip", s.IP, "login", s.Login,
		"device", string(s.Device),
	}
}

// decode reads the values that lua/values.lua returns.
func decode(ref session.Ref, values []string) (session.Session, error) {
	if len(values) != 11 {
		return session.Session{}, errReply
	}
	created, err := unix(values[4])
	if err != nil {
		return session.Session{}, fmt.Errorf("%w: created is not a number", errReply)
	}
	s := session.Session{
		Ref: ref, Username: values[0], Role: values[1], CSRFToken: values[2], UserAgent: values[3], CreatedAt: created,
		Stamp:  values[5],
		Factor: session.Factor(cmp.Or(values[6], string(session.Password))), AuthAt: created, IP: values[8],
		Login: cmp.Or(values[9], ref.Key), Device: session.Device(values[10]),
	}
	if values[7] != "" { // else it is of an earlier version
		if s.AuthAt, err = unix(values[7]); err != nil {
			return session.Session{}, fmt.Errorf("%w: auth_at is not a number", errReply)
		}
	}
	return s, nil
}

func unix(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0).UTC(), err
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
