package suite

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// lateNode stands before a node and takes its time for each answer.
type lateNode struct {
	*httptest.Server
	// evidence counts the requests that ask for more than the chain's heads,
	// which the verifier looks at all the time.
	evidence atomic.Int64
}

func newLateNode(node string, delay time.Duration) *lateNode {
	n := &lateNode{}
	target, _ := url.Parse(node) // an address of our own
	proxy := httputil.NewSingleHostReverseProxy(target)
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		for _, method := range []string{"getTransactionBy", "getTransactionReceipt", "getBlockReceipts", "getBlockByHash"} {
			if bytes.Contains(body, []byte(method)) {
				n.evidence.Add(1)
				break
			}
		}
		time.Sleep(delay)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	return n
}
