package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// pricedBody is the answer to a GET of a paid path: what a call costs, and how to make it.
type pricedBody struct {
	errorBody
	Method   string `json:"method"`
	PriceUSD string `json:"priceUSD"`
	Network  string `json:"network"`
	// Documentation is the address of a text for models and people, Interface that of the OpenAPI document.
	Documentation string `json:"documentation"`
	Interface     string `json:"interface"`
}

// pricedPage is pricedBody as a page for people.
var pricedPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title></head>
<body><h1>{{.Title}}</h1>
<p>Programs buy this here: {{.Subject}}, for {{.PriceUSD}} USD, paid by x402 on {{.Network}}.
They send <code>POST</code> with JSON; a call that is refused charges nothing.</p>
<p><a href="{{.Documentation}}">How to buy</a> · <a href="{{.Interface}}">Interface</a> ·
<a href="{{.Check}}">Check a receipt</a></p>
</body></html>
`))

// priced returns the handler of a GET or HEAD of a paid path: 405, with what a caller needs to buy.
func (s *paidRoute) priced(title, subject string) (echo.HandlerFunc, error) {
	header := http.Header{
		"Cache-Control": {"no-store"},
		"Vary":          {"Accept"},
		"Link":          {`</openapi.json>; rel="service-desc", </llms.txt>; rel="service-doc"`},
		// The page loads nothing, and is in no other page.
		"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	}
	body := pricedBody{
		errorBody: errorBody{
			Error: "This is sold: send POST with JSON, and pay " + s.usd() + " USD by x402",
			Code:  http.StatusMethodNotAllowed, Reason: "method_not_allowed",
		},
		Method: http.MethodPost, PriceUSD: s.usd(), Network: s.Terms.Network,
		Documentation: s.PublicURL + "/llms.txt", Interface: s.PublicURL + "/openapi.json",
	}
	object, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = pricedPage.Execute(&page, struct {
		pricedBody
		Title, Subject, Check string
	}{body, title, "signed evidence about " + subject, s.PublicURL + checkPath})
	if err != nil {
		return nil, err
	}
	forPrograms := answer{status: body.Code, header: header, body: object}
	forPeople := answer{body.Code, header, "text/html; charset=utf-8", page.Bytes()}
	return func(c echo.Context) error {
		if strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
			return forPeople.write(c)
		}
		return forPrograms.write(c)
	}, nil
}

// priced returns the handler of a GET or HEAD of the path, with the price of one question.
func (b *batchRoute) priced() (echo.HandlerFunc, error) {
	return b.routes[0].priced("Verify many at once",
		fmt.Sprintf("up to %d transactions and transfers, each", maxQuestions))
}
