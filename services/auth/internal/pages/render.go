package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// view is what a template gets.
type view struct {
	T         texts
	Title     string
	Household string
	// OtherLanguage is the page's URL in the other language, or ""; Action is its path without query, for its forms.
	OtherLanguage, Action string
	User                  *user.User // nil unless the request has a Caller
	Admin                 bool
	SignsIn               bool // there is an OpenID Connect provider
	CSRF                  string
	FormID                string        // of the forms of the page: a form that is sent twice is known by it
	Once                  *shownOnce    // of the kept secret that the page shows; nil: it shows none
	Fault                 *fault        // what has failed; nil: nothing
	Notice                string        // what has just been done, or ""
	Data                  any           // of the page
	Head, Main            template.HTML // of the page, made of its own templates; in the layout alone

	form     form
	assets   map[string]asset
	now      time.Time
	location *time.Location
}

// fault is what a page says has failed.
type fault struct {
	Text, Field string
	err         error // web.Failure.Err, or nil
}

func (p *Pages) render(r *request, page, title string, data any) error {
	household, err := p.Accounts.Household(r.ctx())
	if err != nil {
		if page != "error" {
			return err
		}
		household.Name = account.DefaultHouseholdName
	}
	v := view{
		T: r.text, Title: title, Household: household.Name, OtherLanguage: otherLanguage(r),
		Action: r.Request().URL.Path, FormID: secrets.New(), Once: r.once,
		Fault: r.fault, Notice: r.text["done."+r.QueryParam("done")], Data: data, form: r.form, assets: p.assets,
		now: p.Now(), location: p.Location,
	}
	v.SignsIn = p.OIDC.Off(r.ctx()) == nil
	if r.fault != nil {
		v.Notice = ""
	}
	if r.Current != nil {
		v.User, v.Admin, v.CSRF = &r.User, r.User.Role == user.Admin, r.CSRFToken
	}
	if p.templates.Lookup(page+"/head") != nil {
		if v.Head, err = p.execute(page+"/head", v); err != nil {
			return err
		}
	}
	if v.Main, err = p.execute(page+"/main", v); err != nil {
		return err
	}
	whole, err := p.execute("layout.html", v)
	if err != nil {
		return err
	}
	return r.HTML(cmp.Or(r.status, http.StatusOK), string(whole))
}

// execute returns what a template makes of a view.
func (p *Pages) execute(name string, v view) (template.HTML, error) {
	var b strings.Builder
	if err := p.templates.ExecuteTemplate(&b, name, v); err != nil {
		return "", fmt.Errorf("pages: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // html/template has escaped it
}

// Value returns what was sent in a field; where the form has no such field, the argument otherwise; and "" for the
// fields of secrets.
func (v view) Value(field, otherwise string) string {
	if isSecret(field) {
		return ""
	}
	if v.form.sent(field) {
		return v.form.get(field)
	}
	return otherwise
}

// Checked reports whether a box is checked: as in the form that was sent by the button with
// the value do, or, when that was not sent, as at first.
func (v view) Checked(do, field string, first bool) bool {
	if v.form.get("do") == do {
		return v.form.sent(field)
	}
	return first
}

// Wrong returns what is wrong with a field, or "".
func (v view) Wrong(field string) string {
	if v.Fault != nil && v.Fault.Field == field {
		return v.Fault.Text
	}
	return ""
}

// On reports whether the page is the one at a path, or, for a path that ends with "/*", at
// or below what precedes that.
func (v view) On(path string) bool {
	if below, ok := strings.CutSuffix(path, "/*"); ok {
		return v.Action == below || strings.HasPrefix(v.Action, below+"/")
	}
	return v.Action == path
}

// Asset returns the URL of an embedded file.
func (v view) Asset(name string) string { return root + name + "?v=" + v.assets[name].hash }

// Time returns an element with a time in words. In the zone UTC, which is probably not the reader's, the words say
// so. Of the zero time it returns the word "never" alone.
func (v view) Time(at time.Time) template.HTML {
	if at.IsZero() {
		return template.HTML(template.HTMLEscapeString(v.T["Never"])) //nolint:gosec // escaped
	}
	at = at.In(v.location)
	words := v.T.moment(at, v.now.In(v.location))
	if zone, _ := at.Zone(); zone == "UTC" {
		words += " UTC"
	}
	html := `<time datetime="` + at.Format(time.RFC3339) + `">` + template.HTMLEscapeString(words) + `</time>`
	return template.HTML(html) //nolint:gosec // escaped
}

// Event returns the name of an event in words, or the name itself where there are none.
func (v view) Event(name string) string { return cmp.Or(v.T[eventKey+name], name) }

// About returns what an event is about beside its user, such as the slug of an application
// and the host at which it was asked for, or "".
func (v view) About(e audit.Event) string {
	after, _ := e.Detail["after"].(map[string]any)
	if from, renamed := e.Detail["from"].(string); renamed {
		to, _ := e.Detail["to"].(string)
		return cmp.Or(from, v.T["NoName"]) + " → " + cmp.Or(to, v.T["NoName"])
	}
	for _, key := range []string{"app", "group", "added", "removed", "name", "upstream"} {
		what, ok := after[key].(string)
		if !ok {
			what, ok = e.Detail[key].(string)
		}
		if ok {
			if host, known := e.Detail["host"].(string); known {
				what += ", " + host
			}
			return map[string]string{"added": "+ ", "removed": "− "}[key] + what
		}
	}
	return ""
}

// Actor returns who acted: the name, or words for an actor that is no user.
func (v view) Actor(a audit.Actor) string {
	switch a.Kind {
	case audit.Operator:
		return v.T["Operator"]
	case audit.System:
		return v.T["System"]
	case audit.Anonymous:
		return v.T["Anonymous"]
	}
	return a.Name
}

// protection is a state in words, such as how well an account is protected.
type protection struct {
	Text string
	Good bool // the state is as it should be
}

// Protection returns how well a user's account is protected; good is that no password alone opens it. A passkey
// beside a password is not enough, because the password still logs in without it.
func (v view) Protection(u user.Details) protection {
	switch {
	case !u.HasPassword():
		return protection{v.T["NoPassword"], true}
	case u.SecondFactor:
		return protection{v.T["HasSecond"], true}
	case u.Passkeys > 0:
		return protection{v.T["PasskeyOnly"], false}
	}
	return protection{v.T["NoSecond"], false}
}

// Confirmation returns in words whether an e-mail address is confirmed, by an admin or a command, which is good.
func (v view) Confirmation(e user.Email) protection {
	if e.Confirmed() {
		return protection{v.T["EmailConfirmed"], true}
	}
	return protection{v.T["EmailUnconfirmed"], false}
}

// accountState says that an account is disabled, or that it is a guest's, which ends or has ended.
type accountState struct {
	Text   string
	Closed bool
}

// AccountState returns the state of a user's account; nil: it is open and has no end.
func (v view) AccountState(u user.User) *accountState {
	closed := u.Closed(v.now)
	switch {
	case !u.DisabledAt.IsZero():
		return &accountState{v.T["Disabled"], closed}
	case closed:
		return &accountState{v.T["GuestOver"], closed}
	case !u.EndsAt.IsZero():
		last := u.EndsAt.Add(-time.Second).In(v.location)
		return &accountState{fmt.Sprintf(v.T["GuestUntilF"], v.T.day(last)), closed}
	}
	return nil
}

// GuestUntil returns in words the last day of the guest whom an invite creates; "": the account has no end.
func (v view) GuestUntil(l link.Link) string {
	if l.EndsAt.IsZero() {
		return ""
	}
	return fmt.Sprintf(v.T["GuestUntilF"], v.T.day(l.EndsAt.Add(-time.Second).In(v.location)))
}

// Agent returns what the audit has of a browser, in words.
func (v view) Agent(agent string) string { return v.T.agentName(agent) }

// QRCode returns a text as a QR code with a text alternative.
func (v view) QRCode(text, label string) (template.HTML, error) { return QR(text, label) }

type swatch struct {
	Color, Name string
	Chosen      bool
}

type colorChoice struct {
	Swatches []swatch
	Own      bool  // a colour is chosen that is no swatch
	Hex      field // in which such a colour is typed
	T        texts
}

// Colors returns the choice of a colour with the current one chosen, or the one that was
// chosen in a form that failed.
func (v view) Colors(current string) colorChoice {
	c, names := colorChoice{T: v.T, Own: true}, strings.Fields(v.T["Colors"])
	for i, color := range user.AvatarColors { // in the order of their names
		chosen := strings.EqualFold(color, v.Value("color", current))
		c.Own = c.Own && !chosen
		c.Swatches = append(c.Swatches, swatch{color, names[i], chosen})
	}
	own := ""
	if c.Own {
		own = current
	}
	c.Hex = field{
		ID: "hex", Name: "hex", Label: v.T["ColorHex"], Type: "text", Value: v.Value("hex", own),
		Hint: v.T["ColorHexHint"], Wrong: v.Wrong("hex"), Optional: true,
	}
	return c
}

// field is an input of a form with its label.
type field struct {
	ID                                                  string // of the element; mostly the name
	Name, Label, Type, Autocomplete, Value, Hint, Wrong string
	Optional                                            bool
	Mark                                                string // a note after the label
	Mode                                                string // of the keyboard on a phone
	Reveal                                              string // label of the button that shows a password
}

// codeFields are the inputs of a code: of an app where App is set, or of recovery.
type codeFields struct {
	App            bool
	Code, Recovery field
	T              texts
}

// CodeFields returns the inputs of a code. Their ids begin with a prefix, because a page may have several.
func (v view) CodeFields(prefix string, app bool) codeFields {
	wrong := v.Wrong(prefix + "code")
	c := codeFields{
		App: app, T: v.T,
		Code: field{
			ID: prefix + "code", Name: "code", Label: v.T["Code"], Type: "text", Autocomplete: "one-time-code",
			Mode: "numeric", Hint: v.T["CodeHint"], Wrong: wrong, Optional: true,
		},
		Recovery: field{
			ID: prefix + "recovery", Name: "recovery", Label: v.T["RecoveryCode"], Type: "text", Autocomplete: "off",
			Optional: true,
		},
	}
	if !app {
		c.Recovery.ID, c.Recovery.Wrong = c.Code.ID, wrong
	}
	return c
}

// functions are what templates call, beside methods.
var functions = template.FuncMap{
	"field": func(v view, name, label, kind, autocomplete, first string, hint ...string) field {
		return field{
			ID: name, Name: name, Label: label, Type: kind, Autocomplete: autocomplete, Value: v.Value(name, first),
			Hint: strings.Join(hint, " "), Wrong: v.Wrong(name),
		}
	},
	"optional": func(t texts, f field) field { f.Optional, f.Mark = true, "("+t["Optional"]+")"; return f },
	// as returns a field with another id, by which it also has its error, where a page has several of one name.
	"as":      func(v view, id string, f field) field { f.ID, f.Wrong = id, v.Wrong(id); return f },
	"few":     joinNames,
	"reveal":  func(t texts, f field) field { f.Reveal = t["PasswordShow"]; return f },
	"numeric": func(f field) field { f.Mode = "numeric"; return f },
	"initial": initial,
	"ruleOf":  ruleOf,
	"boxOf":   boxOf,
	"onColor": onColor,
	"joined":  func(lines []string) string { return strings.Join(lines, "\n") },
	// unmarked is for a field that may be empty because another one can fill it.
	"unmarked": func(f field) field { f.Mark = ""; return f },
	"upstream": upstreamFields,
	"guide":    recipe{}.Guide,
}

// maxJoinedNames is how many names joinNames returns where it counts the rest.
const maxJoinedNames = 8

// joinNames returns names in a line, or the first of many and how many more there are.
func joinNames(names []string) string {
	if more := len(names) - maxJoinedNames; more > 1 {
		return strings.Join(names[:maxJoinedNames], ", ") + ", + " + strconv.Itoa(more)
	}
	return strings.Join(names, ", ")
}

// initial returns the first letter or digit of a name, as a capital, or "?".
func initial(name string) string {
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return "?"
}

// onColor returns black or white, whichever has the greater contrast to a colour, which is 4.5:1 or more (WCAG 2.2,
// relative luminance); white for what is no colour.
func onColor(color string) string {
	hex := strings.TrimPrefix(color, "#")
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	rgb, err := strconv.ParseUint(hex, 16, 24)
	if err != nil || len(hex) != 6 {
		return "#ffffff"
	}
	// 0.179 is where the contrasts to black and to white are the same.
	if 0.2126*linear(rgb>>16)+0.7152*linear(rgb>>8)+0.0722*linear(rgb) > 0.179 {
		return "#000000"
	}
	return "#ffffff"
}

// linear returns the light of a channel of sRGB, the lowest byte of c, from 0 to 1.
func linear(c uint64) float64 {
	v := float64(c&0xff) / 255
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}
