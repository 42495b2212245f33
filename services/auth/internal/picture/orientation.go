package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
)

// jpegOrientation returns how the camera was held, as Exif has it: 1 (upright) to 8, and 1 where nothing is known, as
// of files that are no JPEG.
func jpegOrientation(file []byte) int {
	for at := 2; at+4 <= len(file) && file[at] == 0xff; {
		marker, size := file[at+1], int(binary.BigEndian.Uint16(file[at+2:]))
		if marker == 0xda || size < 2 || at+2+size > len(file) { // the picture begins, or the file is damaged
			break
		}
		segment := file[at+4 : at+2+size]
		if tiff, ok := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); ok && marker == 0xe1 {
			return tiffOrientation(tiff)
		}
		at += 2 + size
	}
	return 1
}

// tiffOrientation returns the orientation (tag 274) in the first directory of a TIFF structure; 1 where there is
// none.
func tiffOrientation(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(b[:2]) == "MM" {
		order = binary.BigEndian
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 1
	}
	entries := uint64(order.Uint16(b[at:]))
	for i := range entries {
		entry := at + 2 + 12*i
		if entry+12 > uint64(len(b)) {
			break
		}
		if order.Uint16(b[entry:]) != 274 {
			continue
		}
		if o := int(order.Uint16(b[entry+8:])); o >= 1 && o <= 8 {
			return o
		}
	}
	return 1
}

// turned is a picture seen in another orientation.
type turned struct {
	image.Image
	orientation int
}

// upright returns a picture as it was seen, by its orientation of Exif.
func upright(m image.Image, orientation int) image.Image {
	if orientation == 1 {
		return m
	}
	return turned{m, orientation}
}

// Bounds implements image.Image.
func (t turned) Bounds() image.Rectangle {
	b := t.Image.Bounds()
	if t.orientation >= 5 {
		return image.Rect(0, 0, b.Dy(), b.Dx())
	}
	return image.Rect(0, 0, b.Dx(), b.Dy())
}

// At implements image.Image.
func (t turned) At(x, y int) color.Color {
	b := t.Image.Bounds()
	right, bottom := b.Dx()-1, b.Dy()-1
	switch t.orientation {
	case 2:
		x = right - x
	case 3:
		x, y = right-x, bottom-y
	case 4:
		y = bottom - y
	case 5:
		x, y = y, x
	case 6:
		x, y = y, bottom-x
	case 7:
		x, y = right-y, bottom-x
	case 8:
		x, y = right-y, x
	}
	return t.Image.At(b.Min.X+x, b.Min.Y+y)
}
