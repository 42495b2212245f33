package picture

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

// Errors of a file.
var (
	// ErrFormat: the file is no PNG, JPEG or WebP picture, or a JPEG in the inks of a printer (CMYK).
	ErrFormat   = errors.New("file is not a PNG, JPEG or WebP picture")
	ErrTooLarge = errors.New("picture is too large")
)

// Options are the bounds of an Encoder and the form of what it returns. All are required unless noted.
type Options struct {
	// MaxBytes bounds a file, MaxSide the width and the height in its header, and MaxPixels their product; 0:
	// MaxSide alone does.
	MaxBytes, MaxSide, MaxPixels int
	// Side is the width and height of the pictures returned.
	Side int
	// MaxEncoded bounds a returned picture, in bytes. One that is larger is scaled down, as long as its side is at
	// least 64 pixels; ErrTooLarge if none fits.
	MaxEncoded int
	// Crop cuts what is wider or higher than a square; else the rest of the square is transparent, or white in a
	// JPEG.
	Crop bool
	// JPEG: pictures are returned as JPEG; else as PNG.
	JPEG bool
}

// Encoder encodes pictures, one at a time. It is safe for concurrent use.
type Encoder struct {
	Options
	turn chan struct{}
}

// New returns an Encoder.
func New(o Options) *Encoder { return &Encoder{o, make(chan struct{}, 1)} }

// maxLossless bounds a lossless WebP, and one with an alpha channel, in bytes. Each byte of its Huffman codes can take
// 280 of memory, whatever its width and height.
const maxLossless = 256 << 10

// mayBeLossless reports whether a file is a WebP with the name of a lossless chunk, which its data may have by chance.
func mayBeLossless(file []byte) bool {
	return string(file[8:12]) == "WEBP" &&
		(bytes.Contains(file, []byte("VP8L")) || bytes.Contains(file, []byte("ALPH")))
}

// maxScans bounds the scans of a JPEG: each can be of a few bytes, and goes through all pixels. Usual are up to 11.
const maxScans = 100

// scansOf returns how many scans a JPEG has at most; 0 for a file of another format.
func scansOf(file []byte) int {
	if !bytes.HasPrefix(file, []byte("\xff\xd8")) {
		return 0
	}
	return bytes.Count(file, []byte("\xff\xda"))
}

// minSide is the least side, in pixels, of a picture that is scaled down to fit.
const minSide = 64

// Encode returns the picture of a file, square. ErrFormat, ErrTooLarge; the error of ctx if it ends while another
// picture is encoded.
func (e *Encoder) Encode(ctx context.Context, file []byte) ([]byte, error) {
	if len(file) > e.MaxBytes {
		return nil, ErrTooLarge
	}
	f, ok := formatOf(file)
	if !ok {
		return nil, ErrFormat
	}
	if len(file) > maxLossless && mayBeLossless(file) || scansOf(file) > maxScans {
		return nil, ErrTooLarge
	}
	header, err := f.header(bytes.NewReader(file))
	switch {
	case err != nil || header.Width < 1 || header.Height < 1,
		header.ColorModel == color.CMYKModel: // it takes twice the memory of any other
		return nil, ErrFormat
	case header.Width > e.MaxSide || header.Height > e.MaxSide,
		e.MaxPixels > 0 && header.Width*header.Height > e.MaxPixels:
		return nil, ErrTooLarge
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	decoded, err := f.decode(bytes.NewReader(file))
	if err != nil {
		return nil, ErrFormat
	}
	turned := upright(decoded, jpegOrientation(file))
	for side := e.Side; side >= minSide; side = side * 3 / 4 {
		encoded, err := e.encode(square(turned, side, e.Crop))
		if err != nil {
			return nil, err
		}
		if len(encoded) <= e.MaxEncoded {
			return encoded, nil
		}
	}
	return nil, ErrTooLarge
}

func (e *Encoder) encode(m *image.NRGBA) ([]byte, error) {
	var b bytes.Buffer
	if !e.JPEG {
		encoder := png.Encoder{CompressionLevel: png.BestCompression}
		err := encoder.Encode(&b, m)
		return b.Bytes(), err
	}
	onWhite := image.NewRGBA(m.Bounds())
	draw.Draw(onWhite, m.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(onWhite, m.Bounds(), m, image.Point{}, draw.Over)
	err := jpeg.Encode(&b, onWhite, &jpeg.Options{Quality: 85})
	return b.Bytes(), err
}

// square returns a picture scaled into a square.
func square(m image.Image, side int, crop bool) *image.NRGBA {
	out := image.NewNRGBA(image.Rect(0, 0, side, side))
	from, to := m.Bounds(), out.Bounds()
	width, height := from.Dx(), from.Dy()
	switch {
	case crop && width > height:
		from.Min.X += (width - height) / 2
		from.Max.X = from.Min.X + height
	case crop:
		from.Min.Y += (height - width) / 2
		from.Max.Y = from.Min.Y + width
	case width > height:
		to = middle(to, side, max(1, side*height/width))
	default:
		to = middle(to, max(1, side*width/height), side)
	}
	draw.CatmullRom.Scale(out, to, m, from, draw.Src, nil)
	return out
}

// middle returns a rectangle of a size in the middle of another.
func middle(r image.Rectangle, width, height int) image.Rectangle {
	at := image.Pt((r.Dx()-width)/2, (r.Dy()-height)/2)
	return image.Rectangle{at, at.Add(image.Pt(width, height))}
}

// format is a kind of picture file. image.Decode would accept any that some package has registered.
type format struct {
	header func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

func formatOf(file []byte) (format, bool) {
	switch {
	case bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")):
		return format{png.DecodeConfig, png.Decode}, true
	case bytes.HasPrefix(file, []byte("\xff\xd8\xff")):
		return format{jpeg.DecodeConfig, jpeg.Decode}, true
	case len(file) > 12 && string(file[:4]) == "RIFF" && string(file[8:12]) == "WEBP":
		return format{webp.DecodeConfig, webp.Decode}, true
	}
	return format{}, false
}
