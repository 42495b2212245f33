package password_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/text/unicode/norm"

	"github.com/pforte/pforte/services/auth/internal/password"
)

const (
	nfc   = "\u00fcberr\u00e4tig"   // überrätig
	nfd   = "u\u0308berra\u0308tig" // the same text
	mixed = "\u00fcberra\u0308tig"  // and again
)

var marks = strings.Repeat("\u0301", 31) // more than x/text leaves in a row

// sameText reports whether two passwords are forms of one text.
func sameText(a, b string) bool {
	return a == b || normal(a) && normal(b) && norm.NFC.String(a) == norm.NFC.String(b)
}

// normal reports whether a password has forms: it is text, and x/text inserts nothing.
func normal(s string) bool {
	return utf8.ValidString(s) && strings.Count(norm.NFD.String(s), "\u034f") == strings.Count(s, "\u034f")
}

// plain is a hash of exactly these bytes, as another program makes it.
func plain(t testing.TB, version, pw string, cost int) string {
	t.Helper()
	stored, err := bcrypt.GenerateFromPassword([]byte(pw), cost)
	if err != nil {
		t.Fatal(err)
	}
	return version + string(stored[4:])
}

func TestForm_SetInOneMatchesInEveryOther(t *testing.T) {
	h := quick(t)
	for _, set := range []string{nfc, nfd, mixed} {
		stored := hash(t, h, set)
		if bcrypt.CompareHashAndPassword([]byte(stored), []byte(nfc)) != nil {
			t.Errorf("%+q is not stored as NFC", set)
		}
		for _, given := range []string{nfc, nfd, mixed} {
			if rehash(t, h, stored, given) {
				t.Errorf("%+q given for %+q is to be hashed again", given, set)
			}
		}
		for _, wrong := range []string{"uberratig", nfc + "\u0308", nfd[:len(nfd)-1], strings.ToUpper(nfc), "\u00fcberr\u00e3tig"} {
			if err := verify(t, h, stored, wrong); !errors.Is(err, password.ErrMismatch) {
				t.Errorf("%+q given for %+q: %v", wrong, set, err)
			}
		}
	}
}

func TestForm_AnotherMatchesAndIsHashedAgain(t *testing.T) {
	h := quick(t)
	for _, version := range []string{"$2a$", "$2b$", "$2y$"} {
		for _, given := range []string{nfc, nfd, mixed} {
			if !rehash(t, h, plain(t, version, nfd, bcrypt.MinCost), given) {
				t.Errorf("%+q for a %s hash of NFD is not to be hashed again", given, version)
			}
			if rehash(t, h, plain(t, version, nfc, bcrypt.MinCost), given) {
				t.Errorf("%+q for a %s hash of NFC is to be hashed again", given, version)
			}
		}
		asSent := plain(t, version, mixed, bcrypt.MinCost)
		if !rehash(t, h, asSent, mixed) {
			t.Errorf("a %s hash of a mixture is not to be hashed again", version)
		}
		for _, given := range []string{nfc, nfd} { // none of its forms is the hash's
			if err := verify(t, h, asSent, given); !errors.Is(err, password.ErrMismatch) {
				t.Errorf("%+q for a %s hash of a mixture: %v", given, version, err)
			}
		}
	}
}

func TestForm_BoundaryOf72BytesIsThatOfNFC(t *testing.T) {
	h := quick(t)
	for _, c := range []struct {
		pw    string
		exact bool
	}{
		{strings.Repeat("\u00e4", 36), true},
		{strings.Repeat("a\u0308", 36), true}, // 108 bytes as sent
		{strings.Repeat("\u00e4", 36) + "x", false},
		{strings.Repeat("a\u0308", 36) + "x", false},
		{strings.Repeat("\u0958", 24), false}, // 72 bytes as sent, 144 in NFC
	} {
		stored := hash(t, h, c.pw)
		if strings.HasPrefix(stored, "$2a$") != c.exact {
			t.Errorf("%+q is stored as %q", c.pw, stored)
		}
		for _, given := range []string{norm.NFC.String(c.pw), norm.NFD.String(c.pw), c.pw} {
			if rehash(t, h, stored, given) {
				t.Errorf("%+q is to be hashed again", given)
			}
			if err := verify(t, h, stored, given+"y"); !errors.Is(err, password.ErrMismatch) {
				t.Errorf("%+q and one more: %v", given, err)
			}
		}
	}
}

// TestForm_AHashBeyond72BytesOfAnotherMatches has hashes from before passwords were
// normalized, of ours and of programs that shorten.
func TestForm_AHashBeyond72BytesOfAnotherMatches(t *testing.T) {
	h := quick(t)
	long := strings.Repeat("a\u0308", 30) // 90 bytes, 60 in NFC
	earlier := "sha256:" + plain(t, "$2a$", password.Digest(long), bcrypt.MinCost)
	for _, given := range []string{long, norm.NFC.String(long)} {
		if !rehash(t, h, earlier, given) {
			t.Errorf("%+q: an earlier hash of NFD is not to be hashed again", given)
		}
		if rehash(t, h, plain(t, "$2b$", long[:72], bcrypt.MinCost), given) {
			t.Errorf("%+q: a hash that another program shortened is to be hashed again, and its end was not compared", given)
		}
	}
}

func TestLength_CountsCodePointsOfNFCUpTo1024(t *testing.T) {
	for pw, want := range map[string]error{
		strings.Repeat("a\u0308", 7): password.ErrTooShort, strings.Repeat("a\u0308", 8): nil, strings.Repeat("\u00e4", 7): password.ErrTooShort,
		strings.Repeat("a\u0308", 512): nil, strings.Repeat("a\u0308", 513): password.ErrTooLong, // 513 in NFC
		strings.Repeat("\u0958", 512): nil, strings.Repeat("\u0958", 513): password.ErrTooLong, // 1026 in NFC
		"a" + strings.Repeat("\u0308", 1100): password.ErrTooLong, "\xff\xff\xff\xff\xff\xff\xff": password.ErrTooShort, "\xff\xff\xff\xff\xff\xff\xff\xff": nil,
	} {
		if err := password.Check(pw); !errors.Is(err, want) {
			t.Errorf("%.20q (%d): %v, want %v", pw, utf8.RuneCountInString(pw), err, want)
		}
	}
}

func TestForm_APasswordWithoutAnyIsComparedAsSent(t *testing.T) {
	h := quick(t)
	for _, pw := range []string{"a\u0308\xff", "\xc3", "pass\xed\xa0\x80word", "a" + marks, "\u00e4" + marks, "a\u0308" + marks} {
		work := h.CountWork()
		if stored := hash(t, h, pw); rehash(t, h, stored, pw) || !slices.Equal(work.Compared, []string{pw}) {
			t.Errorf("%+q: compared %+q", pw, work.Compared)
		}
	}
}

// attempts are passwords by how many comparisons they take.
var attempts = map[string]int{
	"password": 1, "": 1, nfc: 2, nfd: 2, mixed: 3, "a\u0308\xff": 1, "\u00e4" + marks: 1, "pass\u00e4\x00a\u0308": 3,
	strings.Repeat("\u00e4a\u0308", 100): 3, "\uac01": 2, "\u212b": 3, "\u0958": 2, "\u65e5\u672c": 1,
}

// TestForm_KnownAndUnknownNamesTakeTheSameWork compares what bcrypt computes for stored
// hashes of each kind and for an unknown user.
func TestForm_KnownAndUnknownNamesTakeTheSameWork(t *testing.T) {
	h := newHasher(t, password.Options{Cost: 5})
	stored := map[string]string{
		"plain": hash(t, h, "another password"), "long": hash(t, h, strings.Repeat("another", 20)), "NFD": plain(t, "$2b$", nfd+"!", 5),
		"of lower cost": hash(t, quick(t), "another password"), "of lower cost, from elsewhere": plain(t, "$2y$", strings.Repeat("x", 72), 4),
		"malformed": "$2b$12$invalid", "none": "",
	}
	seen := func(t *testing.T) {
		for pw, comparisons := range attempts {
			work := h.CountWork()
			if err := h.VerifyDummy(t.Context(), pw); !errors.Is(err, password.ErrMismatch) {
				t.Fatal(err)
			}
			want := *work
			if len(want.Compared) != comparisons || want.Rounds != comparisons<<h.WorkCost() {
				t.Errorf("%.20q, unknown name: %d comparisons, %d rounds, want %d comparisons", pw, len(want.Compared), want.Rounds, comparisons)
			}
			for name, hash := range stored {
				*work = password.Work{}
				if err := verify(t, h, hash, pw); !errors.Is(err, password.ErrMismatch) {
					t.Errorf("%.20q, hash %s: %v", pw, name, err)
				}
				if len(work.Compared) != len(want.Compared) || work.Rounds != want.Rounds {
					t.Errorf("%.20q, hash %s: %d comparisons, %d rounds; unknown name: %d, %d", pw, name, len(work.Compared), work.Rounds, len(want.Compared), want.Rounds)
				}
			}
		}
	}
	t.Run("own cost", seen)
	h.Seen(plain(t, "$2b$", "costly", 6))
	t.Run("a costlier hash", seen)
}

// TestForm_AllOfOnePasswordTakeOneSlot has two callers wait for the one slot.
func TestForm_AllOfOnePasswordTakeOneSlot(t *testing.T) {
	h, done := busy(t, 2)
	work := h.CountWork()
	ended := make(chan error, 2)
	for i, pw := range []string{mixed + "1", mixed + "2"} {
		ctx := password.From(context.WithoutCancel(t.Context()), pw)
		go func() { ended <- h.VerifyDummy(ctx, pw) }()
		await(t, func() bool { return h.Stats().Waiting == i+1 })
	}
	done()
	for range 2 {
		if err := <-ended; !errors.Is(err, password.ErrMismatch) {
			t.Error(err)
		}
	}
	if want := []string{nfc + "1", mixed + "1", nfd + "1", nfc + "2", mixed + "2", nfd + "2"}; !slices.Equal(work.Compared, want) {
		t.Errorf("compared %+q, want %+q", work.Compared, want)
	}
}

func FuzzFormsOfTheSameTextMatchAndNoOther(f *testing.F) {
	h := quick(f)
	for pw := range attempts {
		for _, other := range []string{nfc, nfd, mixed, pw + "\u0308"} {
			f.Add(pw, other)
		}
	}
	f.Add("a\u0323\u0307", "a\u0307\u0323")
	f.Add("\u0344", "\u0308\u0301")
	f.Add("a"+marks[:60]+"\u034f\u0301", "a"+marks)
	f.Fuzz(func(t *testing.T, right, given string) {
		stored := hash(t, h, right)
		for _, form := range []string{right, norm.NFC.String(right), norm.NFD.String(right)} {
			if normal(right) && rehash(t, h, stored, form) {
				t.Errorf("%+q in the form %+q is to be hashed again", right, form)
			}
		}
		if err := verify(t, h, stored, given); (err == nil) != sameText(right, given) {
			t.Errorf("%+q given for %+q: %v", given, right, err)
		}
	})
}

// FuzzForms is FuzzFormsOfTheSameTextMatchAndNoOther without bcrypt, so that it tries
// more.
func FuzzForms(f *testing.F) {
	for pw := range attempts {
		f.Add(pw, pw+"\u0308")
	}
	f.Add("a"+marks[:60]+"\u034f\u0301", "a"+marks)
	f.Add("\u00e4"+marks[:58], "a\u0308"+marks[:58])
	f.Fuzz(func(t *testing.T, right, given string) {
		stored := password.Forms(right)[0]
		for _, form := range password.Forms(right) {
			if password.Forms(form)[0] != stored {
				t.Errorf("the form %+q of %+q is stored as %+q, not %+q", form, right, password.Forms(form)[0], stored)
			}
		}
		if found := slices.Contains(password.Forms(given), stored); found != sameText(right, given) {
			t.Errorf("%+q given for %+q: %t", given, right, found)
		}
	})
}
