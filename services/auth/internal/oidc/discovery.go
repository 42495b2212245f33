package oidc

import "context"

// Metadata returns the provider's metadata (OpenID Connect Discovery 1.0, RFC 8414). It fails as Off does, and with
// ErrNoClient while there are no clients.
func (s *Service) Metadata(ctx context.Context) (map[string]any, error) {
	st, err := s.on(ctx)
	if err != nil {
		return nil, err
	}
	if len(st.clients) == 0 {
		return nil, ErrNoClient
	}
	at := s.o.Issuer + "/oidc/"
	authentication := []string{"client_secret_basic", "client_secret_post", "none"}
	return map[string]any{
		"issuer":                 s.o.Issuer,
		"authorization_endpoint": at + "authorize",
		"token_endpoint":         at + "token",
		"userinfo_endpoint":      at + "userinfo",
		"jwks_uri":               at + "jwks",
		"end_session_endpoint":   at + "end-session",
		"revocation_endpoint":    at + "revoke",
		"revocation_endpoint_auth_methods_supported":     authentication,
		"introspection_endpoint":                         at + "introspect",
		"introspection_endpoint_auth_methods_supported":  authentication[:2],
		"backchannel_logout_supported":                   true,
		"backchannel_logout_session_supported":           true,
		"pushed_authorization_request_endpoint":          at + "par",
		"device_authorization_endpoint":                  at + "device",
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query", "form_post"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", GrantDevice},
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []Alg{RS256, ES256},
		"scopes_supported":                               scopes,
		"token_endpoint_auth_methods_supported":          authentication,
		"code_challenge_methods_supported":               []string{"S256"},
		"acr_values_supported":                           strength,
		"prompt_values_supported":                        []string{"none", "login", "consent", "select_account"},
		"claim_types_supported":                          []string{"normal"},
		"claims_parameter_supported":                     false,
		"request_parameter_supported":                    false,
		"request_uri_parameter_supported":                false,
		"ui_locales_supported":                           []string{"de", "en"},
		"authorization_response_iss_parameter_supported": true,
		"claims_supported": []string{
			"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "sid", "jti", "acr", "amr", "at_hash", "name",
			"preferred_username", "nickname", "email", "email_verified", "groups",
		},
	}, nil
}
