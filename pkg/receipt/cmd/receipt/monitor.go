package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

const (
	// defaultMaxAge is how old the newest cosignatures of a log may be by default. Unless
	// the log is frozen, its checkpoint is cosigned again each hour.
	defaultMaxAge = 2 * time.Hour
	// publishWithin is how soon a log must serve a checkpoint that a witness has cosigned.
	publishWithin = 10 * time.Minute
	// maxState bounds the state file in bytes.
	maxState = 16 << 20
)

// faults are what is wrong with logs.
type faults []string

func (f faults) Error() string { return strings.Join(f, "; ") }

func (f *faults) add(format string, args ...any) {
	if fault := fmt.Sprintf(format, args...); !slices.Contains(*f, fault) {
		*f = append(*f, fault)
	}
}

// with returns the faults as one error, with the err that ended the search for them; err if there are none.
func (f faults) with(err error) error {
	if len(f) == 0 {
		return err
	}
	if err != nil {
		f.add("%v", err)
	}
	return exitError{exitInvalid, f}
}

// keyState is the last state of a key that a log has.
type keyState struct {
	entry  receiptlog.Entry
	origin string // of the log that has it
}

// keyStates are the last state of each key, by its id.
type keyStates map[string]keyState

// take keeps the next entry of a key, which must be the last one again, as a new generation of the
// log has it, or follow it. In generation 1 the first entry of a key has the number 1 or, as a KeyEntry,
// none. In a later one it may have any number, because earlier generations may not have been read.
func (k keyStates) take(e receiptlog.Entry, origin string) error {
	last, known := k[e.KeyID]
	_, generation, _ := receiptlog.GenerationOf(origin)
	if !known && e.Number > 1 && generation == 1 {
		return fmt.Errorf("%w: %s: its first state has the number %d", receiptlog.ErrKeyState, e.KeyID, e.Number)
	}
	if known && last.entry != e {
		if err := e.Follows(last.entry, last.origin); err != nil {
			return err
		}
	}
	k[e.KeyID] = keyState{e, origin}
	return nil
}

// compare returns how a key document differs from what the log has.
func (k keyStates) compare(doc receipt.KeyDocument) (found faults) {
	listed := map[string]bool{}
	for _, key := range doc.Keys {
		listed[key.KeyID] = true
		last, known := k[key.KeyID]
		switch {
		case !known:
			found.add("the key document lists %s as %s, of which the log has nothing", key.KeyID, key.Status)
		case !last.entry.States(key, last.origin):
			found.add("the key document lists %s as %s, and the log's last state of it is another: %q", key.KeyID,
				key.Status, lastLine(last.entry))
		}
	}
	for id, last := range k {
		if !listed[id] {
			found.add("the key document does not list %s, of which the log's last state is %q", id,
				lastLine(last.entry))
		}
	}
	slices.Sort(found)
	return found
}

func lastLine(e receiptlog.Entry) string {
	lines := strings.Split(strings.TrimSuffix(string(e.Bytes()), "\n"), "\n")
	return lines[len(lines)-1]
}

// remembered is what the state file has of one log.
type remembered struct {
	Checkpoint string `json:"checkpoint"`
	// Keys are the last entries of keys, by the origin of the log that has them; nil where an
	// earlier version, which did not look at them, has written the file.
	Keys map[string][]string `json:"keys"`
}

func (r remembered) keys() (keyStates, error) {
	states := keyStates{}
	for origin, entries := range r.Keys {
		for _, text := range entries {
			e, err := receiptlog.ParseEntry([]byte(text))
			if err != nil {
				return nil, err
			}
			states[e.KeyID] = keyState{e, origin}
		}
	}
	return states, nil
}

func remember(note []byte, states keyStates) remembered {
	r := remembered{Checkpoint: string(note), Keys: map[string][]string{}}
	for _, last := range states {
		r.Keys[last.origin] = append(r.Keys[last.origin], string(last.entry.Bytes()))
	}
	for _, entries := range r.Keys {
		slices.Sort(entries)
	}
	return r
}

// readState reads the state file, and returns what it has by origin: nothing if file is "" or
// there is none. The file may also be one checkpoint, as earlier versions wrote it.
func readState(file string) (map[string]remembered, error) {
	seen := map[string]remembered{}
	if file == "" {
		return seen, nil
	}
	text, err := readFile(file, nil, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err == nil && !bytes.HasPrefix(text, []byte("{")) {
		origin, _, _ := strings.Cut(string(text), "\n")
		seen[origin] = remembered{Checkpoint: string(text)}
	} else if err == nil {
		if err = json.Unmarshal(text, &seen); err != nil || seen == nil {
			err = fmt.Errorf("%s is not the state of a log that was checked", file)
		}
	}
	return seen, err
}

func writeState(file string, seen map[string]remembered) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(seen, "", " ")
	if err == nil {
		err = witness.Replace(file, append(text, '\n'))
	}
	return err
}

// keyDocument asks the verifier for its key document; nil where it has none, such as a mirror
// of a log.
func (w watched) keyDocument(ctx context.Context) (*receipt.KeyDocument, error) {
	at := *w.site
	at.Path = keyPath
	status, data, err := get(ctx, &at, w.allowed, "a key", maxKeySize)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, nil //nolint:nilnil // see above
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s answers %d %s", at.Redacted(), status, http.StatusText(status))
	}
	doc, err := receipt.ParseKeyDocument(data)
	return &doc, err
}

// age adds a fault if the newest checkpoint of an open generation was cosigned too far from now,
// and returns ", " and that time; "" of a closed one, or if no witness cosigned.
func (w watched) age(log receiptlog.Generation, n newer, found *faults) string {
	at, ok := n.Newest()
	if !ok || log.Final != "" {
		return ""
	}
	now := w.now()
	if old := now.Sub(at); old > w.maxAge || -old > w.maxAge {
		found.add("the newest checkpoint of %s was cosigned %s, and now is %s: more than %s", n.Origin,
			at.Format(time.RFC3339), now.UTC().Format(time.RFC3339), w.maxAge)
	}
	return ", " + at.Format(time.RFC3339)
}

// sighting is a checkpoint that a witness itself serves.
type sighting struct {
	witness string
	note    []byte
	receiptlog.Checkpoint
	at time.Time
}

// ask asks the witnesses of the policy what they have cosigned, which the operator of the log
// cannot hide, also of logs that the verifier does not list. notes say why witnesses could not be
// asked. A policy of the log's own is not used for this.
func (w watched) ask(ctx context.Context) (seen []sighting, notes []string) {
	if w.own {
		return nil, []string{"the witnesses are not asked: they are of the log's own policy"}
	}
	origins := w.policy.Origins(w.directory)
	for _, each := range w.policy.Witnesses {
		err := errors.New("the policy has no address of it that may be asked")
		if target, parsed := url.Parse(each.URL); parsed == nil && w.allowed(target) {
			err = w.askOne(ctx, each, target, origins, func(s sighting) { seen = append(seen, s) })
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("the witness %s could not be asked: %v", each.Name, err))
		}
	}
	return seen, notes
}

func (w watched) askOne(
	ctx context.Context, each receiptlog.Witness, target *url.URL, origins []string, take func(sighting),
) error {
	for _, origin := range origins {
		status, data, err := get(ctx, target.JoinPath(witness.ID(origin), "checkpoint"), w.allowed, "a witness",
			receiptlog.MaxNote)
		switch {
		case err != nil:
			return err
		case status == http.StatusNotFound:
			continue
		case status != http.StatusOK:
			return fmt.Errorf("it answers %d %s", status, http.StatusText(status))
		}
		c, at, err := receiptlog.OpenCosigned(data, each.Key)
		if err != nil {
			return err
		}
		take(sighting{each.Name, data, c, at})
	}
	return nil
}

// judge compares what the witnesses serve with the list, and with the trees that were read. What
// differs is a fault; the error is of a tree that cannot be read.
func (w watched) judge(ctx context.Context, seen []sighting, trees map[string]newer, found *faults) error {
	for _, s := range seen {
		at := slices.IndexFunc(w.directory.Logs, func(g receiptlog.Generation) bool { return g.Origin == s.Origin })
		if at < 0 {
			found.add("the witness %s has cosigned %d entries of %s, which the verifier does not list", s.witness,
				s.Size, s.Origin)
			continue
		}
		if _, err := w.directory.Logs[at].Open(s.note); err != nil {
			found.add("the witness %s has cosigned %s by another key than the verifier lists", s.witness, s.Origin)
			continue
		}
		if final, closed := w.directory.Logs[at].FinalCheckpoint(); closed && s.Size > final.Size {
			found.add("%s was closed with %d entries, and the witness %s has cosigned %d", s.Origin, final.Size,
				s.witness, s.Size)
			continue
		}
		n, read := trees[s.Origin]
		if !read {
			continue
		}
		if s.Size > n.Size {
			if w.now().Sub(s.at) > publishWithin {
				found.add("%s serves %d entries, and the witness %s has cosigned %d at %s", s.Origin, n.Size, s.witness,
					s.Size, s.at.Format(time.RFC3339))
			}
			continue
		}
		if err := n.tree.Continues(ctx, s.Checkpoint); errors.Is(err, receiptlog.ErrConsistency) {
			found.add("%s is not what the witness %s has cosigned: %v", s.Origin, s.witness, err)
		} else if err != nil {
			return notValid(err)
		}
	}
	return nil
}

// vanished adds a fault for each log of the state file that is not listed any more.
func (w watched) vanished(seen map[string]remembered, found *faults) {
	for origin := range seen {
		if !slices.ContainsFunc(w.directory.Logs, func(g receiptlog.Generation) bool { return g.Origin == origin }) {
			found.add("the verifier does not list %s any more, which was checked before", origin)
		}
	}
}

func (w watched) knows(log receiptlog.Generation) bool {
	return slices.ContainsFunc(w.policy.Logs, func(l receiptlog.PolicyLog) bool { return l.Key.String() == log.Key })
}

// closedAsListed checks that a closed generation serves the checkpoint that the list has.
func closedAsListed(log receiptlog.Generation, n newer) error {
	if final, closed := log.FinalCheckpoint(); closed && n.Checkpoint != final {
		return exitError{
			exitInvalid, fmt.Errorf("%s was closed with %d entries, and serves %d", log.Origin, final.Size, n.Size),
		}
	}
	return nil
}
