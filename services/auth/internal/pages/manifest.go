package pages

import (
	"encoding/json"
	"net/http"
)

const manifestPath = root + "manifest.webmanifest"

// manifest has the form of W3C's Web Application Manifest.
type manifest struct {
	Name       string         `json:"name"`
	ID         string         `json:"id"`
	StartURL   string         `json:"start_url"`
	Scope      string         `json:"scope"`
	Display    string         `json:"display"`
	Background string         `json:"background_color"`
	Theme      string         `json:"theme_color"`
	Icons      []manifestIcon `json:"icons"`
}

type manifestIcon struct {
	Source  string `json:"src"`
	Sizes   string `json:"sizes"`
	Type    string `json:"type"`
	Purpose string `json:"purpose,omitempty"`
}

// manifest answers how a phone shows the household among its applications, with its name as it is now. Browsers ask
// for it without cookies.
func (p *Pages) manifest(r *request) error {
	household, err := p.Accounts.Household(r.ctx())
	if err != nil {
		return err
	}
	icon := func(name, sizes, purpose string) manifestIcon {
		at := view{assets: p.assets}.Asset(name)
		return manifestIcon{Source: at, Sizes: sizes, Type: "image/png", Purpose: purpose}
	}
	text, err := json.Marshal(manifest{
		Name: household.Name, ID: root, StartURL: root, Scope: root, Display: "standalone",
		Background: "#f6f5f1", Theme: "#f6f5f1", // --page of the stylesheet
		Icons: []manifestIcon{
			icon("icon-192.png", "192x192", ""), icon("icon-512.png", "512x512", ""),
			icon("icon-maskable.png", "512x512", "maskable"),
		},
	})
	if err != nil {
		return err
	}
	r.Response().Header().Set("Cache-Control", "no-cache")
	return r.Blob(http.StatusOK, "application/manifest+json", text)
}
