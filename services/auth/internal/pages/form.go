package pages

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// maxForm bounds a form without a file, in bytes.
const maxForm = 64 << 10

// form holds the fields of a form that was sent. The zero value is an empty one.
type form struct{ values url.Values }

func (f form) get(name string) string { return f.values.Get(name) }

// code returns the code that was typed, of an app or of recovery.
func (f form) code() string { return cmp.Or(f.get("recovery"), f.get("code")) }

func (f form) sent(name string) bool { return f.values.Has(name) }

// chosen returns what follows a prefix in the names of the fields that were sent: the checked
// ones of boxes that are named so.
func (f form) chosen(prefix string) (names []string) {
	for name := range f.values {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			names = append(names, rest)
		}
	}
	return names
}

// device returns whose the device of a login is, by the login page's box; session.AnyDevice for a form without that
// box.
func (f form) device() session.Device {
	if !f.sent("was_remember") {
		return session.AnyDevice
	}
	remember := f.sent("remember")
	return session.DeviceOf(&remember)
}

// changed returns a pointer to value, that of the field name, or nil where it is what the page showed, which the
// field "was_"+name has: another person may have changed it since.
func (f form) changed(name, value string) *string {
	if was := "was_" + name; f.sent(was) && f.get(was) == value {
		return nil
	}
	return &value
}

// changedBox is changed for a box, and returns whether it is checked.
func (f form) changedBox(name string) *bool {
	if f.changed(name, f.get(name)) == nil {
		return nil
	}
	checked := f.sent(name)
	return &checked
}

// boxOf returns the value that a box sends; "" where it is not checked.
func boxOf(checked bool) string {
	if checked {
		return "yes"
	}
	return ""
}

// readForm reads the body of a POST. web.ErrMalformed, service.ErrBodyTooLarge,
// service.ErrBodyRead; errors of readUpload for a form with a file.
func (r *request) readForm() error {
	req := r.Request()
	kind, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if r.page.upload && err == nil && kind == "multipart/form-data" {
		return r.readUpload(params["boundary"])
	}
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return web.ErrMalformed
	}
	body, err := service.ReadBody(r.Response(), req, maxForm)
	if err != nil {
		return err
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return web.ErrMalformed
	}
	r.form, r.body = form{values}, string(body)
	return nil
}

// maxUpload bounds a form with a file, in bytes. It has room for the largest picture that package people takes.
const maxUpload = 1_000_000

// maxUploading is how many forms with a file are read at once: each takes 4 MB of memory until it has been carried out.
const maxUploading = 4

// readUpload is readForm for a form with a file, which is in the field "picture". web.ErrMalformed,
// service.ErrBodyRead; picture.ErrTooLarge for a form that is too large.
func (r *request) readUpload(boundary string) error {
	body, err := service.ReadBody(r.Response(), r.Request(), maxUpload)
	if errors.Is(err, service.ErrBodyTooLarge) {
		return picture.ErrTooLarge
	}
	if err != nil {
		return err
	}
	sent, err := multipart.NewReader(bytes.NewReader(body), boundary).ReadForm(maxUpload)
	if err != nil {
		return web.ErrMalformed
	}
	defer func() { _ = sent.RemoveAll() }() // nothing: all files are in memory
	r.form = form{sent.Value}
	for _, file := range sent.File["picture"] {
		opened, err := file.Open()
		if err != nil {
			return err
		}
		if r.file, err = io.ReadAll(opened); err != nil {
			return err
		}
	}
	// Each browser separates the parts by other words each time it sends them.
	sum := sha256.Sum256(r.file)
	r.body = r.form.values.Encode() + "&" + hex.EncodeToString(sum[:])
	return nil
}

// secretFields are not shown again (view.Value) and not kept (form.keep).
var secretFields = []string{"password", "again", "current", "code", "recovery", "csrf", "form", "t"}

// kept begins the names of the fields of a form that was sent without a session or a fresh proof: the pages of the
// login, of its second step and of the proof keep them in fields of these names.
const kept = "kept."

// keep returns the fields of a form by name, but for secrets and for the fields that it keeps of another form.
func (f form) keep() map[string]string {
	fields := map[string]string{}
	for name := range f.values {
		if !isSecret(name) && !strings.HasPrefix(name, kept) {
			fields[name] = f.get(name)
		}
	}
	return fields
}

// restore returns the form that this one keeps; it is empty where it keeps none.
func (f form) restore() form {
	values := url.Values{}
	for name := range f.values {
		if typed, ok := strings.CutPrefix(name, kept); ok && !isSecret(typed) {
			values.Set(typed, f.get(name))
		}
	}
	return form{values}
}

func isSecret(field string) bool { return slices.Contains(secretFields, field) }

// cookie returns a cookie of the pages that lasts for seconds; 0: until the browser is closed.
func (p *Pages) cookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure as the session's cookies
		Name: p.AppName + "." + name, Value: value, Path: "/", MaxAge: seconds, Secure: p.Secure, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}
}
