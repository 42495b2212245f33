package pages

import (
	"encoding/json"
	"net/http"
)

const manifestPath = root + "manifest.webmanifest"

// manifest answers how a phone shows the household among its applications, with its name as it is now (W3C, Web
// Application Manifest). Browsers ask for it without cookies.
func (p *Pages) manifest(r *request) error {
	household, err := p.Accounts.Household(r.ctx())
	if err != nil {
		return err
	}
	icon := func(name, sizes string) map[string]string {
		return map[string]string{"src": view{assets: p.assets}.Asset(name), "sizes": sizes, "type": "image/png"}
	}
	maskable := icon("icon-maskable.png", "512x512")
	maskable["purpose"] = "maskable"
	text, err := json.Marshal(map[string]any{
		"name": household.Name, "id": root, "start_url": root, "scope": root, "display": "standalone",
		"background_color": "#f6f5f1", "theme_color": "#f6f5f1", // --page of the stylesheet
		"icons": []any{icon("icon-192.png", "192x192"), icon("icon-512.png", "512x512"), maskable},
	})
	if err != nil {
		return err
	}
	r.Response().Header().Set("Cache-Control", "no-cache")
	return r.Blob(http.StatusOK, "application/manifest+json", text)
}
