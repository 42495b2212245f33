package pages

import (
	"fmt"
	"html/template"
	"strings"

	"rsc.io/qr"
)

// quiet is the white border of a QR code, in modules (ISO/IEC 18004).
const quiet = 4

// QR returns a text as a QR code in SVG, dark on white in both themes, because readers
// expect that. label is its text alternative.
func QR(text, label string) (template.HTML, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", fmt.Errorf("pages: QR code: %w", err)
	}
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			width := 0
			for x+width < code.Size && code.Black(x+width, y) {
				width++
			}
			if width > 0 {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", x+quiet, y+quiet, width, width)
				x += width
			}
		}
	}
	size := code.Size + 2*quiet
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers, and a label that is escaped
		`<svg xmlns="http://www.w3.org/2000/svg" class="qr" viewBox="0 0 %d %d" role="img" aria-label="%s"><rect `+
			`width="%d" height="%d" fill="#fff"/><path d="%s" fill="#000" shape-rendering="crispEdges"/></svg>`,
		size, size, template.HTMLEscapeString(label), size, size, path.String())), nil
}
