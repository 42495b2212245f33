package once

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the Lua script
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

const (
	// FormLifetime is how long what a form led to is kept.
	FormLifetime = 10 * time.Minute
	// pendingLifetime bounds how long a form may take to be carried out. After that it can be sent
	// again, as when the process has ended meanwhile.
	pendingLifetime = time.Minute
	// giveBackTimeout bounds giveBack, which does not end with its caller.
	giveBackTimeout = time.Second
	// poll is how often a form that is sent again asks what the first one led to.
	poll = 50 * time.Millisecond
	// pending begins the mark of a form that is being carried out. Nothing sealed begins so: it begins with a random
	// nonce.
	pending = "pending"
)

var (
	//go:embed lua/begin.lua
	luaBegin string
	//go:embed lua/giveback.lua
	luaGiveBack string
)

var (
	beginScript    = redis.NewScript(luaBegin)
	giveBackScript = redis.NewScript(luaGiveBack)
)

// Form is a form that was sent: its id, which the page or the client made, and all that was sent. The same id with
// other fields, as after the browser's Back, is another form.
type Form struct {
	name string
	key  Key
}

// NewForm returns the form with an id, and reports whether the id is like those of secrets.New. sent must hold what
// tells two acts apart: the path and the body. A client may choose the id, if it is random.
func NewForm(id string, sent ...string) (Form, bool) {
	if !secrets.Is(id) {
		return Form{}, false
	}
	name := digest(id, "name", sent)
	return Form{name: hex.EncodeToString(name[:]), key: digest(id, "key", sent)}, true
}

// digest returns an HMAC-SHA-256 of what was sent, with the id as its key: who has the digest and not the id cannot
// find a password in it by guessing.
func digest(id, purpose string, sent []string) (sum [32]byte) {
	h := hmac.New(sha256.New, []byte(id))
	for _, text := range append([]string{purpose}, sent...) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	h.Sum(sum[:0])
	return sum
}

// Answer is what a form led to.
type Answer struct {
	To      string    // where the redirect leads
	Cookies []string  // that were set: values of Set-Cookie
	At      time.Time // when it was carried out
}

func (s *Store) form(f Form) string { return s.o.App + ":form:" + f.name }

// Begin reports whether the caller is the first to send a form. The first carries it out, and then calls Finish or
// Abandon. Of any number of concurrent calls one is the first; the others wait and return its answer. Where it
// abandons the form, or takes longer than pendingLifetime, one of them is the first. A call that fails keeps no others
// waiting, if Redis can be reached.
func (s *Store) Begin(ctx context.Context, f Form) (answer Answer, first bool, err error) {
	mark := pending + rand.Text() // by which the caller knows its form again where a reply was lost
	for {
		held, err := beginScript.Run(ctx, s.o.Client, []string{s.form(f)}, mark,
			pendingLifetime.Milliseconds()).Text()
		if err != nil {
			// The mark may have been set all the same.
			return Answer{}, false, errors.Join(fmt.Errorf("redis: begin form: %w", err), s.giveBack(ctx, f, mark))
		}
		if held == mark {
			return Answer{}, true, nil
		}
		if !strings.HasPrefix(held, pending) {
			answer, err = decode(f, held)
			return answer, false, err
		}
		if err := wait(ctx); err != nil {
			return Answer{}, false, err
		}
	}
}

// giveBack forgets a form if it holds this mark of Begin, so that another call can be the first; also where ctx has
// ended.
func (s *Store) giveBack(ctx context.Context, f Form, mark string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if err := giveBackScript.Run(ctx, s.o.Client, []string{s.form(f)}, mark).Err(); err != nil {
		return fmt.Errorf("redis: give back form: %w", err)
	}
	return nil
}

// Answer returns what a form led to, and reports whether it was carried out, within FormLifetime. It waits while the
// form is carried out.
func (s *Store) Answer(ctx context.Context, f Form) (answer Answer, sent bool, err error) {
	for {
		held, err := s.o.Client.Get(ctx, s.form(f)).Result()
		if errors.Is(err, redis.Nil) {
			return Answer{}, false, nil
		}
		if err != nil {
			return Answer{}, false, fmt.Errorf("redis: read form: %w", err)
		}
		if !strings.HasPrefix(held, pending) {
			answer, err = decode(f, held)
			return answer, true, err
		}
		if err := wait(ctx); err != nil {
			return Answer{}, false, err
		}
	}
}

func wait(ctx context.Context) error {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func decode(f Form, held string) (answer Answer, err error) {
	content, err := open(f.key, f.name, []byte(held))
	if err == nil {
		err = json.Unmarshal(content, &answer)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read form: %w", err)
	}
	return answer, nil
}

// Finish keeps what a form led to for FormLifetime. Of those of strangers, and of those of others, the newest are kept.
func (s *Store) Finish(ctx context.Context, f Form, a Answer, stranger bool) error {
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	sealed, err := seal(f.key, f.name, content)
	if err != nil {
		return err
	}
	forms := s.forms
	if stranger {
		forms = s.strangers
	}
	if err := forms.Add(ctx, s.form(f), len(sealed)); err != nil {
		return err
	}
	if err := s.o.Client.Set(ctx, s.form(f), sealed, FormLifetime).Err(); err != nil {
		return fmt.Errorf("redis: finish form: %w", err)
	}
	return nil
}

// Abandon forgets a form that led to nothing, so that it can be sent again.
func (s *Store) Abandon(ctx context.Context, f Form) error {
	if err := s.o.Client.Del(ctx, s.form(f)).Err(); err != nil {
		return fmt.Errorf("redis: abandon form: %w", err)
	}
	return nil
}
