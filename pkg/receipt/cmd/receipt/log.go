package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// logFlags are --log, --log-policy, --log-list and --key, whose site listOfKey asks for the list of
// logs.
type logFlags struct{ proof, policy, list, key string }

func (f logFlags) validate() error {
	switch {
	case f.proof == "" && f.policy != "":
		return errors.New("--log-policy says how to judge a --log, and there is none")
	case f.proof == "" && f.list != "":
		return errors.New("--log-list says which logs there are for a --log, and there is none")
	case f.proof != "" && f.policy == "" && !strings.Contains(f.proof, "://"):
		return errors.New("a proof in a file needs a --log-policy")
	case f.proof == "-" || f.policy == "-" || f.list == "-":
		return errors.New("proof, policy and list cannot come from the standard input")
	}
	return nil
}

// logged is the proof that a log has a receipt, and the policy that judges it.
type logged struct {
	proof  []byte
	policy receiptlog.Policy
	own    bool // the log's own policy
}

// logReport is the outcome of --log, in the form of its JSON.
type logReport struct {
	State     string `json:"state"` // valid, not valid, not checked
	Origin    string `json:"origin,omitempty"`
	Index     int64  `json:"index"`
	Size      int64  `json:"size"`               // entries of the checkpoint
	Witnesses int    `json:"witnesses"`          // that saw it
	Of        int    `json:"of"`                 // witnesses of the policy
	Earliest  string `json:"earliest,omitempty"` // by when as many as the policy asks for saw it, RFC 3339
	OwnPolicy bool   `json:"ownPolicy"`          // judged by the log's own policy

	before string // cut-off of the key, when it was revoked later
}

// checkLog checks the signature together with the place in the log, which decides
// whether a key that was revoked later was still good.
func (r *report) checkLog(
	ctx context.Context, doc receipt.Document, trusted receipt.KeyDocument, asked logFlags,
) {
	key, err := doc.VerifySignature(trusted)
	revoked := errors.Is(err, receipt.ErrRevokedKey) && key.Logged != nil // without, no log makes it good
	if err != nil && !revoked {
		r.Signature = stateInvalid
		r.fail(exitInvalid, err)
		return
	}
	if !revoked {
		r.Signature, r.Key = stateValid, &key
	}
	found, err := readLog(ctx, asked, doc)
	if failed, ok := unread(err); ok {
		r.fail(failed.code, err)
		return
	}
	r.Log.State = stateInvalid
	var result receiptlog.Result
	if err == nil {
		result, err = receiptlog.Verify(doc, trusted, found.proof, found.policy)
	}
	switch {
	case errors.Is(err, receipt.ErrRevokedKey), errors.Is(err, receipt.ErrSignature):
		r.Signature = stateInvalid
		r.fail(exitInvalid, err)
		return
	case err != nil:
		r.fail(exitInvalid, fmt.Errorf("NOT LOGGED: %w", err))
		return
	}
	r.Signature, r.Key = stateValid, &result.Key
	r.Log = &logReport{
		State: stateValid, Origin: result.Origin, Index: result.Index, Size: result.Size,
		Witnesses: len(result.Cosignatures), Of: len(found.policy.Witnesses), OwnPolicy: found.own,
	}
	if at, ok := result.Earliest(); ok {
		r.Log.Earliest = at.Format(time.RFC3339)
	}
	if revoked {
		for _, cutOff := range result.Key.Logged.All() {
			if cutOff.Origin == result.Origin {
				r.Log.before = cutOff.Before
			}
		}
	}
}

// text returns what --log found, for people, without the end of the line.
func (l *logReport) text() string {
	if l.State != stateValid {
		return "Log:       " + l.State
	}
	text := fmt.Sprintf("Logged:    entry %d of %s, in a checkpoint of %d that ", l.Index, l.Origin, l.Size)
	if l.Earliest == "" {
		text += "no witness saw: it is only the log's own word"
	} else {
		text += fmt.Sprintf("%d of %d witnesses saw (earliest %s)", l.Witnesses, l.Of, l.Earliest)
	}
	if l.OwnPolicy {
		text += ", by the log's own policy"
	}
	text = printable(text)
	if l.before != "" {
		text += "\n           " + printable("its key was revoked later, from entry "+l.before+" on")
	}
	return text
}

// unread returns the exitError that err is or holds or, if there was no answer, one of exitNoKey. ok
// is false for all other errors.
func unread(err error) (failed exitError, ok bool) {
	var away *url.Error
	if !errors.As(err, &failed) && errors.As(err, &away) {
		failed = exitError{exitNoKey, err}
	}
	return failed, failed.err != nil
}

// notValid returns err with the exit code of a log that does not hold, unless unread has another for it.
func notValid(err error) error {
	if _, ok := unread(err); ok {
		return err
	}
	return exitError{exitInvalid, err}
}

// readLog gets proof, policy and list as the flags name them. An error for which unread returns false
// means that the receipt is not logged.
func readLog(ctx context.Context, asked logFlags, doc receipt.Document) (found logged, err error) {
	if asked.policy != "" {
		if found.policy, err = readPolicy(asked.policy); err != nil {
			return logged{}, exitError{exitNoKey, err}
		}
	}
	var list *receiptlog.Directory
	if strings.Contains(asked.proof, "://") {
		if found.proof, list, err = fetchProof(ctx, asked.proof, doc); err != nil {
			return logged{}, err
		}
		if asked.policy == "" {
			if found.policy, err = receiptlog.ParsePolicy([]byte(list.Policy)); err != nil {
				return logged{}, err
			}
			found.own = true
		}
	} else if found.proof, err = readFile(asked.proof, nil, receiptlog.MaxProof); err != nil {
		return logged{}, exitError{exitIO, err}
	}
	if asked.list != "" {
		list, err = readList(ctx, asked.list)
	} else if list == nil {
		list, err = listOfKey(ctx, asked.key, doc, found)
	}
	if list != nil {
		found.policy = found.policy.WithList(*list)
	}
	return found, err
}

func readList(ctx context.Context, from string) (*receiptlog.Directory, error) {
	if strings.Contains(from, "://") {
		_, list, err := fetchDirectory(ctx, from, trusted)
		if err != nil {
			return nil, exitError{exitNoKey, err}
		}
		return &list, nil
	}
	text, err := readFile(from, nil, receiptlog.MaxDirectory)
	if err != nil {
		return nil, exitError{exitIO, err}
	}
	list, err := receiptlog.ParseDirectory(text)
	if err != nil {
		return nil, exitError{exitNoKey, fmt.Errorf("%s: %w", from, err)}
	}
	return &list, nil
}

// listOfKey asks the site of the key for its list of logs if the policy accepts the proof's checkpoint
// and names several generations of its log, or the proof holds and is of a generation after the first.
// It returns nil where neither is so, or where key is no address.
func listOfKey(ctx context.Context, key string, doc receipt.Document, found logged) (*receiptlog.Directory, error) {
	included, unlisted := receiptlog.Included(doc, found.proof, found.policy)
	_, generation, _ := receiptlog.GenerationOf(included.Origin)
	site, err := url.Parse(key)
	if !errors.Is(unlisted, receiptlog.ErrUnlisted) && generation < 2 || err != nil || site.Host == "" {
		return nil, nil //nolint:nilnil // none is needed, or there is none
	}
	_, list, err := fetchDirectory(ctx, site.Scheme+"://"+site.Host, trusted)
	if err != nil {
		return nil, errors.Join(unlisted, fmt.Errorf("the list of the key's site, see --log-list: %w", err))
	}
	return &list, nil
}

func readPolicy(path string) (receiptlog.Policy, error) {
	text, err := readFile(path, nil, receiptlog.MaxPolicy)
	if err != nil {
		return receiptlog.Policy{}, err
	}
	policy, err := receiptlog.ParsePolicy(text)
	if err != nil {
		return receiptlog.Policy{}, fmt.Errorf("%s: %w", path, err)
	}
	return policy, nil
}

// fetchProof asks a verifier for the proof of a receipt, in each generation of its log from the
// first on, and returns it with the list of the logs. It does not check the proof.
func fetchProof(ctx context.Context, address string, doc receipt.Document) ([]byte, *receiptlog.Directory, error) {
	entry, err := receiptlog.EntryOf(doc)
	if err != nil {
		return nil, nil, err
	}
	site, directory, err := fetchDirectory(ctx, address, trusted)
	if err != nil {
		return nil, nil, err
	}
	unknown := errors.New("the verifier's log does not know the receipt")
	for generation, path := range directory.ProofPaths(entry.Leaf()) {
		site.Path = path
		status, data, err := get(ctx, site, trusted, "a log", receiptlog.MaxProof)
		switch {
		case err != nil:
			return nil, nil, err
		case status == http.StatusOK:
			return data, &directory, nil
		case status == http.StatusAccepted:
			unknown = fmt.Errorf("%s has the receipt and not yet a proof; try again in some seconds", generation.Origin)
		case status != http.StatusNotFound:
			return nil, nil, fmt.Errorf("%s answers %d %s", site.Redacted(), status, http.StatusText(status))
		}
	}
	return nil, nil, unknown
}

// fetchDirectory asks the verifier at an address for the list of its logs, and returns the list
// and its URL.
func fetchDirectory(
	ctx context.Context, address string, allowed func(*url.URL) bool,
) (*url.URL, receiptlog.Directory, error) {
	none := receiptlog.Directory{}
	site, err := url.Parse(address)
	if err != nil || site.Path != "" && site.Path != "/" {
		return nil, none, usage("not the address of a verifier, such as https://verifier.example.com")
	}
	site.Path = receiptlog.DirectoryPath
	status, data, err := get(ctx, site, allowed, "a log", receiptlog.MaxDirectory)
	if err != nil {
		return nil, none, err
	}
	if status != http.StatusOK {
		return nil, none, fmt.Errorf("%s answers %d: the verifier has no log", site.Redacted(), status)
	}
	directory, err := receiptlog.ParseDirectory(data)
	return site, directory, err
}

func logCommand(ctx context.Context, args []string, s streams) error {
	commands := map[string]func(context.Context, []string, streams) error{
		"get": logGet, "key": logKey, "check": logCheck, "mirror": logMirror,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return usage("log: get, key, check or mirror; see receipt --help")
	}
	return commands[args[0]](ctx, args[1:], s)
}

// logGet prints the proof of a receipt, after checking it by the log's own policy.
func logGet(ctx context.Context, args []string, s streams) error {
	files, err := parse(flag.NewFlagSet("log get", flag.ContinueOnError), args, 2)
	if err != nil {
		return err
	}
	data, err := readFile(files[0], s.in, receipt.MaxSize)
	if err != nil {
		return err
	}
	doc, err := receipt.Parse(data)
	if err != nil {
		return exitError{exitInvalid, err}
	}
	proof, list, err := fetchProof(ctx, files[1], doc)
	var policy receiptlog.Policy
	if err == nil {
		policy, err = receiptlog.ParsePolicy([]byte(list.Policy))
	}
	if err == nil {
		_, err = receiptlog.Included(doc, proof, policy.WithList(*list))
	}
	if failed, ok := unread(err); ok {
		return failed
	}
	if err != nil {
		return exitError{exitInvalid, fmt.Errorf("NOT LOGGED: %w", err)}
	}
	_, err = s.out.Write(proof)
	return err
}
