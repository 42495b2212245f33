// Package highlighting takes the place of github.com/yuin/goldmark-highlighting in the proxy. Caddy's file server
// brings that package for code in Markdown that its templates show; it would read some 280 definitions of languages
// and their colours at each start. Such code is shown without colours.
package highlighting

import (
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark"
)

// Option changes nothing.
type Option struct{}

// WithFormatOptions returns an option that changes nothing.
func WithFormatOptions(...chromahtml.Option) Option { return Option{} }

type uncoloured struct{}

func (uncoloured) Extend(goldmark.Markdown) {}

// NewHighlighting returns an extension that leaves code as Goldmark shows it.
func NewHighlighting(...Option) goldmark.Extender { return uncoloured{} }
