package pages

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the recipes into the documentation of signing in")

const (
	signInDoc     = "../../../../deploy/docs/signin.md"
	recipesBegin  = "<!-- recipes -->\n"
	recipesEnding = "<!-- end -->"
)

// exampleClient is the client that the documentation fills in.
func exampleClient(c clientRecipe) enteredClient {
	with := enteredClient{
		URL: "https://" + c.Slug + ".example.org", Issuer: "https://home.example.org/pforte", ID: c.Slug,
	}
	if !c.Public {
		with.Secret = "pfc_…"
	}
	return with
}

// documented returns the documentation of a recipe.
func documented(c clientRecipe, t texts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", c.title())
	switch {
	case c.Slug == otherClient:
		fmt.Fprintf(&b, "Any application that speaks OpenID Connect.\n")
	case c.Test != "":
		fmt.Fprintf(&b, "Run by `%s`.\n", c.Test)
	default:
		fmt.Fprintf(&b, "Not run: written from its documentation.\n")
	}
	filled := c.filled(exampleClient(c))
	for _, at := range filled.Redirects {
		fmt.Fprintf(&b, "- a sign-in returns to `%s`\n", at)
	}
	for _, at := range filled.AfterLogout {
		fmt.Fprintf(&b, "- after a logout to `%s`\n", at)
	}
	if filled.Logout != "" {
		fmt.Fprintf(&b, "- told of a logout at `%s`\n", filled.Logout)
	}
	fmt.Fprintf(&b, "\n%s %s %s\n", t["where."+c.Slug], t["keep."+c.Slug], t["accounts."+c.Slug])
	if len(filled.Fields) > 0 {
		fmt.Fprintf(&b, "\n| Field | Value |\n|---|---|\n")
		for _, f := range filled.Fields {
			fmt.Fprintf(&b, "| %s | `%s` |\n", f.Name, f.Value)
		}
	}
	if filled.Config != "" {
		fmt.Fprintf(&b, "\n```%s\n%s\n```\n", filled.File, filled.Config)
	}
	return strings.Replace(b.String(), ".\n-", ".\n\n-", 1)
}

func TestClientRecipes_AreDocumentedAsTheyAre(t *testing.T) {
	_, english := bothTexts(t)
	content, err := os.ReadFile(signInDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(content), recipesBegin)
	there, after, ended := strings.Cut(rest, recipesEnding)
	if !begun || !ended {
		t.Fatal("the documentation has no place for the recipes")
	}
	var sections []string
	for _, c := range clientRecipes {
		sections = append(sections, documented(c, english))
	}
	want := strings.Join(sections, "\n")
	if *update {
		if err := os.WriteFile(signInDoc, []byte(before+recipesBegin+want+recipesEnding+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if there != want {
		t.Error("the recipes are others: run go test ./internal/pages -run ClientRecipes -update")
	}
}

// TestClientRecipes_HoldTogether looks for what a recipe needs to be of use.
func TestClientRecipes_HoldTogether(t *testing.T) {
	german, english := bothTexts(t)
	if !slices.IsSortedFunc(clientRecipes[:len(clientRecipes)-1], func(a, b clientRecipe) int {
		return strings.Compare(strings.ToLower(a.Product), strings.ToLower(b.Product))
	}) || clientRecipes[len(clientRecipes)-1].Slug != otherClient {
		t.Error("the recipes are not in the order of their products, the other applications last")
	}
	for _, c := range clientRecipes {
		for _, words := range []texts{german, english} {
			for _, part := range []string{"where.", "keep.", "accounts."} {
				if words[part+c.Slug] == "" {
					t.Errorf("%s%s has no text", part, c.Slug)
				}
			}
		}
		all := c.config()
		for _, f := range c.Fields {
			all += "\n" + f.Value
		}
		if !strings.Contains(all, "{issuer}") || !strings.Contains(all, "{id}") || strings.Contains(all, "{secret}") == c.Public {
			t.Errorf("%s: issuer, id or secret are not entered, or too much is", c.Slug)
		}
		if (c.config() == "") == (len(c.Fields) == 0) || (c.config() == "") != (c.File == "") {
			t.Errorf("%s: has neither fields nor a file, or both", c.Slug)
		}
		filled := c.filled(exampleClient(c))
		for _, at := range slices.Concat(filled.Redirects, filled.AfterLogout, []string{filled.Logout, filled.Config}) {
			if strings.Contains(at, "{url}") || strings.Contains(at, "{issuer}") || strings.Contains(at, "{id}") {
				t.Errorf("%s: %q is not filled in", c.Slug, at)
			}
		}
		for _, at := range filled.Redirects {
			if u, err := url.Parse(at); err != nil || u.Scheme == "" || u.Fragment != "" {
				t.Errorf("%s: %q is no address", c.Slug, at)
			}
		}
		if (len(c.Redirects) == 0) != (c.Slug == otherClient) {
			t.Errorf("%s: %d addresses", c.Slug, len(c.Redirects))
		}
	}
}

func TestClientRecipe_FillsInAnAddressWithoutItsSlash(t *testing.T) {
	grafana, _ := clientRecipeOf("grafana")
	at := grafana.filled(enteredClient{URL: "https://home.example.org/grafana/"})
	if at.Redirects[0] != "https://home.example.org/grafana/login/generic_oauth" {
		t.Errorf("a sign-in returns to %s", at.Redirects[0])
	}
	proxmox, _ := clientRecipeOf("proxmox")
	if at := proxmox.filled(enteredClient{URL: "https://pve.example.org:8006/x/"}); at.Redirects[0] != "https://pve.example.org:8006" {
		t.Errorf("a sign-in returns to %s", at.Redirects[0])
	}
	if _, known := clientRecipeOf("solitaire"); known {
		t.Error("there is a recipe of a slug that none has")
	}
}
