package pages

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// iconsPath begins the paths of pictures of applications.
const iconsPath = root + "icons/"

// changeIcon sets the picture of an application, or removes it.
func (p appPages) changeIcon(r *request) error {
	slug := r.Param("id")
	var icon application.Icon
	switch r.form.get("do") {
	case "set":
		if len(r.file) == 0 {
			return web.ErrNoPicture
		}
		var err error
		if icon, err = p.Policy.IconOf(r.ctx(), r.file); err != nil {
			return err
		}
	case "remove":
	default:
		return web.ErrMalformed
	}
	return r.done(appsPath+"/"+url.PathEscape(slug), "profile", p.Policy.SetIcon(r.ctx(), r.Session, slug, icon))
}

// icon serves the picture of an application to anybody who knows its hash. The picture was encoded anew, and the
// headers keep browsers from taking it for a page. application.ErrNotFound.
func (p *Pages) icon(c echo.Context) error {
	hash, ok := strings.CutSuffix(c.Param("name"), ".png")
	if !ok {
		return application.ErrNotFound
	}
	png, err := p.Policy.Icon(c.Request().Context(), hash)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Length", strconv.Itoa(len(png)))
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	_, err = c.Response().Write(png)
	return err
}

// iconOrNothing returns a handler that calls icon and, where there is no such picture, the handler nothing.
func (p *Pages) iconOrNothing(nothing echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := p.icon(c)
		if errors.Is(err, application.ErrNotFound) {
			return nothing(c)
		}
		return err
	}
}
