package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/web"
)

type audits struct{ *api }

// auditQuery returns the query of a request to /audit or /audit.csv. web.ErrQuery.
func auditQuery(c echo.Context) (audit.Query, error) {
	q := audit.Query{Event: c.QueryParam("event")}
	for name, into := range map[string]*int64{"before": &q.Before.ID, "user_id": &q.UserID} {
		if text := c.QueryParam(name); text != "" {
			n, err := web.ParseID(text)
			if err != nil {
				return audit.Query{}, web.ErrQuery
			}
			*into = n
		}
	}
	if text := c.QueryParam("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return audit.Query{}, web.ErrQuery
		}
		q.Limit = n
	}
	for name, into := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if text := c.QueryParam(name); text != "" {
			t, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return audit.Query{}, web.ErrQuery
			}
			*into = t
		}
	}
	return q, nil
}

type entryBody struct {
	ID          int64          `json:"id"`
	At          string         `json:"at"`
	Event       string         `json:"event"`
	ActorKind   string         `json:"actor_kind"`
	ActorID     int64          `json:"actor_id,omitempty"`
	ActorName   string         `json:"actor_name"`
	SubjectID   int64          `json:"subject_id,omitempty"`
	SubjectName string         `json:"subject_name"`
	IP          string         `json:"ip"`
	Agent       string         `json:"agent"`
	RequestID   string         `json:"request_id"`
	SessionKey  string         `json:"session_key"`
	Detail      map[string]any `json:"detail,omitempty"`
	Count       int64          `json:"count"`
}

// listAudit is GET /audit.
func (a audits) listAudit(c echo.Context, _ web.Caller) (answer, error) {
	q, err := auditQuery(c)
	if err != nil {
		return answer{}, err
	}
	entries, next, err := a.Audit.Entries(c.Request().Context(), q)
	if err != nil {
		return answer{}, err
	}
	body := struct {
		Data []entryBody `json:"data"`
		Next *int64      `json:"next"` // null: there are no older ones
	}{Data: make([]entryBody, 0, len(entries))}
	if next.ID != 0 {
		body.Next = &next.ID
	}
	for _, e := range entries {
		body.Data = append(body.Data, entryBody{
			ID: e.ID, At: e.At.Format(time.RFC3339), Event: e.Event.Name, ActorKind: string(e.Kind),
			ActorID: e.Actor.ID, ActorName: e.Actor.Name,
			SubjectID: e.SubjectID, SubjectName: e.SubjectName, IP: e.IP, Agent: e.Agent, RequestID: e.RequestID,
			SessionKey: e.SessionKey,
			Detail:     e.Detail, Count: e.Count,
		})
	}
	return answer{http.StatusOK, body}, nil
}

// auditCSV is GET /audit.csv: at most audit.MaxFile entries.
func (a audits) auditCSV(c echo.Context, _ web.Caller) (answer, error) {
	q, err := auditQuery(c)
	if err != nil {
		return answer{}, err
	}
	var file bytes.Buffer
	if err := a.Audit.WriteCSV(c.Request().Context(), &file, q); err != nil {
		return answer{}, err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
	return answer{http.StatusOK, blob{"text/csv; charset=utf-8", file.Bytes()}}, nil
}

// blob is a body that is not JSON.
type blob struct {
	mediaType string
	content   []byte
}
