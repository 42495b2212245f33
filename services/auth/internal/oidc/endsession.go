package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
)

// LogoutRequest is an application's request to log its user out (OpenID Connect RP-Initiated Logout 1.0). It is zero
// unless it is Known.
type LogoutRequest struct {
	Client Client // zero: unknown
	Grant  string // ID of the grant whose ID token was shown
	// To is where the application wants the user back: one of the client's AfterLogout, with the state; empty: nowhere.
	To string
}

// Known reports whether the request is well formed and shows an ID token of ours for a client that still exists.
func (f LogoutRequest) Known() bool { return f.Client.ID != "" }

// EndSession reads a request for a logout, and changes nothing. For one that is not Known it returns the zero
// LogoutRequest. It fails as Off does.
func (s *Service) EndSession(ctx context.Context, values url.Values) (LogoutRequest, error) {
	st, err := s.on(ctx)
	if err != nil {
		return LogoutRequest{}, err
	}
	for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri", "state"} {
		if len(values[name]) > 1 {
			return LogoutRequest{}, nil
		}
	}
	text, err := s.VerifyHint(ctx, values.Get("id_token_hint"))
	if errors.Is(err, ErrToken) {
		return LogoutRequest{}, nil
	}
	if err != nil {
		return LogoutRequest{}, err
	}
	var claims struct{ Iss, Aud, Sid string }
	if err := json.Unmarshal(text, &claims); err != nil {
		return LogoutRequest{}, nil //nolint:nilerr // it is none of ours then
	}
	c, known := st.clients[claims.Aud]
	if !known || claims.Iss != s.o.Issuer || values.Has("client_id") && values.Get("client_id") != c.ID {
		return LogoutRequest{}, nil
	}
	f := LogoutRequest{Client: c, Grant: claims.Sid}
	if to := values.Get("post_logout_redirect_uri"); slices.Contains(c.AfterLogout, to) {
		f.To = withState(to, values.Get("state"))
	}
	return f, nil
}

// withState returns an address with the state of a request, unless that is too long.
func withState(to, state string) string {
	if state == "" || len(state) > maxState {
		return to
	}
	return Answer{To: to, Values: url.Values{"state": {state}}}.URL()
}

// EndLogin ends a user's login at the application of a request, and at no other. The application is told as of any
// logout (OpenID Connect Back-Channel Logout 1.0). It does nothing for a request that is not Known, and for a login
// that has ended or is another user's.
func (s *Service) EndLogin(ctx context.Context, f LogoutRequest, userID int64) error {
	if !f.Known() {
		return nil
	}
	h, err := s.o.Grants.Held(ctx, f.Grant)
	another := h.UserID != userID || h.ApplicationID != f.Client.ApplicationID
	if errors.Is(err, ErrGrantEnded) || err == nil && another {
		return nil
	}
	if err == nil {
		err = s.o.Grants.EndGrant(ctx, f.Grant, EndedByLogout)
	}
	return err
}
