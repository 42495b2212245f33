package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	notifyQueue   = 100             // how many notifications wait at most
	notifyTries   = 3               // how often one is tried at most
	notifyTimeout = 5 * time.Second // of one try
	drainTimeout  = 5 * time.Second // of Drain
)

// notifyPauses are the pauses after the tries but the last.
var notifyPauses = [notifyTries - 1]time.Duration{time.Second, 5 * time.Second}

// What became of a notification.
const (
	NotificationSent    = "sent"
	NotificationFailed  = "failed"
	NotificationDropped = "dropped"
)

// NotifyTarget is where notifications are sent.
type NotifyTarget struct {
	url  string
	text bool // notifications are sent as text, for ntfy; else as JSON
}

// ParseNotifyTarget parses the address of a webhook, https://… or http://…, which gets JSON,
// or of a topic of ntfy, ntfy+https://… or ntfy+http://…, which gets text. Its errors do
// not contain the address: who knows it can send and, with ntfy, read.
func ParseNotifyTarget(s string) (NotifyTarget, error) {
	address, text := strings.CutPrefix(s, "ntfy+")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Fragment != "" ||
		text && strings.Trim(u.Path, "/") == "" {
		return NotifyTarget{}, errors.New("is neither [ntfy+]https://host/path nor [ntfy+]http://host/path; ntfy's " +
			"path names the topic")
	}
	return NotifyTarget{url: address, text: text}, nil
}

// NotifierOptions are the parts of a Notifier. All are required but Target and Events.
type NotifierOptions struct {
	Target NotifyTarget // zero: nothing is sent
	// Events are the names of the events to notify of, out of Notifiable.
	Events    []string
	Transport http.RoundTripper
	// Count is called once for each notification with what became of it, also by several
	// goroutines at once.
	Count func(outcome string)
	Log   *slog.Logger
}

// Notifier sends notifications of events, one after the other. Those that wait when the
// process is killed are lost; the audit has the events.
type Notifier struct {
	NotifierOptions
	client *http.Client
	queue  chan Entry
}

// NewNotifier checks the options and returns a Notifier.
func NewNotifier(o NotifierOptions) (*Notifier, error) {
	if o.Transport == nil || o.Count == nil || o.Log == nil {
		return nil, errors.New("audit: Transport, Count or Log is not set")
	}
	for _, name := range o.Events {
		if acts[name].notify == nil {
			return nil, fmt.Errorf("there is no notification of %q", name)
		}
	}
	// A redirect would send the notification to an address that is not configured.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Notifier{
		NotifierOptions: o, queue: make(chan Entry, notifyQueue),
		client: &http.Client{Transport: o.Transport, Timeout: notifyTimeout, CheckRedirect: stay},
	}, nil
}

// Observe queues the notification of an event, if it is one of Events. It does not wait: when
// the queue is full the notification is dropped.
func (n *Notifier) Observe(e Entry) {
	if n.Target.url == "" || !slices.Contains(n.Events, e.Event.Name) {
		return
	}
	select {
	case n.queue <- e:
	default:
		n.Count(NotificationDropped)
	}
}

// Run sends what is queued until ctx ends. Drain does the rest.
func (n *Notifier) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case e := <-n.queue:
			n.deliver(ctx, e)
		}
	}
}

// Drain tries once to send each that is queued, and drops those left when ctx ends or after drainTimeout.
func (n *Notifier) Drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		select {
		case e := <-n.queue:
			if ctx.Err() != nil {
				n.Count(NotificationDropped)
				continue
			}
			_, err := n.send(ctx, e)
			n.finish(ctx, e, err)
		default:
			return
		}
	}
}

// deliver sends a notification until it is accepted or refused for good, at most notifyTries
// times. When ctx ends it finishes the try under way and makes no other.
func (n *Notifier) deliver(ctx context.Context, e Entry) {
	again, err := n.send(context.WithoutCancel(ctx), e)
	for _, pause := range notifyPauses {
		if !again {
			break
		}
		select {
		case <-ctx.Done():
			n.finish(ctx, e, err)
			return
		case <-time.After(pause):
		}
		again, err = n.send(context.WithoutCancel(ctx), e)
	}
	n.finish(ctx, e, err)
}

func (n *Notifier) finish(ctx context.Context, e Entry, err error) {
	if err != nil {
		n.Log.WarnContext(ctx, "notification failed", "event", e.Event.Name, "error", err)
		n.Count(NotificationFailed)
		return
	}
	n.Count(NotificationSent)
}

// notification is the body of a request to a webhook.
type notification struct {
	Event     string `json:"event"`
	At        string `json:"at"`
	Text      string `json:"text"` // German
	User      string `json:"user"` // whom it concerns
	ActorKind Kind   `json:"actor_kind"`
	Actor     string `json:"actor"`
	IP        string `json:"ip"`
	Agent     string `json:"agent"`
}

// send sends a notification once and reports whether another try may succeed.
func (n *Notifier) send(ctx context.Context, e Entry) (again bool, err error) {
	text := acts[e.Event.Name].notify(e)
	body, mediaType := []byte(text), "text/plain; charset=utf-8"
	if !n.Target.text {
		mediaType = "application/json"
		body, err = json.Marshal(notification{
			Event: e.Event.Name, At: e.At.UTC().Format(time.RFC3339), Text: text, User: e.SubjectName,
			ActorKind: e.Kind, Actor: e.Actor.Name, IP: e.IP, Agent: e.Agent,
		})
	}
	if err != nil {
		return false, fmt.Errorf("encode notification: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Target.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("address is malformed")
	}
	r.Header.Set("Content-Type", mediaType)
	r.Header.Set("User-Agent", "pforte-auth")
	if n.Target.text {
		r.Header.Set("Title", "Pforte")
	}
	response, err := n.client.Do(r)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err // the address is a secret
		}
		return true, err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection is used again
	if response.StatusCode/100 == 2 {
		return false, nil
	}
	again = response.StatusCode/100 == 5 || response.StatusCode == http.StatusTooManyRequests ||
		response.StatusCode == http.StatusRequestTimeout
	return again, fmt.Errorf("answered with status %d", response.StatusCode)
}
