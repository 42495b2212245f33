package httpapi

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// device is POST /pforte/oidc/device (RFC 8628, section 3.1). Requests are limited by address, because a public client
// proves nothing. It reads no cookies.
func (a provider) device(c echo.Context) error {
	c.SetRequest(a.As(c.Response(), c.Request(), web.Caller{}))
	codes, err := a.startDevice(c)
	if err != nil {
		return a.refuse(c, err)
	}
	page := a.PublicURL + web.OIDCDevicePage
	return writeJSON(c, http.StatusOK, struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		Page     string `json:"verification_uri"`
		Complete string `json:"verification_uri_complete"`
		Expires  int    `json:"expires_in"`
		Interval int    `json:"interval"`
	}{
		codes.Device, codes.User, page, page + "?" + url.Values{web.OIDCUserCodeParam: {codes.User}}.Encode(),
		int(oidc.DeviceLifetime.Seconds()), int(oidc.DeviceInterval.Seconds()),
	})
}

func (a provider) startDevice(c echo.Context) (oidc.DeviceCodes, error) {
	form, err := readOAuthForm(c)
	if err != nil {
		return oidc.DeviceCodes{}, err
	}
	client, err := a.client(c, form)
	if err != nil {
		return oidc.DeviceCodes{}, err
	}
	if err := a.CountSignIn(c.Response(), c.Request(), service.RouteLabel(c)); err != nil {
		return oidc.DeviceCodes{}, err
	}
	return a.OIDC.StartDevice(c.Request().Context(), client, form.Get("scope"), a.Client(c.Request()))
}
