package password_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/services/auth/internal/password"
)

func newHasher(t testing.TB, o password.Options) *password.Hasher {
	t.Helper()
	h, err := password.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// quick is a hasher for tests that are not about work.
func quick(t testing.TB) *password.Hasher {
	return newHasher(t, password.Options{Cost: bcrypt.MinCost, Concurrency: 4, Queue: 1000})
}

func hash(t testing.TB, h *password.Hasher, pw string) string {
	t.Helper()
	stored, err := h.Hash(t.Context(), pw)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// verify is Verify without its advice to hash again.
func verify(t testing.TB, h *password.Hasher, stored, pw string) error {
	_, err := h.Verify(t.Context(), stored, pw)
	return err
}

// rehash returns the advice of a Verify that must succeed.
func rehash(t testing.TB, h *password.Hasher, stored, pw string) bool {
	t.Helper()
	again, err := h.Verify(t.Context(), stored, pw)
	if err != nil {
		t.Errorf("%.20q does not match %q: %v", pw, stored, err)
	}
	return again
}

func TestLength_IsCountedInCodePoints(t *testing.T) {
	for pw, want := range map[string]error{
		"": password.ErrTooShort, "1234567": password.ErrTooShort, "12345678": nil, "ääääääää": nil, "äääääää": password.ErrTooShort,
		"🙂🙂🙂🙂🙂🙂🙂🙂": nil, "🙂🙂🙂🙂🙂🙂🙂": password.ErrTooShort, "        ": nil, "\x00\x00\x00\x00\x00\x00\x00\x00": nil,
		strings.Repeat("x", 1024): nil, strings.Repeat("🙂", 1024): nil, strings.Repeat("x", 1025): password.ErrTooLong,
	} {
		if err := password.Check(pw); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", len(pw), err, want)
		}
	}
}

// families are passwords of which none may be taken for another of its family.
var families = map[string][]string{
	"NUL bytes":    {"", "a", "a\x00", "a\x00a", "a\x00a\x00", "\x00", "\x00\x00"},
	"spelling":     {"password", "Password", "password ", "pässwörd", "password\u0308", "👩‍👩‍👧", "👩👩👧"},
	"72 bytes":     {strings.Repeat("x", 71), strings.Repeat("x", 72), strings.Repeat("x", 73), strings.Repeat("x", 72) + "\x00", strings.Repeat("x", 72) + "y"},
	"long":         {strings.Repeat("🙂", 18), strings.Repeat("🙂", 19), strings.Repeat("🙂", 1023), strings.Repeat("🙂", 1024), strings.Repeat("🙂", 1023) + "🙃"},
	"repeated NUL": {strings.Repeat("x", 36), strings.Repeat("x", 36) + "\x00" + strings.Repeat("x", 35), strings.Repeat("x", 36) + "\x00" + strings.Repeat("x", 36)},
}

func TestHash_MatchesItsPasswordAndNoOther(t *testing.T) {
	h := quick(t)
	for _, family := range families {
		for _, right := range family {
			stored := hash(t, h, right)
			for _, given := range family {
				err := verify(t, h, stored, given)
				if given == right && err != nil {
					t.Errorf("%.20q does not match itself: %v", right, err)
				}
				if given != right && !errors.Is(err, password.ErrMismatch) {
					t.Errorf("%.20q matches %.20q: %v", given, right, err)
				}
			}
		}
	}
}

func TestHash_AnExactPasswordIsPlainBcrypt(t *testing.T) {
	h := quick(t)
	for pw, prefix := range map[string]string{
		"password": "$2a$04$", strings.Repeat("x", 72): "$2a$04$", strings.Repeat("x", 73): "sha256:$2a$04$", "pass\x00word": "sha256:$2a$04$",
	} {
		stored := hash(t, h, pw)
		if !strings.HasPrefix(stored, prefix) || password.CheckImport(stored) != nil {
			t.Errorf("%.20q is stored as %q", pw, stored)
		}
		if strings.HasPrefix(prefix, "$") && bcrypt.CompareHashAndPassword([]byte(stored), []byte(pw)) != nil {
			t.Errorf("%.20q: another program can not read %q", pw, stored)
		}
		if other := hash(t, h, pw); other == stored {
			t.Errorf("%.20q is hashed twice without a new salt", pw)
		}
	}
}

func TestHash_CostIs12AndTheDummyIsReal(t *testing.T) {
	h := newHasher(t, password.Options{})
	if hash, err := h.Hash(t.Context(), "correct horse"); err != nil || !strings.HasPrefix(hash, "$2a$12$") {
		t.Errorf("a hash is %q, %v", hash, err)
	}
	if dummy := h.Dummy(); !strings.HasPrefix(dummy, "$2a$12$") || password.CheckImport(dummy) != nil {
		t.Errorf("the dummy is %q", dummy)
	}
}

// foreign are hashes of other programs, from the test vectors of crypt_blowfish
// and jBCrypt.
var foreign = map[string]struct{ hash, password string }{
	"$2a$, cost 5":   {"$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"},
	"$2y$, cost 5":   {"$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"},
	"$2b$, cost 5":   {"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"},
	"$2a$, cost 8":   {"$2a$08$HqWuK6/Ng6sg9gQzbLrgb.Tl.ZHfXLhvt/SgVyWhQqgqcZ7ZuUtye", ""},
	"$2a$, any sign": {"$2a$06$fPIsBO8qRqkjj273rfaOI.HtSV9jLDpTbZn782DC6/t7qT67P6FfO", "~!@#$%^&*()      ~!@#$%^&*()PNBFRD"},
}

func TestVerify_HashesOfOtherProgramsMatch(t *testing.T) {
	h := quick(t)
	for name, f := range foreign {
		if password.CheckImport(f.hash) != nil {
			t.Errorf("%s is not recognized", name)
		}
		if err := verify(t, h, f.hash, f.password); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, wrong := range []string{f.password + "x", "x" + f.password, f.password + "\x00" + f.password + "x"} {
			if err := verify(t, h, f.hash, wrong); !errors.Is(err, password.ErrMismatch) {
				t.Errorf("%s: %q: %v", name, wrong, err)
			}
		}
	}
}

func TestVerify_ALongPasswordShortenedByOthersMatches(t *testing.T) {
	h := quick(t)
	long := strings.Repeat("x", 80)
	plain, err := bcrypt.GenerateFromPassword([]byte(long[:72]), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"$2b$", "$2y$"} {
		stored := version + string(plain[4:])
		better := newHasher(t, password.Options{Cost: bcrypt.MinCost + 1})
		if rehash(t, better, stored, long) {
			t.Errorf("%s: it would be hashed again, and a mistyped end would become the password", version)
		}
	}
	if err := verify(t, h, string(plain), long); !errors.Is(err, password.ErrMismatch) {
		t.Errorf("a hash of ours: %v", err)
	}
}

func TestVerify_MalformedHashesMatchNothing(t *testing.T) {
	h := quick(t)
	good := hash(t, h, "password")
	for _, stored := range []string{
		"", "password", "$2b$12$invalidinvalidinvalidinvalidinvalidinvalidinvalidinvalid", good[:59], good + "x", "$2x$" + good[4:], "$3a$" + good[4:],
		"$2a$99$" + good[7:], "$2a$03$" + good[7:], "sha512:" + good, "sha256:", "sha256:sha256:" + good, " " + good, "$2$" + good[4:],
		"$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA", "{BCRYPT}" + good, good + "\n",
	} {
		for _, pw := range []string{"password", "", stored} {
			if err := verify(t, h, stored, pw); !errors.Is(err, password.ErrMismatch) {
				t.Errorf("%q: %v", stored, err)
			}
		}
		if password.CheckImport(stored) == nil {
			t.Errorf("%q is recognized", stored)
		}
	}
	if err := verify(t, h, "sha256:"+good, "password"); !errors.Is(err, password.ErrMismatch) {
		t.Errorf("a plain hash under the other scheme: %v", err)
	}
}

func TestHash_OfLowerCostIsToBeRenewed(t *testing.T) {
	low, same, high := quick(t), newHasher(t, password.Options{Cost: 5}), newHasher(t, password.Options{Cost: 6})
	long := strings.Repeat("x", 100)
	for _, pw := range []string{"password", long} {
		for h, want := range map[*password.Hasher]bool{low: true, same: false, high: false} {
			if got := rehash(t, same, hash(t, h, pw), pw); got != want {
				t.Errorf("%.20q: got %t, want %t", pw, got, want)
			}
		}
	}
	if !rehash(t, newHasher(t, password.Options{Cost: 6}), foreign["$2b$, cost 5"].hash, "U*U") {
		t.Error("a foreign hash of lower cost is kept")
	}
}

func TestVerify_TheDummyMatchesNothing(t *testing.T) {
	h := quick(t)
	for _, pw := range []string{"", "password", strings.Repeat("x", 1024), "a\x00b"} {
		if err := h.VerifyDummy(t.Context(), pw); !errors.Is(err, password.ErrMismatch) {
			t.Errorf("%.20q: %v", pw, err)
		}
	}
}

// TestVerify_EveryFailureCostsTheSame measures, at a low cost so that it is quick. It
// compares the least times of interleaved runs, which other work on the machine
// disturbs least, and measures again when they differ: less work would show
// every time.
func TestVerify_EveryFailureCostsTheSame(t *testing.T) {
	h := newHasher(t, password.Options{Cost: 5})
	plain, long := hash(t, h, "password"), hash(t, h, strings.Repeat("x", 100))
	cheap := hash(t, quick(t), "password")
	failures := map[string]func() error{
		"wrong password":              func() error { return verify(t, h, plain, "wrong password") },
		"no such user":                func() error { return h.VerifyDummy(t.Context(), "wrong password") },
		"no such user, long password": func() error { return h.VerifyDummy(t.Context(), strings.Repeat("y", 1024)) },
		"long password, plain hash":   func() error { return verify(t, h, plain, strings.Repeat("y", 1024)) },
		"short password, long hash":   func() error { return verify(t, h, long, "wrong password") },
		"long password, long hash":    func() error { return verify(t, h, long, strings.Repeat("y", 100)) },
		"hash of lower cost":          func() error { return verify(t, h, cheap, "wrong password") },
		"malformed hash":              func() error { return verify(t, h, "$2b$12$invalid", "wrong password") },
		"empty password":              func() error { return verify(t, h, plain, "") },
	}
	var differing []string
	for range 20 { // a loaded machine makes single rounds differ
		if differing = compare(t, failures, "wrong password"); len(differing) == 0 {
			return
		}
	}
	t.Error(strings.Join(differing, "\n"))
}

// TestVerify_AFailureCostsAsMuchAsTheCostliestHash has the hash of one user at a higher
// cost than the others.
func TestVerify_AFailureCostsAsMuchAsTheCostliestHash(t *testing.T) {
	h := newHasher(t, password.Options{Cost: 5})
	costly, plain := hash(t, newHasher(t, password.Options{Cost: 7}), "password"), hash(t, h, "password")
	h.Seen(costly)
	if !strings.HasPrefix(h.Dummy(), "$2a$07$") {
		t.Errorf("the dummy is %q", h.Dummy())
	}
	failures := map[string]func() error{
		"costly hash":    func() error { return verify(t, h, costly, "wrong password") },
		"plain hash":     func() error { return verify(t, h, plain, "wrong password") },
		"no such user":   func() error { return h.VerifyDummy(t.Context(), "wrong password") },
		"malformed hash": func() error { return verify(t, h, "$2b$12$invalid", "wrong password") },
	}
	var differing []string
	for range 20 { // a loaded machine makes single rounds differ
		if differing = compare(t, failures, "costly hash"); len(differing) == 0 {
			break
		}
	}
	if len(differing) > 0 {
		t.Error(strings.Join(differing, "\n"))
	}
	h.Seen("$2a$31$" + costly[7:])
	if !strings.HasPrefix(h.Dummy(), "$2a$14$") {
		t.Errorf("after a hash of cost 31 the dummy is %q", h.Dummy())
	}
}

// compare returns which failures cost a third more or a quarter less than the
// reference.
func compare(t *testing.T, failures map[string]func() error, reference string) (differing []string) {
	t.Helper()
	least := map[string]time.Duration{}
	for range 9 {
		for name, fail := range failures {
			start := time.Now()
			if err := fail(); !errors.Is(err, password.ErrMismatch) {
				t.Fatalf("%s: %v", name, err)
			}
			if took := time.Since(start); least[name] == 0 || took < least[name] {
				least[name] = took
			}
		}
	}
	for name, took := range least {
		if want := least[reference]; took < want*3/4 || took > want*4/3 {
			differing = append(differing, fmt.Sprintf("%s takes %v, a %s %v", name, took, reference, want))
		}
	}
	return differing
}

func TestOptions_AreChecked(t *testing.T) {
	for _, cost := range []int{-1, 3, 32} {
		if _, err := password.New(password.Options{Cost: cost}); err == nil {
			t.Errorf("cost %d is accepted", cost)
		}
	}
}

func FuzzVerify(f *testing.F) {
	h := quick(f)
	for _, family := range families {
		for i, pw := range family {
			f.Add(pw, family[(i+1)%len(family)])
		}
	}
	f.Fuzz(func(t *testing.T, right, given string) {
		stored := hash(t, h, right)
		if err := verify(t, h, stored, right); err != nil {
			t.Errorf("%q does not match itself: %v", right, err)
		}
		if err := verify(t, h, stored, given); (err == nil) != sameText(right, given) {
			t.Errorf("%q against %q: %v", given, right, err)
		}
		if err := verify(t, h, given, right); err == nil {
			t.Errorf("%q is a hash of %q", given, right)
		}
	})
}
