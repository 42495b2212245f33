package pages

import "slices"

// recipe fills in the form of an application that many households have.
type recipe struct {
	Slug, Product string
	// Upstream is its address in the network of containers, as its own instructions have it.
	Upstream string
	// UserHeader is the header by which it takes the user, beside those that all applications get; empty: none.
	UserHeader string
	// Tokens: programs that cannot show a login page use it, with app tokens.
	Tokens bool
	// Section is the anchor of its section in the documentation.
	Section string
}

// recipes are in the order of their products' names. The texts recipe.SLUG are the names that are proposed.
var recipes = []recipe{
	{"grafana", "Grafana", "http://grafana:3000", "X-Webauth-User", false, "grafana"},
	{"home-assistant", "Home Assistant", "http://homeassistant:8123", "", false, "home-assistant"},
	{"immich", "Immich", "http://immich-server:2283", "", false, "immich"},
	{"jellyfin", "Jellyfin", "http://jellyfin:8096", "", false, "jellyfin"},
	{"paperless", "Paperless-ngx", "http://webserver:8000", "", false, "paperless-ngx"},
	{"radicale", "Radicale", "http://radicale:5232", "X-Remote-User", true, "radicale-calendars-and-contacts"},
	{"tiddlywiki", "TiddlyWiki", "http://tiddlywiki:8080", "", false, "tiddlywiki-a-notebook"},
}

// recipeOf returns the recipe of a slug, or the zero value.
func recipeOf(slug string) recipe {
	if i := slices.IndexFunc(recipes, func(r recipe) bool { return r.Slug == slug }); i >= 0 {
		return recipes[i]
	}
	return recipe{}
}

// guide is where the documentation of applications is.
const guide = "https://github.com/pforte/pforte/blob/main/deploy/docs/applications.md"

// Guide returns the URL of the documentation of the recipe; of the zero value, of all applications.
func (r recipe) Guide() string {
	if r.Section == "" {
		return guide
	}
	return guide + "#" + r.Section
}
