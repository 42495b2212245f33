package beacon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

const (
	// maxAnswer bounds an answer in bytes. An update with its committee has 60 KB.
	maxAnswer = 1 << 20
	// maxFault is how many bytes are kept of the text of an error about an answer that cannot be
	// parsed: the text may quote the answer, and is logged with each try.
	maxFault = 200
	// DefaultTimeout bounds an exchange where Open is given no timeout.
	DefaultTimeout = 5 * time.Second
)

// Node is one beacon node, or one provider's balancer.
type Node struct {
	name, url string
	timeout   time.Duration
	http      *http.Client
}

var _ chain.BeaconNode = (*Node)(nil)

// Open returns the node at an address. timeout bounds each exchange; 0 is DefaultTimeout.
func Open(address string, timeout time.Duration) (*Node, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("the URL of a beacon node cannot be parsed") // it may hold a key
	}
	timeout = cmp.Or(timeout, DefaultTimeout)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: timeout}).DialContext
	transport.MaxIdleConnsPerHost = 4
	transport.MaxResponseHeaderBytes = 64 << 10
	return &Node{name: u.Host, url: address, timeout: timeout, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Name implements chain.BeaconNode.
func (n *Node) Name() string { return n.name }

func (n *Node) get(ctx context.Context, path string) ([]byte, error) {
	what, _, _ := strings.Cut(path, "?")
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("%s: %s: %w", n.name, what, err) }
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	// A query of the address, such as a key, goes after that of the path.
	address, query, _ := strings.Cut(n.url, "?")
	address = strings.TrimRight(address, "/") + path
	if query != "" {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		address += separator + query
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fail(errors.New("create the request"))
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pforte-verifier")
	response, err := n.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fail(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return fail(chain.ErrNoBeaconData)
	case response.StatusCode != http.StatusOK:
		return fail(fmt.Errorf("status %d", response.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fail(err)
	case len(body) > maxAnswer:
		return fail(fmt.Errorf("the answer is larger than %d bytes", maxAnswer))
	}
	return body, nil
}

// read requests a path and parses the answer. What parse returns as an error is cut to maxFault.
func read[T any](ctx context.Context, n *Node, path string, parse func([]byte) (T, error)) (T, error) {
	body, err := n.get(ctx, path)
	if err != nil {
		var none T
		return none, err
	}
	value, err := parse(body)
	if err != nil {
		if text := err.Error(); len(text) > maxFault {
			err = errors.New(strings.ToValidUTF8(text[:maxFault], "") + "…")
		}
		return value, fmt.Errorf("%s: %s: %w", n.name, path, err)
	}
	return value, nil
}

// Genesis implements chain.BeaconNode.
func (n *Node) Genesis(ctx context.Context) (chain.BeaconGenesis, error) {
	return read(ctx, n, "/eth/v1/beacon/genesis", func(body []byte) (g chain.BeaconGenesis, err error) {
		var answer struct {
			Data struct {
				Time string        `json:"genesis_time"`
				Root finality.Root `json:"genesis_validators_root"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return g, errors.New("not the JSON of a genesis")
		}
		seconds, err := strconv.ParseInt(answer.Data.Time, 10, 64)
		if err != nil || seconds < 0 {
			return g, errors.New("genesis_time is not a number")
		}
		return chain.BeaconGenesis{Time: time.Unix(seconds, 0).UTC(), ValidatorsRoot: answer.Data.Root}, nil
	})
}

// Spec implements chain.BeaconNode.
func (n *Node) Spec(ctx context.Context) (map[string]string, error) {
	return read(ctx, n, "/eth/v1/config/spec", func(body []byte) (map[string]string, error) {
		var answer struct {
			Data map[string]json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return nil, errors.New("not the JSON of a specification")
		}
		spec := map[string]string{}
		for name, value := range answer.Data {
			var text string
			if json.Unmarshal(value, &text) == nil { // some are lists
				spec[name] = text
			}
		}
		return spec, nil
	})
}

// FinalityUpdate implements chain.BeaconNode.
func (n *Node) FinalityUpdate(ctx context.Context) (*lightclient.Update, error) {
	return read(ctx, n, "/eth/v1/beacon/light_client/finality_update", lightclient.ParseFinalityUpdate)
}

// Update implements chain.BeaconNode. It asks for one period at a time: some nodes answer a
// range that reaches into the future with an error.
func (n *Node) Update(ctx context.Context, period uint64) (*lightclient.Update, error) {
	path := fmt.Sprintf("/eth/v1/beacon/light_client/updates?start_period=%d&count=1", period)
	updates, err := read(ctx, n, path, lightclient.ParseUpdates)
	switch {
	case err != nil:
		return nil, err
	case len(updates) == 0:
		return nil, fmt.Errorf("%s: the update of period %d: %w", n.name, period, chain.ErrNoBeaconData)
	case len(updates) > 1:
		return nil, fmt.Errorf("%s: %d updates of period %d", n.name, len(updates), period)
	}
	return updates[0], nil
}

// Bootstrap implements chain.BeaconNode.
func (n *Node) Bootstrap(ctx context.Context, root finality.Root) (*lightclient.Bootstrap, error) {
	return read(ctx, n, "/eth/v1/beacon/light_client/bootstrap/"+root.String(), lightclient.ParseBootstrap)
}
