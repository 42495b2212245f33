package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

func TestLimiter_NeedsAllItsParts(t *testing.T) {
	good := ratelimit.Options{Client: dial(t, "127.0.0.1:1"), App: "svc", Name: "login", Limit: limit, Window: time.Minute}
	if _, err := ratelimit.New(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*ratelimit.Options){
		"no client": func(o *ratelimit.Options) { o.Client = nil },
		"no app":    func(o *ratelimit.Options) { o.App = "" },
		"no name":   func(o *ratelimit.Options) { o.Name = "" },
		"no limit":  func(o *ratelimit.Options) { o.Limit = 0 },
		"no window": func(o *ratelimit.Options) { o.Window = time.Microsecond },
	} {
		o := good
		spoil(&o)
		if _, err := ratelimit.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// broken is a hook of a client whose commands fail.
type broken struct{}

var errBroken = errors.New("connection refused")

func (broken) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error {
		if _, ok := ctx.Deadline(); !ok {
			return errors.New("there is no deadline")
		}
		return errBroken
	}
}

func (broken) DialHook(next redis.DialHook) redis.DialHook { return next }

func (broken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestLimiter_AFailingRedisAllowsNothing(t *testing.T) {
	client := dial(t, "127.0.0.1:1")
	client.AddHook(broken{})
	if d, err := limiter(t, client, "login", limit, time.Minute).Spend(t.Context(), "a"); !errors.Is(err, errBroken) || d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
}
