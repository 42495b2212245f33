package picture_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/picture"
)

var icons = picture.New(picture.Options{MaxBytes: 256 << 10, MaxSide: 1024, Side: 192, MaxEncoded: 64 << 10})

// drawn returns a red picture whose upper left quarter is blue.
func drawn(width, height int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.Set(x, y, color.NRGBA{R: 255, A: 255})
			if x < width/2 && y < height/2 {
				m.Set(x, y, color.NRGBA{B: 255, A: 255})
			}
		}
	}
	return m
}

func asPNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asJPEG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encoded returns the picture of a file.
func encoded(t testing.TB, e *picture.Encoder, file []byte) image.Image {
	t.Helper()
	out, err := e.Encode(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := image.Decode(bytes.NewReader(out))
	if err != nil || len(out) > e.MaxEncoded {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	return m
}

// at returns what colour a point of a picture mostly is, in parts of its size: red, blue, none.
func at(m image.Image, x, y float64) string {
	r, _, b, a := m.At(int(x*float64(m.Bounds().Dx())), int(y*float64(m.Bounds().Dy()))).RGBA()
	switch {
	case a < 0x8000:
		return "none"
	case r > b:
		return "red"
	}
	return "blue"
}

// One pixel in lossy WebP, which the standard library cannot write.
const webp = "UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vv9UAA="

func TestPicture_IsSquareAndEncodedAnew(t *testing.T) {
	small, err := base64.StdEncoding.DecodeString(webp)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"PNG": asPNG(t, drawn(500, 300)), "JPEG": asJPEG(t, drawn(300, 500)), "WebP": small, "one pixel": asPNG(t, drawn(1, 1)), "a line": asPNG(t, drawn(1024, 1)),
	} {
		if m := encoded(t, icons, file); m.Bounds() != image.Rect(0, 0, 192, 192) {
			t.Errorf("%s: %v", name, m.Bounds())
		}
	}
	m := encoded(t, icons, asPNG(t, drawn(500, 250)))
	if got := at(m, .5, .1) + at(m, .2, .3) + at(m, .8, .3) + at(m, .2, .7) + at(m, .5, .9); got != "nonebluered"+"rednone" {
		t.Errorf("a wide one: %s", got)
	}
	cropped := picture.New(picture.Options{MaxBytes: 1 << 20, MaxSide: 4096, Side: 512, MaxEncoded: 1 << 20, Crop: true, JPEG: true})
	if m := encoded(t, cropped, asPNG(t, drawn(1000, 500))); m.Bounds().Dx() != 512 || at(m, .1, .1)+at(m, .9, .1)+at(m, .1, .9) != "blueredred" {
		t.Errorf("a wide one that is cropped: %v", m.Bounds())
	}
}

// TestPicture_OfNoiseFits has one of which PNG saves nothing.
func TestPicture_OfNoiseFits(t *testing.T) {
	m, noise := image.NewNRGBA(image.Rect(0, 0, 200, 200)), rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(noise.Uint32()) | byte(i%4/3*255)
	}
	if m := encoded(t, icons, asPNG(t, m)); m.Bounds().Dx() >= 192 || m.Bounds().Dx() < 64 {
		t.Errorf("got %v", m.Bounds())
	}
}

// TestPicture_KeepsNothingOfTheFileButWhatIsSeen has one with text behind its end, and in its metadata.
func TestPicture_KeepsNothingOfTheFileButWhatIsSeen(t *testing.T) {
	for _, file := range [][]byte{
		append(asPNG(t, drawn(10, 10)), "<script>secret</script>"...), exif(asJPEG(t, drawn(10, 10)), 1, "secret"),
	} {
		out, err := icons.Encode(t.Context(), file)
		if err != nil || bytes.Contains(out, []byte("secret")) {
			t.Errorf("%q, %v", out, err)
		}
	}
}

// giant returns a PNG whose header tells another width and height.
func giant(t *testing.T, width, height uint32) []byte {
	t.Helper()
	file := asPNG(t, drawn(8, 8))
	binary.BigEndian.PutUint32(file[16:], width)
	binary.BigEndian.PutUint32(file[20:], height)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29]))
	return file
}

func TestPicture_ThatIsNoneOrTooLargeIsRefused(t *testing.T) {
	var animated bytes.Buffer
	if err := gif.Encode(&animated, drawn(8, 8), nil); err != nil {
		t.Fatal(err)
	}
	polyglot := append([]byte("GIF89a/*"), "*/=1;alert(1)//"...)
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"30,000 px":            {giant(t, 30_000, 30_000), picture.ErrTooLarge},
		"wide":                 {giant(t, 1025, 1), picture.ErrTooLarge},
		"high":                 {giant(t, 1, 60_000), picture.ErrTooLarge},
		"a header that lies":   {giant(t, 1024, 1024), picture.ErrFormat},
		"no width":             {giant(t, 0, 8), picture.ErrFormat},
		"bytes":                {append(asPNG(t, drawn(8, 8)), make([]byte, 256<<10)...), picture.ErrTooLarge},
		"GIF":                  {animated.Bytes(), picture.ErrFormat},
		"GIF and a script":     {polyglot, picture.ErrFormat},
		"SVG":                  {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), picture.ErrFormat},
		"SVG after a PNG sign": {append([]byte("\x89PNG\r\n\x1a\n"), "<svg onload=alert(1)>"...), picture.ErrFormat},
		"HTML":                 {[]byte("<!doctype html>"), picture.ErrFormat},
		"cut off":              {asPNG(t, drawn(80, 80))[:60], picture.ErrFormat},
		"JPEG without a body":  {[]byte("\xff\xd8\xff\xe0"), picture.ErrFormat},
		"WebP without a body":  {[]byte("RIFF\x00\x00\x00\x00WEBPVP8X"), picture.ErrFormat},
		"empty":                {nil, picture.ErrFormat},
	} {
		if out, err := icons.Encode(t.Context(), c.file); !errors.Is(err, c.want) || out != nil {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
}

// exif returns a JPEG with a text and how its camera was held.
func exif(file []byte, orientation byte, text string) []byte {
	tiff := "Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00" + string(rune(orientation)) + "\x00\x00\x00\x00\x00\x00" + text
	head := []byte{0xff, 0xd8, 0xff, 0xe1, 0, byte(len(tiff) + 2)}
	return append(append(head, tiff...), file[2:]...)
}

// TestPicture_OfPrintersInksIsRefused: in memory one with four components takes more for each pixel than any other.
func TestPicture_OfPrintersInksIsRefused(t *testing.T) {
	table := func(class byte) []byte { return append([]byte{0xff, 0xc4, 0, 20, class, 1}, make([]byte, 16)...) } // one code, of one bit
	file := slices.Concat(
		[]byte("\xff\xd8\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"),
		[]byte{0xff, 0xdb, 0, 67, 0}, bytes.Repeat([]byte{1}, 64),
		[]byte{0xff, 0xc0, 0, 20, 8, 0, 8, 0, 8, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0},
		table(0x00), table(0x10),
		[]byte{0xff, 0xda, 0, 14, 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0, 0, 0xff, 0xd9})
	if m, err := jpeg.Decode(bytes.NewReader(file)); err != nil || m.ColorModel() != color.CMYKModel {
		t.Fatalf("the test's picture is %T, %v", m, err)
	}
	if _, err := icons.Encode(t.Context(), file); !errors.Is(err, picture.ErrFormat) {
		t.Errorf("got %v", err)
	}
}

// TestPicture_LosslessWebPIsSmall: the Huffman codes of one of 560 KB took 165 MB, before any pixel.
func TestPicture_LosslessWebPIsSmall(t *testing.T) {
	large := picture.New(picture.Options{MaxBytes: 900_000, MaxSide: 4096, Side: 512, MaxEncoded: 200_000})
	lossy, err := base64.StdEncoding.DecodeString(webp)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		start string
		bytes int
		want  error
	}{
		"lossless":              {"RIFF\x00\x00\x10\x00WEBPVP8L\x00\x00\x0f\x00", 300_000, picture.ErrTooLarge},
		"lossless transparency": {"RIFF\x00\x00\x10\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\x07\x00\x00\x07\x00\x00ALPH", 300_000, picture.ErrTooLarge},
		"lossy":                 {string(lossy), 300_000, nil},
	} {
		file := append([]byte(c.start), make([]byte, c.bytes)...)
		if _, err := large.Encode(t.Context(), file); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestPicture_HasFewScans: the 50,000 scans of a JPEG of 900 KB took 100 seconds, in which no other picture was taken.
func TestPicture_HasFewScans(t *testing.T) {
	whole := asJPEG(t, drawn(64, 64))
	scan := bytes.Index(whole, []byte("\xff\xda"))
	for scans, want := range map[int]error{1: nil, 20: nil, 101: picture.ErrTooLarge} {
		file := append(slices.Clone(whole[:scan]), bytes.Repeat(whole[scan:len(whole)-2], scans)...)
		if _, err := icons.Encode(t.Context(), append(file, 0xff, 0xd9)); !errors.Is(err, want) {
			t.Errorf("%d scans: got %v", scans, err)
		}
	}
}

// TestPicture_OfAPhoneIsUpright has the blue quarter of a JPEG where each orientation leads it.
func TestPicture_OfAPhoneIsUpright(t *testing.T) {
	for orientation, want := range map[byte][2]float64{1: {.2, .2}, 2: {.8, .2}, 3: {.8, .8}, 4: {.2, .8}, 5: {.2, .2}, 6: {.8, .2}, 7: {.8, .8}, 8: {.2, .8}, 9: {.2, .2}} {
		m := encoded(t, icons, exif(asJPEG(t, drawn(64, 64)), orientation, ""))
		for _, p := range [][2]float64{{.2, .2}, {.8, .2}, {.8, .8}, {.2, .8}} {
			if blue := at(m, p[0], p[1]) == "blue"; blue != (p == want) {
				t.Errorf("orientation %d: %v is %s", orientation, p, at(m, p[0], p[1]))
			}
		}
	}
}

func FuzzPicture(f *testing.F) {
	for _, seed := range [][]byte{asPNG(f, drawn(8, 8)), exif(asJPEG(f, drawn(8, 8)), 6, ""), []byte("RIFF\x24\x00\x00\x00WEBPVP8 ")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		out, err := icons.Encode(t.Context(), file)
		if (out == nil) == (err == nil) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}
