package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
)

// logSettings are the settings of the log of receipts in the types of the packages that use them.
type logSettings struct {
	config.Log
	key    ed25519.PrivateKey
	host   string
	policy string // the file's text
}

// loadLog reads key and policy of the log. It returns nil, nil where there is no log, and where another
// check reports what is missing or wrong. signing is the key that signs receipts, nil where it is not known.
func loadLog(
	c config.Log, signing *receipt.SigningKey, publicURL string, checkUpstreams func([]string) error,
) (*logSettings, error) {
	if c.Key == "" || c.PolicyFile == "" {
		return nil, nil //nolint:nilnil // reported already, or there is none
	}
	// An environment file can hold a PEM only with its line ends written as \n.
	key, err := receiptlog.ParsePrivateKey([]byte(strings.ReplaceAll(c.Key, `\n`, "\n")))
	switch {
	case err != nil:
		err = fmt.Errorf("RECEIPT_LOG_KEY: %w", err)
	case signing != nil && key.Public().(ed25519.PublicKey).Equal(signing.Public()):
		err = errors.New("RECEIPT_LOG_KEY: is the key that signs receipts; make another")
	}
	policy, faulty := logPolicy(c.PolicyFile, checkUpstreams)
	if faulty != nil {
		err = errors.Join(err, fmt.Errorf("LOG_POLICY_FILE: %w", faulty))
	}
	public, faulty := url.Parse(publicURL)
	if err != nil || faulty != nil { // the latter is reported as PUBLIC_URL
		return nil, err
	}
	return &logSettings{Log: c, key: key, host: public.Host, policy: policy}, nil
}

// logPolicy returns the text of a policy. Each of its witnesses must have an address that checkUpstreams allows.
func logPolicy(file string, checkUpstreams func([]string) error) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", err
	}
	policy, err := receiptlog.ParsePolicy(text)
	if err != nil {
		return "", err
	}
	var urls []string
	for _, w := range policy.Witnesses {
		if w.URL == "" {
			return "", fmt.Errorf("the witness %s has no address", w.Name)
		}
		urls = append(urls, w.URL)
	}
	return string(text), checkUpstreams(urls)
}

// name returns origin and verifier key of the log's generation with the number log.
func (s *logSettings) name(log int64) (origin, vkey string, err error) {
	return translog.Name(s.host, s.key, log)
}

// open returns the log in a store.
func (s *logSettings) open(
	store translog.Store, keys []receipt.Key, log *slog.Logger, at func(translog.Point),
) (*translog.Log, error) {
	return translog.New(translog.Options{
		Store: store, Key: s.key, Host: s.host, Policy: s.policy, Keys: keys, Mark: s.MarkFile, Interval: s.Interval,
		Timeout: s.WitnessTimeout,
		Client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		Log: log, Now: time.Now, At: at,
	})
}

// logStore returns the store of the log in a ledger's database. placing is as in logsql.Options, and may be nil.
func logStore(l *ledger.Ledger, placing func()) *logsql.Store {
	return logsql.New(logsql.Options{DB: l.DB(), Now: time.Now, Placing: placing})
}

// openLedger opens the ledger. It begins its log where the settings have one, and else records that the
// process sells without a log.
func (s *server) openLedger(ctx context.Context) (*ledger.Ledger, error) {
	l, err := ledger.Open(ctx, s.DatabaseURL,
		ledger.Options{Now: time.Now, Finality: s.withFinality(), Log: s.settings.log != nil})
	if err != nil {
		return nil, err
	}
	var placing func()
	if at := s.process.atLog; at != nil {
		placing = func() { at(translog.Placing) }
	}
	s.logStore = logStore(l, placing)
	if s.settings.log == nil {
		err = s.logStore.SellWithoutLog(ctx)
	} else {
		err = s.beginLog(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// beginLog begins the log where it has not begun, and has the key document list the keys as the log lists them.
func (s *server) beginLog(ctx context.Context) error {
	listed, err := s.logStore.Begin(ctx, s.settings.log.name, s.keys.Keys)
	switch {
	case errors.Is(err, receiptlog.ErrKeyState):
		return fmt.Errorf("the signing key or RECEIPT_RETIRED_KEYS_FILE: %w", err)
	case err != nil:
		return fmt.Errorf("open the log of receipts: %w", err)
	}
	s.keys.Keys = listed
	return nil
}

// openLog opens the log and registers its metrics; nil where there is none.
func (s *server) openLog(ctx context.Context) (*translog.Log, error) {
	if s.settings.log == nil {
		return nil, nil //nolint:nilnil // see above
	}
	log, err := s.settings.log.open(s.logStore, s.keys.Keys, s.Log, s.process.atLog)
	if err != nil {
		return nil, fmt.Errorf("open the log of receipts: %w", err)
	}
	if policy, err := receiptlog.ParsePolicy([]byte(s.settings.log.policy)); err == nil && policy.Unwitnessed() {
		s.Log.WarnContext(ctx, "LOG_POLICY_FILE asks for no witness: the log of receipts is only this verifier's "+
			"own word")
		if s.settings.log.MarkFile == "" {
			s.Log.WarnContext(ctx, "LOG_MARK_FILE is not set and no witness is asked for: nothing notices when the "+
				"ledger is put back from a copy")
		}
	}
	return log, log.Register(s.Registry)
}

// runLog runs the log until ctx ends.
func (s *server) runLog(ctx context.Context) {
	if s.log != nil {
		s.log.Run(ctx)
	}
}

// withLog calls do with the log of the settings, for a command at the terminal.
func (p Process) withLog(ctx context.Context, do func(*translog.Log) error) error {
	cfg, err := config.LoadLogged(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	set, err := loadLog(cfg.Log, nil, cfg.PublicURL, func([]string) error { return nil }) // serve checks the addresses
	if err != nil {
		return settingsError(err)
	}
	if set == nil {
		return errors.New("there is no log of receipts: RECEIPT_LOG_KEY is not set")
	}
	log, err := logging.New(p.Stderr, cfg.LogLevel)
	if err != nil {
		return err
	}
	return p.with(ctx, func(l *ledger.Ledger, _ config.Ledger) error {
		opened, err := set.open(logStore(l, nil), nil, log, nil)
		if err != nil {
			return err
		}
		err = do(opened)
		if errors.Is(err, translog.ErrNotFound) {
			err = errors.New("the ledger has no log of receipts yet: it begins when the verifier serves with " +
				"RECEIPT_LOG_KEY")
		}
		return err
	})
}

// logStatus is "verifier log status".
func (p Process) logStatus(ctx context.Context, args []string) error {
	flags := service.Flags()
	asJSON := flags.Bool("json", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.withLog(ctx, func(l *translog.Log) error {
		s, err := l.Status(ctx)
		if err != nil {
			return err
		}
		has, err := l.AskWitnesses(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.Stdout, struct {
				translog.Status
				Has []translog.WitnessAnswer `json:"witnessesHave"`
			}{s, has})
		}
		var text strings.Builder
		line := func(name, format string, args ...any) {
			_, _ = fmt.Fprintf(&text, "%-10s "+format+"\n", append([]any{name}, args...)...)
		}
		line("origin", "%s", s.Origin)
		line("key", "%s", s.Key)
		line("state", "%s", cmp.Or(s.Frozen, "open"))
		line("entries", "%d, root %s", s.Size, s.Root)
		at := "never"
		if !s.At.IsZero() {
			at = s.At.Format(time.RFC3339)
		}
		line("published", "%d entries, %s", s.Published, at)
		line("queued", "%d", s.Queued)
		if s.SetAside > 0 {
			line("set aside", "%d, which are no entries: verifier log aside", s.SetAside)
		}
		if s.Mark > 0 {
			line("mark", "%d entries", s.Mark)
		}
		for i, w := range has {
			if w.Fault != "" {
				line("witness", "%s: %d entries as the ledger knows; %s", w.Name, s.Witnesses[i].Size, w.Fault)
				continue
			}
			line("witness", "%s: has cosigned %d entries, %d as the ledger knows", w.Name, w.Size, s.Witnesses[i].Size)
		}
		_, err = io.WriteString(p.Stdout, text.String())
		return err
	})
}

// logAudit is "verifier log audit". Faults are an error.
func (p Process) logAudit(ctx context.Context, args []string) error {
	flags := service.Flags()
	asJSON, since := flags.Bool("json", false, ""), flags.String("at", "", "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	var at time.Time
	if *since != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, *since); err != nil {
			return service.UsageError("log audit: --at is not a time as 2026-11-23T00:00:00Z")
		}
	}
	return p.withLog(ctx, func(l *translog.Log) error {
		a, err := l.Audit(ctx, at)
		if err != nil {
			return err
		}
		if *asJSON {
			err = printJSON(p.Stdout, a)
		} else {
			_, err = io.WriteString(p.Stdout, auditText(a, at))
		}
		if err == nil && len(a.Faults) > 0 {
			err = fmt.Errorf("the audit has found %d faults", len(a.Faults))
		}
		return err
	})
}

func auditText(a translog.Audit, at time.Time) string {
	var text strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&text, format+"\n", args...) }
	line("%s: %d entries", a.Origin, a.Entries)
	for _, fault := range a.Faults {
		line("FAULT: %s", fault)
	}
	for _, note := range a.Notes {
		line("not compared: %s", note)
	}
	if a.Copied > 0 {
		line("%d entries came back from a copy, the first at %d: whether they were queued here is not known", a.Copied,
			a.FirstCopied)
	}
	if !at.IsZero() {
		line("size at %s: %d", at.Format(time.RFC3339), a.SizeAt)
	}
	switch {
	case a.Foreign > 0:
		line("cut-off for a receipt key that is revoked now: %d, the first of %d entries that were not queued here",
			a.FirstForeign, a.Foreign)
	case at.IsZero():
		known := "queued here"
		if a.Copied > 0 {
			known += " or came back"
		}
		line("cut-off for a receipt key that is revoked now: every entry was %s; --at TIME shows the size when the "+
			"key was surely yours", known)
	default:
		line("cut-off for a receipt key that was surely yours until then: %d", a.SizeAt)
	}
	return text.String()
}

// logResume is "verifier log resume".
func (p Process) logResume(ctx context.Context, args []string) error {
	flags := service.Flags()
	size := flags.Int64("size", -1, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.withLog(ctx, func(l *translog.Log) error { return l.Resume(ctx, *size) })
}

// logRecover is "verifier log recover".
func (p Process) logRecover(ctx context.Context, args []string) error {
	flags := service.Flags()
	from, size := flags.String("from", "", ""), flags.Int64("size", -1, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	if *from == "" {
		return service.UsageError("log recover: --from is missing")
	}
	return p.withLog(ctx, func(l *translog.Log) error {
		s, err := l.Status(ctx)
		if err != nil {
			return err
		}
		fetch, err := copyOf(*from, translog.Prefix(s.Generation))
		if err != nil {
			return err
		}
		n, err := l.Recover(ctx, fetch, *size)
		_, printErr := fmt.Fprintf(p.Stdout, "%d entries came back\n", n)
		return errors.Join(err, printErr)
	})
}

// logClose is "verifier log close".
func (p Process) logClose(ctx context.Context, args []string) error {
	flags := service.Flags()
	origin, poisoned := flags.String("origin", "", ""), flags.Bool("poisoned", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	if *origin == "" {
		return service.UsageError("log close: --origin is missing: type the origin of the log that ends")
	}
	return p.withLog(ctx, func(l *translog.Log) error {
		next, err := l.Close(ctx, *origin, *poisoned)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Stdout, "%s is closed; %s begins\n", *origin, next)
		return err
	})
}

// logAside is "verifier log aside".
func (p Process) logAside(ctx context.Context, args []string) error {
	flags := service.Flags()
	number, asJSON := flags.Int64("discard", 0, ""), flags.Bool("json", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.with(ctx, func(l *ledger.Ledger, _ config.Ledger) error {
		store := logStore(l, nil)
		if *number != 0 {
			err := store.Discard(ctx, *number)
			if errors.Is(err, translog.ErrNotFound) {
				err = fmt.Errorf("%d was not set aside", *number)
			}
			return err
		}
		all, err := store.SetAside(ctx, 100)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.Stdout, all)
		}
		for _, a := range all {
			if _, err := fmt.Fprintf(p.Stdout, "%d: %d bytes, queued %s: %s: %q\n", a.Number, a.Bytes,
				a.Queued.Format(time.RFC3339), a.Why, a.Begin); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyTimeout bounds the fetch of one file of a copy that is served.
const copyTimeout = 30 * time.Second

// copyOf returns the reader of a mirror of the log, as "receipt log mirror" makes it. from is its folder,
// or the address where it is served; prefix is the path of the log's generation below that.
func copyOf(from, prefix string) (receiptlog.Fetch, error) {
	if !strings.Contains(from, "://") {
		root, err := os.OpenRoot(filepath.Join(from, filepath.FromSlash(prefix)))
		if err != nil {
			return nil, err
		}
		return func(_ context.Context, path string) ([]byte, error) {
			data, err := root.ReadFile(filepath.FromSlash(path))
			if errors.Is(err, fs.ErrNotExist) {
				err = receiptlog.ErrNoTile
			}
			return data, err
		}, nil
	}
	client := &http.Client{Timeout: copyTimeout}
	return func(ctx context.Context, path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(from, "/")+prefix+"/"+path,
			nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		switch response.StatusCode {
		case http.StatusOK:
			return io.ReadAll(io.LimitReader(response.Body, receiptlog.MaxNote))
		case http.StatusNotFound:
			return nil, receiptlog.ErrNoTile
		}
		return nil, fmt.Errorf("%s answers %s", request.URL.Redacted(), response.Status)
	}, nil
}
