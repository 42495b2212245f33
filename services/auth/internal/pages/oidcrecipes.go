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
	// Config is a text for the application, in the format File; where that is "sh", it is commands to run.
	File, Config string
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
		Config: `ACTUAL_OPENID_DISCOVERY_URL={issuer}/.well-known/openid-configuration
ACTUAL_OPENID_CLIENT_ID={id}
ACTUAL_OPENID_CLIENT_SECRET={secret}
ACTUAL_OPENID_SERVER_HOSTNAME={url}
ACTUAL_OPENID_ENFORCE=true
ACTUAL_USER_CREATION_MODE=login`,
	},
	{
		Slug: "apache", Product: "Apache (mod_auth_openidc)",
		Test:        "TestSignIn_Apache",
		Redirects:   []string{"{url}/oidc"},
		AfterLogout: []string{"{url}/"},
		Logout:      "{url}/oidc?logout=backchannel",
		File:        "apache",
		Config: `OIDCProviderMetadataURL {issuer}/.well-known/openid-configuration
OIDCClientID {id}
OIDCClientSecret {secret}
OIDCRedirectURI {url}/oidc
OIDCCryptoPassphrase "exec:/bin/sh -c 'head -c 32 /dev/urandom | base64'"
OIDCScope "openid profile email groups"
OIDCPKCEMethod S256
OIDCRemoteUserClaim preferred_username
OIDCSessionType server-cache
<Location />
  AuthType openid-connect
  Require valid-user
</Location>`,
	},
	{
		Slug: "gitea", Product: "Gitea, Forgejo",
		Redirects: []string{"{url}/user/oauth2/pforte/callback"},
		File:      "sh",
		Config: `gitea admin auth add-oauth --name pforte --provider openidConnect \
  --key {id} --secret {secret} \
  --auto-discover-url {issuer}/.well-known/openid-configuration \
  --scopes "openid profile email groups" --group-claim-name groups --admin-group admin`,
	},
	{
		Slug: "grafana", Product: "Grafana",
		Redirects:   []string{"{url}/login/generic_oauth"},
		AfterLogout: []string{"{url}/login"},
		File:        "ini",
		Config: `[server]
root_url = {url}/
[auth.generic_oauth]
enabled = true
name = Pforte
client_id = {id}
client_secret = {secret}
scopes = openid profile email groups
auth_url = {issuer}/oidc/authorize
token_url = {issuer}/oidc/token
api_url = {issuer}/oidc/userinfo
use_pkce = true
allow_sign_up = true
login_attribute_path = preferred_username
name_attribute_path = name
email_attribute_path = email
groups_attribute_path = groups
role_attribute_path = contains(groups[*], 'admin') && 'Admin' || 'Viewer'
signout_redirect_url = {issuer}/oidc/end-session?post_logout_redirect_uri={url}/login`,
	},
	{
		Slug: "home-assistant", Product: "Home Assistant (hass-oidc-auth)",
		Public:    true,
		Redirects: []string{"{url}/auth/oidc/callback"},
		File:      "yaml",
		Config: `auth_oidc:
  client_id: "{id}"
  discovery_url: "{issuer}/.well-known/openid-configuration"
  display_name: Pforte
  features:
    automatic_user_linking: true
  claims:
    display_name: name
    username: preferred_username
    groups: groups
  roles:
    admin: admin`,
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
		Config: `OAUTH2_PROVIDER=oidc
OAUTH2_CLIENT_ID={id}
OAUTH2_CLIENT_SECRET={secret}
OAUTH2_REDIRECT_URL={url}/oauth2/oidc/callback
OAUTH2_OIDC_DISCOVERY_ENDPOINT={issuer}
OAUTH2_USER_CREATION=1`,
	},
	{
		Slug: "nextcloud", Product: "Nextcloud (user_oidc)",
		Redirects:   []string{"{url}/apps/user_oidc/code", "{url}/index.php/apps/user_oidc/code"},
		AfterLogout: []string{"{url}/"},
		Logout:      "{url}/apps/user_oidc/backchannel-logout/pforte",
		File:        "sh",
		Config: `php occ app:install user_oidc
php occ user_oidc:provider pforte --clientid={id} --clientsecret={secret} \
  --discoveryuri={issuer}/.well-known/openid-configuration \
  --scope="openid profile email groups" --unique-uid=0 --mapping-uid=preferred_username \
  --mapping-display-name=name --mapping-email=email --mapping-groups=groups --group-provisioning=1`,
	},
	{
		Slug: "nodered", Product: "Node-RED",
		Test:      "TestSignIn_NodeRED",
		Redirects: []string{"{url}/auth/strategy/callback"},
		File:      "js",
		Config: `  adminAuth: {
    type: 'strategy',
    strategy: {
      name: 'openidconnect',
      label: 'Pforte',
      icon: 'fa-home',
      strategy: require('passport-openidconnect').Strategy,
      options: {
        issuer: '{issuer}',
        authorizationURL: '{issuer}/oidc/authorize',
        tokenURL: '{issuer}/oidc/token',
        userInfoURL: '{issuer}/oidc/userinfo',
        clientID: '{id}',
        clientSecret: '{secret}',
        callbackURL: '{url}/auth/strategy/callback',
        scope: ['profile', 'email'],
        skipUserProfile: false,
        verify: (issuer, profile, done) => done(null, profile)
      }
    },
    users: username => Promise.resolve({ username, permissions: '*' })
  }`,
	},
	{
		Slug: "paperless", Product: "Paperless-ngx",
		Redirects: []string{"{url}/accounts/oidc/pforte/login/callback/"},
		File:      "env",
		Config: `PAPERLESS_URL={url}
PAPERLESS_APPS=allauth.socialaccount.providers.openid_connect
PAPERLESS_SOCIAL_AUTO_SIGNUP=true
PAPERLESS_SOCIAL_ACCOUNT_SYNC_GROUPS=true
` + `PAPERLESS_SOCIALACCOUNT_PROVIDERS={"openid_connect":{"OAUTH_PKCE_ENABLED":true,` +
			`"SCOPE":["openid","profile","email","groups"],"APPS":[{"provider_id":"pforte","name":"Pforte",` +
			`"client_id":"{id}","secret":"{secret}",` +
			`"settings":{"server_url":"{issuer}/.well-known/openid-configuration"}}]}}`,
	},
	{
		Slug: "proxmox", Product: "Proxmox VE",
		Redirects: []string{"{url}"},
		Origin:    true,
		File:      "sh",
		Config: `pveum realm add pforte --type openid --issuer-url {issuer} \
  --client-id {id} --client-key {secret} --username-claim username --autocreate 1 \
  --scopes "openid profile email groups" --groups-claim groups --groups-autocreate 1`,
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
	c.Logout, c.Config = fill(c.Logout), fill(c.Config)
	fields := c.Fields
	c.Fields = nil
	for _, f := range fields {
		if f.Value != "{secret}" || with.Secret != "" {
			c.Fields = append(c.Fields, setting{f.Name, fill(f.Value)})
		}
	}
	return c
}
