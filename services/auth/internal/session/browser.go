package session

import "strings"

// BrowserOf returns the names of the browser and the operating system in a User-Agent, for
// people to recognize a device by. Each is "" where it is not known. A client may send any.
func BrowserOf(userAgent string) (browser, system string) {
	return firstOf(userAgent, browsers), firstOf(userAgent, systems)
}

type product struct{ mark, name string }

// browsers are in an order in which the first match is right: most browsers also name
// those that they are compatible with.
var browsers = []product{
	{"Edg/", "Edge"},
	{"EdgA/", "Edge"},
	{"EdgiOS/", "Edge"},
	{"OPR/", "Opera"},
	{"Vivaldi/", "Vivaldi"},
	{"SamsungBrowser/", "Samsung Internet"},
	{"FxiOS/", "Firefox"},
	{"Firefox/", "Firefox"},
	{"CriOS/", "Chrome"},
	{"Chromium/", "Chromium"},
	{"Chrome/", "Chrome"},
	{"Safari/", "Safari"},
	{"curl/", "curl"},
}

var systems = []product{
	{"Windows", "Windows"},
	{"Android", "Android"},
	{"iPhone", "iOS"},
	{"iPad", "iPadOS"},
	{"CrOS", "ChromeOS"},
	{"Macintosh", "macOS"},
	{"Mac OS X", "macOS"},
	{"Linux", "Linux"},
	{"BSD", "BSD"},
}

func firstOf(userAgent string, products []product) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.mark) {
			return p.name
		}
	}
	return ""
}

// AgentOf returns both names of BrowserOf as the audit and known browsers have them: "Chrome, Linux", or one of the
// two; "" where both are unknown.
func AgentOf(userAgent string) string {
	browser, system := BrowserOf(userAgent)
	return strings.Trim(browser+", "+system, ", ")
}
