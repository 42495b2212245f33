package e2e

import (
	"os"
	"testing"
)

// TestEveryPageIsShown writes a picture of every page in both languages, themes and widths
// into the folder SHOTS, as `make shots` does, and fails on what the browser finds wrong.
func TestEveryPageIsShown(t *testing.T) {
	if os.Getenv("SHOTS") == "" {
		t.Skip("SHOTS is not set: make shots sets it")
	}
	for _, language := range []string{"de", "en"} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(language+"/"+theme, func(t *testing.T) {
				h := newHousehold(t, "localhost", map[string]string{"BOOTSTRAP_ADMIN_USERNAME": "", "BOOTSTRAP_ADMIN_PASSWORD_FILE": "", "TZ": "Europe/Berlin"})
				h.journey(t, "shots.mjs", "LANGUAGE="+language, "THEME="+theme, "SHOTS="+os.Getenv("SHOTS"), "ONLY="+os.Getenv("ONLY"))
			})
		}
	}
}
