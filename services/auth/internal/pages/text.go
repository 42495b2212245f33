package pages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// texts are all words of the pages in one language, by key. Those whose keys end with F, and some others, are formats
// for fmt.Sprintf. Keys that begin with "done." are what a redirect says has just been done, with "factor." how a
// session was proved, with eventKey what the audit records.
type texts map[string]string

func readTexts(lang string) (t texts, err error) {
	file, err := files.ReadFile("texts/" + lang + ".json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(file, &t); err != nil {
		return nil, fmt.Errorf("pages: texts of %s: %w", lang, err)
	}
	return t, nil
}

// moment returns a time in words, as of now: the day by name if it is today or next to it, else the date.
func (t texts) moment(at, now time.Time) string {
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	clock := at.Format("15:04")
	switch day(at).Sub(day(now)) {
	case 0:
		return fmt.Sprintf(t["Today"], clock)
	case -24 * time.Hour:
		return fmt.Sprintf(t["Yesterday"], clock)
	case 24 * time.Hour:
		return fmt.Sprintf(t["Tomorrow"], clock)
	}
	return fmt.Sprintf(t["DateF"], at.Day(), strings.Fields(t["Months"])[at.Month()-1], at.Year(), clock)
}

func (t texts) day(at time.Time) string {
	return fmt.Sprintf(t["DayF"], at.Day(), strings.Fields(t["Months"])[at.Month()-1], at.Year())
}

// duration returns a duration in words, rounded to hours: in days where these are whole days.
func (t texts) duration(d time.Duration) string {
	hours := int(d.Round(time.Hour).Hours())
	switch {
	case hours == 24:
		return t["DayOne"]
	case hours%24 == 0:
		return fmt.Sprintf(t["WholeDaysF"], hours/24)
	case hours == 1:
		return t["HourOne"]
	}
	return fmt.Sprintf(t["HoursF"], hours)
}

// eventKey begins the keys of the names of events of the audit in words.
const eventKey = "event."

// eventNames returns the names of all events of the audit, in the order of their words.
func (t texts) eventNames() []string {
	names := audit.Names()
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(t[eventKey+a], t[eventKey+b]) })
	return names
}

// deviceName returns browser and system of a User-Agent in words.
func (t texts) deviceName(userAgent string) string { return t.agentName(session.AgentOf(userAgent)) }

// agentName is deviceName for what the audit and known browsers have: "Chrome, Linux".
func (t texts) agentName(agent string) string {
	browser, system, both := strings.Cut(agent, ", ")
	switch {
	case both:
		return fmt.Sprintf(t["DeviceOnF"], browser, system)
	case agent == "":
		return t["UnknownDevice"]
	}
	return agent
}

// skew returns in words by how much the clock of a device is ahead, or behind if negative.
func (t texts) skew(ahead time.Duration) string {
	format := t["ClockAheadF"]
	if ahead < 0 {
		format, ahead = t["ClockBehindF"], -ahead
	}
	return fmt.Sprintf(format, max(1, int(ahead.Round(time.Minute).Minutes())))
}
