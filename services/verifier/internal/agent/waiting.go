package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// maxWaiting bounds how many questions wait to be bought.
const maxWaiting = 100

var (
	errWaitAndConfirm = &strictjson.Error{
		Pointer: "/wait", Reason: "cannot be with --confirm, which asks at each payment",
	}
	errManyWait = fmt.Errorf("%d questions wait already; nothing was signed", maxWaiting)
)

// waiting is the folder of the questions that wait until their transaction is final, one file each, so that a
// later process waits for them too.
type waiting string

type waitingQuestion struct {
	Path string `json:"path"`
	Body string `json:"body"`
	// Chain is the id of the chain of the payment that the question is about, "" if it is about none.
	Chain    string `json:"chain,omitempty"`
	Transfer bool   `json:"transfer,omitempty"`
}

func (t waitingQuestion) question() question {
	return question{path: t.Path, body: t.Body, chain: t.Chain, aboutTransfer: t.Transfer}
}

// add keeps a question under a name. It returns errManyWait if the name is new and maxWaiting questions are
// there.
func (w waiting) add(name string, q question) error {
	all, err := w.all()
	if err != nil {
		return err
	}
	if _, there := all[name]; !there && len(all) >= maxWaiting {
		return errManyWait
	}
	text, err := json.Marshal(waitingQuestion{q.path, q.body, q.chain, q.aboutTransfer})
	if err != nil {
		return fmt.Errorf("write a question that waits: %w", err)
	}
	return replaceFile(filepath.Join(string(w), name+".json"), text)
}

// drop removes the question of a name, if there is one.
func (w waiting) drop(name string) error {
	err := os.Remove(filepath.Join(string(w), name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// all returns the questions that wait, by name.
func (w waiting) all() (map[string]waitingQuestion, error) {
	files, err := filepath.Glob(filepath.Join(string(w), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("read the questions that wait: %w", err)
	}
	all := make(map[string]waitingQuestion, len(files))
	for _, file := range files {
		text, err := readFile(file)
		if err == nil && text == nil {
			continue // another process has bought it
		}
		var one waitingQuestion
		if err == nil {
			err = json.Unmarshal(text, &one)
		}
		if err != nil {
			return nil, fmt.Errorf("read a question that waits, %s: %w", file, err)
		}
		name := filepath.Base(file)
		all[name[:len(name)-len(".json")]] = one
	}
	return all, nil
}

// buyWaiting tries to buy each question that waits, again and again, until ctx ends.
func (t *toolbox) buyWaiting(ctx context.Context) {
	next := map[string]time.Time{}
	for {
		all, err := t.waiting.all()
		if err != nil {
			t.print("%v", err)
		}
		pause := longestLook
		for name, one := range all {
			if left := time.Until(next[name]); left > 0 {
				pause = min(pause, left)
				continue
			}
			after := t.buyWaited(ctx, name, one.question())
			next[name] = time.Now().Add(after)
			pause = min(pause, after)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.added:
		case <-time.After(max(pause, time.Second)):
		}
	}
}

// buyWaited buys one question if it can be bought, and returns after how long it is worth another look. It drops
// the question when the answer is there, also one that does not hold, or when the seller answers what will not change
// by itself. A payment that the seller refused and could still settle, or for which it gave such an answer, stays in
// the journal, and asking again sends it; if the question waited on, a new one would be signed each time that it has
// expired. After other errors the question waits on.
func (t *toolbox) buyWaited(ctx context.Context, name string, q question) time.Duration {
	_, err := t.buyOnce(ctx, q, nil)
	var early *tooEarly
	if errors.As(err, &early) {
		if after, may := early.mayChange(); may {
			return after
		}
	}
	if errors.Is(err, errReceipt) {
		t.print("%v", err)
	}
	var refused *refusal
	switch {
	case err == nil, early != nil, errors.Is(err, errReceipt), errors.As(err, &refused) && !refused.mayChange():
		if err := t.waiting.drop(name); err != nil {
			t.print("%v", err)
		}
	default:
		t.print("Not bought yet: %v.", err)
	}
	return longestLook
}

// waitsAnswer is the structured content of a call with wait whose question waits.
type waitsAnswer struct {
	Waiting bool   `json:"waiting"`
	Status  string `json:"status"`
	// FinalInSeconds is the seller's estimate; 0 means unknown.
	FinalInSeconds int    `json:"finalInSeconds,omitempty"`
	Paid           string `json:"paid"`
}
