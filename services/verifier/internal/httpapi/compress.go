package httpapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"
)

// What compressing answers may cost. An answer of up to minCompressed bytes leaves in the first
// flight of a TCP connection (RFC 6928), so that compressing it saves its reader no time. Buyers
// get an answer again for nothing, so for all clients together at most compressedASecond answers a second
// are compressed on average, and compressedAtOnce at once. Others are sent as they are.
const (
	minCompressed     = 14 << 10
	compressedASecond = 50
	compressedAtOnce  = 2
)

// compressor compresses answers within the bounds above.
type compressor struct {
	places  chan struct{}
	allowed *rate.Limiter
	writers sync.Pool
}

func newCompressor() *compressor {
	return &compressor{
		places: make(chan struct{}, compressedAtOnce), allowed: rate.NewLimiter(compressedASecond, compressedASecond),
		writers: sync.Pool{New: func() any {
			w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one of the package's
			return w
		}},
	}
}

// compressorKey is the key in the context under which answers find the compressor.
const compressorKey = "compressor"

// use is middleware by which answer.write finds the compressor.
func (z *compressor) use(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set(compressorKey, z)
		return next(c)
	}
}

// compress returns the body, compressed where the client accepts gzip, the bounds allow it and it
// gets smaller. It sets the headers that say so.
func (z *compressor) compress(h http.Header, accepted []string, body []byte) []byte {
	if len(body) <= minCompressed || h.Get(echo.HeaderContentEncoding) != "" {
		return body
	}
	h.Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if !acceptsGzip(accepted) {
		return body
	}
	select {
	case z.places <- struct{}{}:
		defer func() { <-z.places }()
	default:
		return body
	}
	if !z.allowed.Allow() {
		return body
	}
	w, _ := z.writers.Get().(*gzip.Writer) // New makes nothing else
	defer z.writers.Put(w)
	var packed bytes.Buffer
	w.Reset(&packed)
	_, _ = w.Write(body) // to memory
	_ = w.Close()
	if packed.Len() >= len(body) {
		return body
	}
	h.Set(echo.HeaderContentEncoding, "gzip")
	if etag := h.Get("Etag"); etag != "" { // a strong one is of other bytes
		h.Set("Etag", "W/"+etag)
	}
	return packed.Bytes()
}

// onePacket is up to how many bytes a document is not compressed: it leaves in one packet anyway.
const onePacket = 1400

// document is [page], which also has the body compressed, if it is larger than onePacket. It is
// compressed here, at a level of package gzip.
func document(mediaType string, body []byte, level int) echo.HandlerFunc {
	if len(body) <= onePacket {
		return page(mediaType, body)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, level) // one of the package's
	_, _ = w.Write(body)                        // to memory
	_ = w.Close()
	plain, compressed := page(mediaType, body), page(mediaType, packed.Bytes())
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
		if !acceptsGzip(c.Request().Header.Values(echo.HeaderAcceptEncoding)) {
			return plain(c)
		}
		h.Set(echo.HeaderContentEncoding, "gzip")
		return compressed(c)
	}
}
