package app

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/user"
	"strconv"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/services/auth/internal/account"
)

// audit writes the event of a command as the service writes those of requests, to
// standard error: who acted is the operating system's user. It returns err. What
// failed has no event, unless only the sessions are yet to follow.
func (p Process) audit(ctx context.Context, err error, event string, attrs ...any) error {
	if err != nil && !errors.Is(err, account.ErrPending) {
		return err
	}
	log, fault := logging.New(p.Stderr, "info")
	if fault != nil {
		return errors.Join(err, fault)
	}
	log.InfoContext(ctx, "audit", append([]any{"event", event, "actor", "cli", "os_user", osUser()}, attrs...)...)
	return err
}

// osUser names the user that the program runs as, by number where the machine
// keeps no names.
func osUser() string {
	u, err := user.Current()
	if err != nil {
		return strconv.Itoa(os.Getuid())
	}
	return cmp.Or(u.Username, u.Uid)
}
