package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

// watched is a verifier's logs and the policy that they are judged by.
type watched struct {
	site      *url.URL
	allowed   func(*url.URL) bool // which addresses may be asked
	directory receiptlog.Directory
	policy    receiptlog.Policy
	own       bool // the policy is the verifier's own
	watchFlags
	now func() time.Time
}

// watchFlags are those of log check and log mirror.
type watchFlags struct {
	policyFile string
	maxAge     time.Duration
}

func (f *watchFlags) define(flags *flag.FlagSet) {
	flags.StringVar(&f.policyFile, "log-policy", "", "")
	flags.DurationVar(&f.maxAge, "max-age", defaultMaxAge, "")
}

// watch reads the list of a verifier's logs. Without a policy file the policy is the verifier's
// own, and the address must be trusted. With a policy file plain http will do, as in a network of
// containers, because the logs are judged by that policy.
func watch(ctx context.Context, address string, asked watchFlags, now func() time.Time) (w watched, err error) {
	w = watched{allowed: trusted, own: asked.policyFile == "", watchFlags: asked, now: now}
	if !w.own {
		w.allowed = func(target *url.URL) bool {
			return target.Host != "" && (target.Scheme == "http" || target.Scheme == "https")
		}
		if w.policy, err = readPolicy(asked.policyFile); err != nil {
			return w, exitError{exitNoKey, err}
		}
	}
	w.site, w.directory, err = fetchDirectory(ctx, address, w.allowed)
	if _, ok := unread(err); err != nil && !ok && !errors.Is(err, errAddress) {
		err = exitError{exitNoKey, err} // the answer is no list
	}
	if err != nil {
		return w, err
	}
	if w.own {
		if w.policy, err = receiptlog.ParsePolicy([]byte(w.directory.Policy)); err != nil {
			return w, exitError{exitNoKey, err}
		}
	}
	return w, nil
}

func (w watched) fetch(log receiptlog.Generation) receiptlog.Fetch {
	return func(ctx context.Context, path string) ([]byte, error) {
		at := *w.site
		at.Path = strings.TrimSuffix(log.Prefix, "/") + "/" + path
		status, data, err := get(ctx, &at, w.allowed, "a log", receiptlog.MaxNote)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusNotFound:
			return nil, receiptlog.ErrNoTile
		case status != http.StatusOK:
			return nil, exitError{
				exitNoKey, fmt.Errorf("%s answers %d %s", at.Redacted(), status, http.StatusText(status)),
			}
		}
		return data, nil
	}
}

// newer is the newest checkpoint of a log, and its tree, which continues that of an earlier one.
type newer struct {
	receiptlog.Witnessed
	note []byte
	tree *receiptlog.Tree
	old  receiptlog.Checkpoint // the earlier one
}

// errNothingPublished means that a log serves no checkpoint: until its first one is
// witnessed, it has nothing to read.
var errNothingPublished = errors.New("the log serves no checkpoint; a new one has published nothing yet")

// since reads the newest checkpoint of a log and checks that it continues an earlier one,
// where there is one.
func (w watched) since(ctx context.Context, log receiptlog.Generation, earlier []byte) (n newer, err error) {
	fetch := w.fetch(log)
	n.note, err = fetch(ctx, "checkpoint")
	if errors.Is(err, receiptlog.ErrNoTile) {
		return n, exitError{exitNoKey, fmt.Errorf("%s: %w", log.Origin, errNothingPublished)}
	}
	if err != nil {
		return n, notValid(err)
	}
	if n.Witnessed, err = w.policy.Open(n.note); err != nil {
		return n, exitError{exitInvalid, err}
	}
	if n.Origin != log.Origin {
		return n, exitError{exitInvalid, fmt.Errorf("%s serves a checkpoint of %s", log.Origin, n.Origin)}
	}
	// Every log continues the empty one.
	n.old = receiptlog.Checkpoint{Origin: n.Origin, Root: sha256.Sum256(nil)}
	if len(earlier) > 0 { // the policy may not name its witnesses any more, so the log's signature is enough
		if n.old, err = log.Open(earlier); err != nil {
			return n, exitError{exitInvalid, fmt.Errorf("what was kept of %s: %w", log.Origin, err)}
		}
	}
	if n.tree, err = receiptlog.NewTree(n.Checkpoint, fetch); err == nil {
		err = n.tree.Continues(ctx, n.old)
	}
	if err != nil {
		return n, notValid(err)
	}
	return n, closedAsListed(log, n)
}

func logCheck(ctx context.Context, args []string, s streams) (err error) {
	flags := flag.NewFlagSet("log check", flag.ContinueOnError)
	var asked watchFlags
	asked.define(flags)
	state := flags.String("state", "", "")
	addresses, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	w, err := watch(ctx, addresses[0], asked, s.now)
	if err != nil {
		return err
	}
	before, err := readState(*state)
	if err != nil {
		return err
	}
	note := func(text string) { _, _ = fmt.Fprintln(s.err, "receipt:", printable(text)) }
	// The witnesses first: the log, which is read afterwards, must have what they have cosigned.
	seen, notes := w.ask(ctx)
	for _, text := range notes {
		note(text)
	}
	m := monitor{watched: w, seen: before, trees: map[string]newer{}, states: keyStates{}}
	defer func() { err = m.faults.with(err) }()
	w.vanished(before, &m.faults)
	for _, log := range slices.Backward(w.directory.Logs) { // the keys' states go from one to the next
		if log.Final != "" && !w.knows(log) {
			note(log.Origin + " is closed and not in the policy, and not checked")
			continue
		}
		if err := m.read(ctx, log, s.out); err != nil {
			return err
		}
	}
	if err := m.compareKeys(ctx, s.out); err != nil {
		return err
	}
	if err := w.judge(ctx, seen, m.trees, &m.faults); err != nil {
		return err
	}
	return writeState(*state, m.seen)
}

// monitor is one run of log check.
type monitor struct {
	watched
	seen   map[string]remembered
	trees  map[string]newer
	states keyStates
	faults faults
}

func (m *monitor) read(ctx context.Context, log receiptlog.Generation, out io.Writer) error {
	before := m.seen[log.Origin]
	n, err := m.since(ctx, log, []byte(before.Checkpoint))
	if err != nil {
		return err
	}
	known, err := before.keys()
	if err != nil {
		return err
	}
	maps.Copy(m.states, known)
	from := n.old.Size
	if before.Keys == nil { // the keys were not looked at yet
		from = 0
	}
	counts, err := m.countEntries(ctx, n, from)
	if err != nil {
		return notValid(err)
	}
	m.trees[log.Origin], m.seen[log.Origin] = n, remember(n.note, m.states)
	age := m.age(log, n, &m.faults)
	_, err = fmt.Fprintf(out, "%s continues: %d entries, %d since the last check, seen by %d of %d witnesses%s\n",
		printable(n.Origin), n.Size, n.Size-n.old.Size, len(n.Cosignatures), len(m.policy.Witnesses), age)
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if err == nil {
			_, err = fmt.Fprintf(out, "  %6d %s\n", counts[kind], kind)
		}
	}
	return err
}

// compareKeys compares the key document with the keys' last states. A new state may need the
// merge delay to be in the log: where something differs, it compares again after that, or after
// 300 seconds if the delay is longer.
func (m *monitor) compareKeys(ctx context.Context, out io.Writer) error {
	for again := range 2 {
		doc, err := m.keyDocument(ctx)
		if err != nil {
			m.faults.add("the key document: %v", err)
			return nil
		}
		if doc == nil {
			return nil
		}
		found := m.states.compare(*doc)
		if len(found) == 0 || again > 0 {
			m.faults = append(m.faults, found...)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Duration(m.directory.MergeDelay), 300) * time.Second):
		}
		if err := m.read(ctx, m.directory.Logs[0], out); err != nil {
			return err
		}
	}
	return nil
}

// countEntries reads the entries from an index on. It follows the states of keys, and
// counts the entries since the last check by kind and key.
func (m *monitor) countEntries(ctx context.Context, n newer, from int64) (map[string]int, error) {
	counts := map[string]int{}
	for at := from; at < n.Size; {
		bundle, err := n.tree.Entries(ctx, at/receiptlog.BundleSize)
		if err != nil {
			return nil, err
		}
		for _, data := range bundle[at%receiptlog.BundleSize:] {
			entry, err := receiptlog.ParseEntry(data)
			if err == nil && entry.IsKey() {
				err = m.states.take(entry, n.Origin)
			}
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", at, err)
			}
			if at >= n.old.Size {
				counts[entry.Kind+" "+entry.KeyID]++
			}
			at++
		}
	}
	return counts, nil
}

// logMirror copies the logs of a verifier: all but closed ones whose key the policy does not have.
func logMirror(ctx context.Context, args []string, s streams) error {
	flags := flag.NewFlagSet("log mirror", flag.ContinueOnError)
	var asked watchFlags
	asked.define(flags)
	every := flags.Duration("every", 0, "")
	words, err := parse(flags, args, 2)
	if err != nil {
		return err
	}
	for {
		err := mirrorAll(ctx, words[0], words[1], asked, s)
		if *every <= 0 {
			return err
		}
		if err != nil {
			complain(s.err, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseAfter(err, *every)):
		}
	}
}

// pauseAfter returns how long to wait before the next copy: every. While a new log has no checkpoint yet
// it is a tenth of every, at least a second and at most every, because the first one comes soon.
func pauseAfter(err error, every time.Duration) time.Duration {
	if errors.Is(err, errNothingPublished) {
		return min(every, max(every/10, time.Second))
	}
	return every
}

func mirrorAll(ctx context.Context, address, folder string, asked watchFlags, s streams) (err error) {
	w, err := watch(ctx, address, asked, s.now)
	if err != nil {
		return err
	}
	// The notes are not printed: with --every they would come again with each copy.
	seen, _ := w.ask(ctx)
	trees := map[string]newer{}
	var found faults
	defer func() { err = found.with(err) }()
	for _, log := range w.directory.Logs {
		if log.Final != "" && !w.knows(log) {
			continue
		}
		m := mirror{filepath.Join(folder, filepath.FromSlash(log.Prefix))}
		earlier, err := readFile(m.file("checkpoint"), nil, receiptlog.MaxNote)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		n, err := w.since(ctx, log, earlier)
		if err != nil {
			return err
		}
		if err := m.extend(ctx, n); err != nil {
			return err
		}
		trees[log.Origin] = n
		age := w.age(log, n, &found)
		if _, err := fmt.Fprintf(s.out, "%s: %d entries, %d new%s\n", printable(n.Origin), n.Size, n.Size-n.old.Size,
			age); err != nil {
			return err
		}
	}
	return w.judge(ctx, seen, trees, &found)
}

// mirror is a folder with the files of a log (C2SP tlog-tiles). Tiles of hashes are not copied but
// computed from the entries.
type mirror struct{ folder string }

func (m mirror) file(path string) string { return filepath.Join(m.folder, filepath.FromSlash(path)) }

func (m mirror) write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(m.file(path)), 0o755); err != nil { //nolint:gosec // it is public
		return err
	}
	return witness.ReplaceAs(m.file(path), data, 0o644)
}

// extend writes the tiles and bundles that are new and then the checkpoint, until which the folder
// is a mirror of the earlier one. Readers of an earlier checkpoint may need its partial tiles: those of an
// index stay until the full tile is there, which readers take instead (C2SP tlog-tiles). At each level only
// the last index has partial tiles, at most 255. They are removed before the checkpoint is written, because
// after a kill the next copy begins at the earlier checkpoint and removes what is left.
func (m mirror) extend(ctx context.Context, n newer) error {
	for tile := range receiptlog.Tiles(n.old.Size, n.Size) {
		if err := m.add(ctx, n.tree, tile); err != nil {
			return err
		}
		if tile.Width == receiptlog.BundleSize {
			if err := os.RemoveAll(m.file(tile.Path() + ".p")); err != nil {
				return err
			}
		}
	}
	return m.write("checkpoint", n.note)
}

func (m mirror) add(ctx context.Context, tree *receiptlog.Tree, tile receiptlog.Tile) error {
	var data []byte
	switch tile.Level {
	case receiptlog.EntriesLevel:
		entries, err := tree.Entries(ctx, tile.Index)
		if err != nil {
			return notValid(err)
		}
		var leaves []byte
		for _, entry := range entries {
			leaf := receiptlog.Leaf(entry)
			data, leaves = receiptlog.AppendBundled(data, entry), append(leaves, leaf[:]...)
		}
		if err := m.write(receiptlog.Tile{Level: 0, Index: tile.Index, Width: tile.Width}.Path(), leaves); err != nil {
			return err
		}
	case 0:
		return nil // written with its entries
	default:
		for i := range int64(tile.Width) {
			below := receiptlog.Tile{
				Level: tile.Level - 1, Index: tile.Index*receiptlog.BundleSize + i, Width: receiptlog.BundleSize,
			}
			hashes, err := os.ReadFile(m.file(below.Path()))
			if err != nil {
				return err
			}
			root, err := receiptlog.TileRoot(hashes)
			if err != nil {
				return fmt.Errorf("%s: %w", below.Path(), err)
			}
			data = append(data, root[:]...)
		}
	}
	return m.write(tile.Path(), data)
}

func logKey(_ context.Context, args []string, s streams) error {
	words, err := parse(flag.NewFlagSet("log key", flag.ContinueOnError), args, 2)
	if err != nil {
		return err
	}
	private, err := privateKey(words[0], s)
	if err != nil {
		return err
	}
	key, err := receiptlog.NewLogKey(words[1], private.Public().(ed25519.PublicKey))
	if err != nil {
		return exitError{exitUsage, err}
	}
	_, err = fmt.Fprintln(s.out, key)
	return err
}

func privateKey(file string, s streams) (ed25519.PrivateKey, error) {
	text, err := readFile(file, s.in, maxKeySize)
	if err != nil {
		return nil, err
	}
	private, err := receiptlog.ParsePrivateKey(text)
	if err != nil {
		return nil, exitError{exitInvalid, fmt.Errorf("%s: %w", file, err)}
	}
	return private, nil
}

const (
	witnessTimeout = 10 * time.Second
	witnessIdle    = 2 * time.Minute
)

// witnessCommand prints the key of a witness and, where there are logs to cosign, serves it until it is stopped.
func witnessCommand(ctx context.Context, args []string, s streams) error {
	flags := flag.NewFlagSet("witness", flag.ContinueOnError)
	keyFile, name := flags.String("key", "", ""), flags.String("name", "", "")
	state, listen := flags.String("state", "", ""), flags.String("listen", "127.0.0.1:8090", "")
	init := flags.Bool("init", false, "")
	var logs, begin []receiptlog.Key
	flags.Func("log", "", func(text string) error {
		key, err := receiptlog.ParseLogKey(text)
		logs = append(logs, key)
		return err
	})
	flags.Func("begin", "", func(text string) error {
		if text == "" { // a compose file always has the flag, with a key only when a log begins
			return nil
		}
		key, err := receiptlog.ParseLogKey(text)
		begin = append(begin, key)
		return err
	})
	flags.Func("log-policy", "", func(file string) error {
		policy, err := readPolicy(file)
		for _, log := range policy.Logs {
			logs = append(logs, log.Key)
		}
		return err
	})
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	for _, log := range begin {
		if !slices.ContainsFunc(logs, func(k receiptlog.Key) bool { return k.String() == log.String() }) {
			return usage("witness: --begin of %s, which neither --log nor the policy has", log.Name())
		}
	}
	if *keyFile == "" || *name == "" || (len(logs) == 0) != (*state == "") {
		return usage("witness: --key, --name and, with --log, --state; see receipt --help")
	}
	private, err := privateKey(*keyFile, s)
	if err != nil {
		return err
	}
	signer, err := receiptlog.NewWitnessSigner(*name, private, time.Now)
	if err != nil {
		return exitError{exitUsage, err}
	}
	if _, err := fmt.Fprintln(s.out, signer.Key); err != nil || len(logs) == 0 {
		return err
	}
	if *init {
		if err := witness.Create(*state); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	w, err := witness.Open(witness.Options{Signer: signer, Logs: logs, State: *state, Begin: begin})
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	for _, log := range w.Waiting() {
		_, _ = fmt.Fprintf(s.err, "receipt: %s is not cosigned: another generation of its log began before; where "+
			"that is right, start once with --begin %s\n", printable(log.Name()), log)
	}
	server := http.Server{
		Addr: *listen, Handler: w, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: witnessTimeout, ReadTimeout: witnessTimeout, WriteTimeout: witnessTimeout,
		IdleTimeout: witnessIdle,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { //nolint:contextcheck // it ends what is under way
		bounded, cancel := context.WithTimeout(context.Background(), witnessTimeout)
		defer cancel()
		stopped <- server.Shutdown(bounded)
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-stopped
}
