package application

import "context"

// Proxy is what a proxy that asks for the routes reports of itself.
type Proxy struct {
	ID string
	// Apps is its setting APPS: lan or containers. TLS is how it gets certificates: off or empty if it gets none.
	Apps, TLS string
	// Have is the ETag of the list that it serves.
	Have string
	// Skipped has the reason why it does not serve, or not reach, an entry of that list, by slug.
	Skipped map[string]string
	// Certified are the slugs of the applications for whose host it has a certificate.
	Certified []string
	// Named are the addresses, names and networks that its operator permits beside those of Apps.
	Named []string
}

// Probe is the question whether something answers at an internal address, and its answer.
type Probe struct {
	ID string
	To string // as ParseUpstream returns it
	// Status is that of the answer, or 0. Error is why there is none: refused, timeout, name, address, tls or failed.
	Status int
	Error  string
	MS     int    // how many milliseconds it took
	Pin    string // the key seen, as Route.Pin
}

// Answered reports whether a proxy has answered.
func (p Probe) Answered() bool { return p.Status != 0 || p.Error != "" }

// Good reports whether an application answers, if only to ask for a login.
func (p Probe) Good() bool {
	return p.Status >= 200 && p.Status < 400 || p.Status == 401 || p.Status == 403
}

// Proxies keeps what proxies report, for 10 s, and probes, for 30 s.
type Proxies interface {
	// Report keeps what a proxy reports of itself and its answers to probes, and returns the probes that no proxy has
	// answered.
	Report(ctx context.Context, p Proxy, answers []Probe) ([]Probe, error)
	// Proxies returns the proxies that have reported within the last 10 s, by ID, at most 32.
	Proxies(ctx context.Context) ([]Proxy, error)
	// Ask has the proxies try an address, unless there is a probe with this ID.
	Ask(ctx context.Context, p Probe) error
	// Probe returns a probe; the zero value when there is none.
	Probe(ctx context.Context, id string) (Probe, error)
}
