package httpapi

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

// Cache-Control of what the log serves. A full tile never changes.
const (
	cacheCheckpoint = "max-age=2"
	cacheFull       = "max-age=31536000, immutable"
	cachePartial    = "max-age=3600"
	cacheProof      = "max-age=60"
)

// maxTileElements is how many elements the number of a tile has at most: five groups of
// digits, and the width of a partial one.
const maxTileElements = 6

const (
	textPlain = "text/plain; charset=utf-8"
	// tileType is of tiles and bundles of entries. They are not compressed: tiles are hashes, which do
	// not get smaller.
	tileType = "application/octet-stream"
)

// logPages returns the handlers of the log of receipts (C2SP tlog-tiles), by path. They need no payment.
func (a *api) logPages() map[string]echo.HandlerFunc {
	pages := map[string]echo.HandlerFunc{
		receiptlog.DirectoryPath:   a.logDirectory,
		"/v1/log/:log/checkpoint":  a.logCheckpoint,
		"/v1/log/:log/proof/:leaf": a.logProof,
	}
	path := "/v1/log/:log/tile/:level"
	for n := range maxTileElements { // a route matches paths of as many elements as it has
		path += "/:n" + strconv.Itoa(n)
		pages[path] = a.logTile
	}
	for path, page := range pages {
		pages[path] = func(c echo.Context) error {
			if a.Receipts == nil {
				return errNoLog
			}
			return page(c)
		}
	}
	return pages
}

// freeReads bounds how many free requests read the store at once, so that connections of the database
// are left to purchases. It has an element for each of them that reads now.
type freeReads chan struct{}

func newFreeReads() freeReads { return make(freeReads, 4) }

// read calls the function as soon as the bound allows, and returns what it returns. An error that has
// no answer in failures is joined with errUnread, also where the request's time ends before the call.
func (f freeReads) read(
	ctx context.Context, read func(context.Context) ([]byte, error),
) (text []byte, err error) {
	select {
	case f <- struct{}{}:
		defer func() { <-f }()
		text, err = read(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && service.Find(failures, err, internal) == internal {
		err = errors.Join(errUnread, err)
	}
	return text, err
}

// generation returns the number of the log's generation in the path. translog.ErrNothing: it is not a number
// from 1 on, in decimal digits without zeros before it.
func generation(c echo.Context) (int64, error) {
	n, err := strconv.ParseInt(c.Param("log"), 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != c.Param("log") {
		return 0, translog.ErrNothing
	}
	return n, nil
}

// served returns an answer 200; cache is its Cache-Control.
func served(cache, mediaType string, body []byte) answer {
	return answer{http.StatusOK, http.Header{"Cache-Control": {cache}}, mediaType, body}
}

func (a *api) logDirectory(c echo.Context) error {
	list, err := a.logReads.read(c.Request().Context(), a.Receipts.Directory)
	if err != nil {
		return err
	}
	return page(receipt.MediaTypeJSON, list)(c)
}

func (a *api) logCheckpoint(c echo.Context) error {
	log, err := generation(c)
	if err != nil {
		return err
	}
	note, err := a.logReads.read(c.Request().Context(), func(ctx context.Context) ([]byte, error) {
		return a.Receipts.Checkpoint(ctx, log)
	})
	if err != nil {
		return err
	}
	return served(cacheCheckpoint, textPlain, note).write(c)
}

func (a *api) logTile(c echo.Context) error {
	log, err := generation(c)
	if err != nil {
		return err
	}
	_, path, _ := strings.Cut(c.Request().URL.Path, "/tile/")
	tile, err := receiptlog.ParseTile("tile/" + path)
	if err != nil {
		return translog.ErrNothing
	}
	data, err := a.logReads.read(c.Request().Context(), func(ctx context.Context) ([]byte, error) {
		return a.Receipts.Tile(ctx, log, tile)
	})
	if err != nil {
		return err
	}
	cache := cachePartial
	if tile.Width == receiptlog.BundleSize {
		cache = cacheFull
	}
	return served(cache, tileType, data).write(c)
}

func (a *api) logProof(c echo.Context) error {
	log, err := generation(c)
	if err != nil {
		return err
	}
	var leaf [32]byte
	text := c.Param("leaf")
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(leaf) || hex.EncodeToString(data) != text {
		return translog.ErrUnknownLeaf
	}
	proof, err := a.logReads.read(c.Request().Context(), func(ctx context.Context) ([]byte, error) {
		return a.Receipts.Proof(ctx, log, [32]byte(data))
	})
	if err != nil {
		return err
	}
	return served(cacheProof, textPlain, proof).write(c)
}
