package pages

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const (
	// perPage is how many entries of a list a page shows at most.
	perPage = 50
	// searchable is from how many entries on a list offers a search.
	searchable = 10
	// maxSearch bounds a search, in bytes.
	maxSearch = 256
)

// listing is the part of a list that a page shows: one page of the entries that a search finds.
type listing[T any] struct {
	Shown []T
	Place place
}

// place is where a listing is in its list, for the templates "search" and "pages".
type place struct {
	T           texts
	Query       string // of the search; empty: there is none
	All, Found  int
	Page, Pages int // from 1
	path        string
}

// listed returns the part of a list that the page's query asks for: page is its number, and q a search for entries
// whose text has all of its words. Other numbers are the nearest page.
func listed[T any](r *request, all []T, text func(T) string) listing[T] {
	query := r.QueryParam("q")
	query = strings.TrimSpace(strings.ToValidUTF8(query[:min(len(query), maxSearch)], ""))
	found := all
	if words := strings.Fields(plain(query)); len(words) > 0 {
		found = nil
		for _, entry := range all {
			if hasAll(plain(text(entry)), words) {
				found = append(found, entry)
			}
		}
	}
	at := place{
		T: r.text, Query: query, All: len(all), Found: len(found), Pages: max(1, (len(found)+perPage-1)/perPage),
		path: r.Request().URL.Path,
	}
	number, _ := strconv.Atoi(r.QueryParam("page"))
	at.Page = min(max(number, 1), at.Pages)
	from := (at.Page - 1) * perPage
	return listing[T]{found[from:min(from+perPage, len(found))], at}
}

// plain returns a text as a search compares it: in small letters and without accents, so that "jorg" finds "Jörg".
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(text))
}

func hasAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// Searchable reports whether a search is offered.
func (p place) Searchable() bool { return p.All >= searchable || p.Query != "" }

// Here, Previous, Next and Whole are URLs: of the listing that is shown, of its neighbours, which are empty where there
// is none, and of the list without a search.
func (p place) Here() string     { return p.at(p.Page) }
func (p place) Previous() string { return p.at(p.Page - 1) }
func (p place) Next() string     { return p.at(p.Page + 1) }
func (p place) Whole() string    { return p.path }

func (p place) at(page int) string {
	if page < 1 || page > p.Pages {
		return ""
	}
	query := url.Values{}
	if p.Query != "" {
		query.Set("q", p.Query)
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return withQuery(p.path, query)
}

// inList returns the query of a redirect back to the listing that a form was on, and what was done.
func (r *request) inList(done string) url.Values {
	query := url.Values{"done": {done}}
	for _, name := range []string{"q", "page"} {
		if value := r.QueryParam(name); value != "" {
			query.Set(name, value)
		}
	}
	return query
}
