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
// proves nothing.
func (a provider) device(c echo.Context) error {
	form, client, err := a.sent(c)
	if err == nil {
		err = a.CountSignIn(c.Response(), c.Request(), service.RouteLabel(c))
	}
	var codes oidc.DeviceCodes
	if err == nil {
		codes, err = a.OIDC.StartDevice(c.Request().Context(), client, form.Get("scope"), a.Client(c.Request()))
	}
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
