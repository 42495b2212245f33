package pages

import (
	"net/url"
	"slices"
	"strings"
)

// clientRecipe is how an application that asks Pforte who signs in is set up: what is entered here, and what there.
// Its texts are those of the recipes in the documentation of signing in, which a test compares. In them {url} is the
// address of the application without a slash at the end, {issuer} that of the provider, {id} and {secret} are the
// client's.
type clientRecipe struct {
	Slug, Product string
	// Public: the application keeps no secret.
	Public bool
	// Redirects, AfterLogout and Logout are the application's addresses: to which a sign-in leads, to which a logout
	// leads, and at which Pforte reports that a login has ended; empty: none, but an admin then types the Redirects.
	Redirects, AfterLogout []string
	Logout                 string
	// Origin: {url} is without a path.
	Origin bool
	// Fields are what is entered in a form of the application, in its own words.
	Fields []setting
	// File is the format of recipes/SLUG.txt, a text for the application; "sh": commands to run; empty: there is none.
	File string
	// Config is that text; filled sets it.
	Config string
	// Test is the end-to-end test that sets the application up by this recipe; empty: there is none.
	Test string
}

// setting is a field of a form of an application, and what is entered there.
type setting struct{ Name, Value string }

// otherClient is the slug of the recipe for applications that have none of their own.
const otherClient = "other"

// clientRecipes are in the order of their products' names, that of other applications last. The texts where.SLUG,
// keep.SLUG and accounts.SLUG say where the settings are, what to keep in mind, and how the application finds the
// accounts that it has already.
var clientRecipes = []clientRecipe{
	{
		Slug: "actual", Product: "Actual",
		Test:      "TestSignIn_ActualBudget",
		Redirects: []string{"{url}/openid/callback"},
		File:      "env",
	},
	{
		Slug: "apache", Product: "Apache (mod_auth_openidc)",
		Test:        "TestSignIn_Apache",
		Redirects:   []string{"{url}/oidc"},
		AfterLogout: []string{"{url}/"},
		Logout:      "{url}/oidc?logout=backchannel",
		File:        "apache",
	},
	{
		Slug: "gitea", Product: "Gitea, Forgejo",
		Redirects: []string{"{url}/user/oauth2/pforte/callback"},
		File:      "sh",
	},
	{
		Slug: "grafana", Product: "Grafana",
		Redirects:   []string{"{url}/login/generic_oauth"},
		AfterLogout: []string{"{url}/login"},
		File:        "ini",
	},
	{
		Slug: "home-assistant", Product: "Home Assistant (hass-oidc-auth)",
		Public:    true,
		Redirects: []string{"{url}/auth/oidc/callback"},
		File:      "yaml",
	},
	{
		Slug: "immich", Product: "Immich",
		Redirects: []string{"{url}/auth/login", "{url}/user-settings", "app.immich:///oauth-callback"},
		Fields: []setting{
			{"Issuer URL", "{issuer}/.well-known/openid-configuration"},
			{"Client ID", "{id}"},
			{"Client Secret", "{secret}"},
			{"Scope", "openid email profile"},
			{"ID Token Signed Response Algorithm", "RS256"},
			{"Storage Label Claim", "preferred_username"},
		},
	},
	{
		Slug: "jellyfin", Product: "Jellyfin (SSO)",
		Redirects: []string{"{url}/sso/OID/redirect/pforte"},
		Fields: []setting{
			{"Name of OpenID Provider", "pforte"},
			{"OpenID Endpoint", "{issuer}"},
			{"OpenID Client ID", "{id}"},
			{"OID Secret", "{secret}"},
			{"Admin Roles", "admin"},
			{"Role Claim", "groups"},
			{"Request Additional Scopes", "groups"},
			{"Scheme Override", "https"},
		},
	},
	{
		Slug: "miniflux", Product: "Miniflux",
		Test:      "TestSignIn_Miniflux",
		Redirects: []string{"{url}/oauth2/oidc/callback"},
		File:      "env",
	},
	{
		Slug: "nextcloud", Product: "Nextcloud (user_oidc)",
		Redirects:   []string{"{url}/apps/user_oidc/code", "{url}/index.php/apps/user_oidc/code"},
		AfterLogout: []string{"{url}/"},
		Logout:      "{url}/apps/user_oidc/backchannel-logout/pforte",
		File:        "sh",
	},
	{
		Slug: "nodered", Product: "Node-RED",
		Test:      "TestSignIn_NodeRED",
		Redirects: []string{"{url}/auth/strategy/callback"},
		File:      "js",
	},
	{
		Slug: "paperless", Product: "Paperless-ngx",
		Redirects: []string{"{url}/accounts/oidc/pforte/login/callback/"},
		File:      "env",
	},
	{
		Slug: "proxmox", Product: "Proxmox VE",
		Redirects: []string{"{url}"},
		Origin:    true,
		File:      "sh",
	},
	{
		Slug: "yuvomi", Product: "Yuvomi",
		Redirects: []string{"{url}/api/v1/auth/oidc/callback"},
		Fields:    []setting{{"Issuer", "{issuer}"}, {"Client ID", "{id}"}, {"Client Secret", "{secret}"}},
	},
	{
		Slug: otherClient,
		Fields: []setting{
			{"Issuer", "{issuer}"},
			{"Discovery", "{issuer}/.well-known/openid-configuration"},
			{"Client ID", "{id}"},
			{"Client Secret", "{secret}"},
			{"Scope", "openid profile email groups"},
			{"Authorization endpoint", "{issuer}/oidc/authorize"},
			{"Token endpoint", "{issuer}/oidc/token"},
			{"Userinfo endpoint", "{issuer}/oidc/userinfo"},
			{"JWKS", "{issuer}/oidc/jwks"},
			{"Logout", "{issuer}/oidc/end-session"},
		},
	},
}

// clientRecipeOf returns the recipe of a slug, and reports whether there is one.
func clientRecipeOf(slug string) (clientRecipe, bool) {
	i := slices.IndexFunc(clientRecipes, func(r clientRecipe) bool { return r.Slug == slug })
	if i < 0 {
		return clientRecipe{}, false
	}
	return clientRecipes[i], true
}

// signInGuide is where the documentation of signing in is.
const signInGuide = "https://github.com/pforte/pforte/blob/main/deploy/docs/signin.md"

// Guide returns the URL of the recipe's documentation.
func (c clientRecipe) Guide() string { return signInGuide + "#" + anchorOf(c.title()) }

// title returns the heading of the recipe's documentation.
func (c clientRecipe) title() string {
	if c.Slug == otherClient {
		return "Another application"
	}
	return c.Product
}

// anchorOf returns the anchor of a heading, as GitHub makes it.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

// config returns the text for the application as it is embedded, or "".
func (c clientRecipe) config() string {
	text, _ := files.ReadFile("recipes/" + c.Slug + ".txt") // an error says that there is none
	return strings.TrimSuffix(string(text), "\n")
}

// enteredClient is what is filled into a recipe.
type enteredClient struct{ URL, Issuer, ID, Secret string }

// filled returns a recipe with the values of a client. Without a secret Fields has no field for one.
func (c clientRecipe) filled(with enteredClient) clientRecipe {
	at := strings.TrimRight(with.URL, "/")
	if u, err := url.Parse(at); c.Origin && err == nil {
		at = u.Scheme + "://" + u.Host
	}
	fill := strings.NewReplacer("{url}", at, "{issuer}", with.Issuer, "{id}", with.ID, "{secret}", with.Secret).Replace
	each := func(texts []string) (all []string) {
		for _, text := range texts {
			all = append(all, fill(text))
		}
		return all
	}
	c.Redirects, c.AfterLogout = each(c.Redirects), each(c.AfterLogout)
	c.Logout, c.Config = fill(c.Logout), fill(c.config())
	fields := c.Fields
	c.Fields = nil
	for _, f := range fields {
		if f.Value != "{secret}" || with.Secret != "" {
			c.Fields = append(c.Fields, setting{f.Name, fill(f.Value)})
		}
	}
	return c
}
