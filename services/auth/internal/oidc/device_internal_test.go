package oidc

import (
	"strings"
	"testing"
)

// FuzzUserCode reads whatever people type: what is taken for a code is one, and the same however it is shown.
func FuzzUserCode(f *testing.F) {
	for _, typed := range []string{"BCDF-GHJK", "bcdf ghjk", " b-c-d-f-g-h-j-k ", "BCDFGHJ", "BCDFGHJKL", "ABCD-EFGH", "ſcdf-ghjk", "BCDF–GHJK", strings.Repeat("-", 99)} {
		f.Add(typed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		code, ok := userCode(typed)
		if !ok {
			return
		}
		if len(code) != userCodeLength || strings.Trim(code, userCodeLetters) != "" {
			t.Fatalf("%q is %q", typed, code)
		}
		if again, ok := userCode(shownUserCode(code)); !ok || again != code {
			t.Errorf("%q is shown, and read as %q", code, again)
		}
	})
}

func TestUserCode_IsReadAsPeopleTypeIt(t *testing.T) {
	for _, typed := range []string{"BCDF-GHJK", "bcdfghjk", " bcdf ghjk "} {
		if code, ok := userCode(typed); !ok || code != "BCDFGHJK" {
			t.Errorf("%q: %q, %v", typed, code, ok)
		}
	}
	for _, typed := range []string{"", "BCDF-GHJ", "BCDF-GHJKL", "ABCD-EFGH", "BCDF_GHJK", "ſCDF-GHJK"} {
		if code, ok := userCode(typed); ok {
			t.Errorf("%q is %q", typed, code)
		}
	}
	seen := map[byte]bool{}
	for range 1000 {
		code := newUserCode()
		if read, ok := userCode(shownUserCode(code)); !ok || read != code {
			t.Fatalf("a new one: %q", code)
		}
		for i := range len(code) {
			seen[code[i]] = true
		}
	}
	if len(seen) != len(userCodeLetters) {
		t.Errorf("%d letters occur", len(seen))
	}
}
