package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// bothTexts returns the texts in German and in English.
func bothTexts(t *testing.T) (german, english texts) {
	t.Helper()
	german, err := readTexts("de")
	if err != nil {
		t.Fatal(err)
	}
	if english, err = readTexts("en"); err != nil {
		t.Fatal(err)
	}
	return german, english
}

// TestTexts_SayTheSameInBothLanguages also compares what is filled in.
func TestTexts_SayTheSameInBothLanguages(t *testing.T) {
	german, english := bothTexts(t)
	if len(german) < 400 || len(german) != len(english) {
		t.Errorf("%d texts in German, %d in English", len(german), len(english))
	}
	for key, text := range german {
		other := english[key]
		if text == "" || other == "" {
			t.Errorf("%s is missing or empty in a language", key)
		}
		verbs := regexp.MustCompile(`%[a-z]`)
		if g, e := verbs.FindAllString(text, -1), verbs.FindAllString(other, -1); !reflect.DeepEqual(g, e) {
			t.Errorf("%s: %v in German, %v in English", key, g, e)
		}
	}
	for list, n := range map[string]int{"Months": 12, "Colors": len(user.AvatarColors)} {
		if g, e := len(strings.Fields(german[list])), len(strings.Fields(english[list])); g != n || e != n {
			t.Errorf("%s: %d in German, %d in English, want %d", list, g, e, n)
		}
	}
}

func TestTexts_EachKeyIsThereOnce(t *testing.T) {
	for _, lang := range []string{"de", "en"} {
		file, err := files.ReadFile("texts/" + lang + ".json")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, key := range regexp.MustCompile(`(?m)^\s*"([^"]+)": "`).FindAllStringSubmatch(string(file), -1) {
			if seen[key[1]] {
				t.Errorf("%s: %s is there twice, and the second text is shown in both places", lang, key[1])
			}
			seen[key[1]] = true
		}
		if len(seen) < 400 {
			t.Errorf("%s: %d keys", lang, len(seen))
		}
	}
}

// TestTexts_GermanSaysDu refuses the impersonal forms ("Bitte … wählen", "das eigene Konto"),
// the polite one, and words that pages say otherwise.
func TestTexts_GermanSaysDu(t *testing.T) {
	german, _ := bothTexts(t)
	others := regexp.MustCompile(`Bitte\b|\b[Dd](as|em|es) eigenen? |\b(Ihnen|Ihren?)\b|freiwillig|Zugangsschlüssel|Verwaltung des Haushalts`)
	for key, text := range german {
		if other := others.FindString(text); other != "" {
			t.Errorf("%s says %q: %s", key, other, text)
		}
	}
}

// TestTexts_AKeyIsWhatSigns has other things named otherwise: certificate, refresh token, set-up key.
func TestTexts_AKeyIsWhatSigns(t *testing.T) {
	german, _ := bothTexts(t)
	for key, text := range german {
		if strings.Contains(text, "Schlüssel") && !regexp.MustCompile(`^Keys|[._]keys?[._-]`).MatchString(key) {
			t.Errorf("%s: %s", key, text)
		}
	}
}

// TestTexts_AreThoseThatAreUsed looks for keys in templates and sources, and for the ends of
// keys that begin with a lower-case word anywhere in the service.
func TestTexts_AreThoseThatAreUsed(t *testing.T) {
	german, _ := bothTexts(t)
	var own, all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		kind := filepath.Ext(path)
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || kind != ".go" && kind != ".html" && kind != ".js" {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.HasPrefix(path, filepath.Join("..", "pages")) || strings.HasPrefix(path, filepath.Join("..", "web")) {
			own.Write(content)
		}
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.T\.([A-Z]\w*)|(?:\bT|\btext|\bt)\["(\w+)"\]|done=([\w-]+)|\bStatus\w+, "\w*", "(\w+)"|Page: "(\w+)"`).FindAllStringSubmatch(own.String(), -1) {
		key := m[1] + m[2] + m[4] + m[5]
		if m[3] != "" {
			key = "done." + m[3]
		}
		if used[key] = true; german[key] == "" {
			t.Errorf("there is no text %s", key)
		}
	}
	for _, event := range audit.Names() {
		if key := eventKey + event; german[key] == "" {
			t.Errorf("there is no text %s", key)
		}
	}
	for key := range german {
		_, end, prefixed := strings.Cut(key, ".")
		if prefixed && strings.Contains(all.String(), `"`+end+`"`) || strings.Contains(own.String(), `"`+key+`"`) {
			continue
		}
		if !used[key] {
			t.Errorf("no source uses %s", key)
		}
	}
}
