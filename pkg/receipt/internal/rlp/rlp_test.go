package rlp_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The examples of the Ethereum documentation of RLP.
func TestDecode_KnownEncodings(t *testing.T) {
	lorem := "Lorem ipsum dolor sit amet, consectetur adipisicing elit"
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"a word", rlp.AppendString(nil, []byte("dog")), "83646f67"},
		{"an empty string", rlp.AppendString(nil, nil), "80"},
		{"a byte below 128", rlp.AppendString(nil, []byte{0x0f}), "0f"},
		{"a byte of 128", rlp.AppendString(nil, []byte{0x80}), "8180"},
		{"zero", rlp.AppendUint(nil, 0), "80"},
		{"1024", rlp.AppendUint(nil, 1024), "820400"},
		{"the largest number", rlp.AppendUint(nil, math.MaxUint64), "88ffffffffffffffff"},
		{"an empty list", rlp.AppendList(nil, nil), "c0"},
		{"a list", rlp.AppendList(nil, unhex(t, "8363617483646f67")), "c88363617483646f67"},
		{"a string above 55 bytes", rlp.AppendString(nil, []byte(lorem)), "b838" + hex.EncodeToString([]byte(lorem))},
		{"a list above 55 bytes", rlp.AppendList(nil, make([]byte, 1024)), "f90400" + strings.Repeat("00", 1024)},
	} {
		if hex.EncodeToString(c.got) != c.want {
			t.Errorf("%s: %x, want %s", c.name, c.got, c.want)
		}
		if item, err := rlp.Decode(c.got); err != nil || !bytes.Equal(item.Raw, c.got) {
			t.Errorf("%s: decoded to %x, %v", c.name, item.Raw, err)
		}
	}
}

func TestDecode_AnyOtherEncodingIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                          "",
		"bytes after the item":             "8000",
		"a byte below 128 with a prefix":   "8101",
		"a string that ends early":         "83646f",
		"a list that ends early":           "c883",
		"a long size for a short string":   "b803646f67",
		"a long size for a short list":     "f800",
		"a long size with a zero in front": "b90038" + strings.Repeat("00", 56),
		"a long size that ends early":      "b9",
		"a size beyond all memory":         "bfffffffffffffffff",
		"a list of that size":              "ffffffffffffffffff",
	} {
		if item, err := rlp.Decode(unhex(t, text)); err == nil {
			t.Errorf("%s: decoded to %x", name, item.Raw)
		}
	}
	item, err := rlp.Decode(unhex(t, "c28101"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := item.Split(100); err == nil {
		t.Error("an item in a list that has a shorter encoding is accepted")
	}
}

func TestDecode_NumbersHaveNoLeadingZeros(t *testing.T) {
	for name, text := range map[string]string{
		"a zero byte": "00", "a zero in front": "820001", "too large": "89010000000000000000", "a list": "c0",
	} {
		m := only(t, unhex(t, text))
		if n := m.Uint64(0); m.Err == nil {
			t.Errorf("%s: read as %d", name, n)
		}
	}
	m := only(t, rlp.AppendString(nil, bytes.Repeat([]byte{1}, 33)))
	if n := m.Big(0); m.Err == nil {
		t.Errorf("264 bits: read as %d", n)
	}
}

// only returns the members of a list of one item.
func only(t *testing.T, raw []byte) rlp.Members {
	t.Helper()
	item, err := rlp.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return rlp.Members{Items: []rlp.Item{item}}
}

func TestDecode_AStringIsNoListNorReverse(t *testing.T) {
	text, list := rlp.Item{Content: []byte{1}}, rlp.Item{List: true}
	if _, err := text.Split(100); err == nil {
		t.Error("a string is split")
	}
	for what, read := range map[string]func(*rlp.Members){
		"a list returns bytes":  func(m *rlp.Members) { m.Bytes(0) },
		"a list fills an array": func(m *rlp.Members) { m.Fixed(0, nil) },
		"one byte fills two":    func(m *rlp.Members) { m.Fixed(1, make([]byte, 2)) },
	} {
		m := rlp.Members{Items: []rlp.Item{list, text}}
		if read(&m); m.Err == nil {
			t.Error(what)
		}
	}
}

func TestDecode_KeepsTheFirstError(t *testing.T) {
	m := rlp.Members{Items: []rlp.Item{{Content: []byte{1}}, {List: true}}}
	m.Uint64(0)
	m.Bytes(1)
	m.Fixed(0, make([]byte, 2))
	if m.Err == nil || m.Err.Error() != "member 1: rlp: a list, not a string" {
		t.Errorf("error %v", m.Err)
	}
}

// FuzzDecode checks that what is accepted has exactly one encoding.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "80", "c0", "83646f67", "c88363617483646f67", "f800", "b838", "c7c0c1c0c3c0c1c0", "8100"} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := rlp.Decode(data)
		if err != nil {
			return
		}
		if again := encode(t, item); again != nil && !bytes.Equal(again, data) {
			t.Errorf("%x is encoded as %x", data, again)
		}
		m := rlp.Members{Items: []rlp.Item{item}}
		m.Uint64(0)
		m.Big(0)
	})
}

// encode writes an item anew; nil when something in it is not RLP.
func encode(t *testing.T, item rlp.Item) []byte {
	t.Helper()
	if !item.List {
		return rlp.AppendString(nil, item.Content)
	}
	m, err := item.Split(len(item.Content))
	if err != nil {
		return nil
	}
	var content []byte
	for _, inner := range m.Items {
		raw := encode(t, inner)
		if raw == nil {
			return nil
		}
		content = append(content, raw...)
	}
	return rlp.AppendList(nil, content)
}
