package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// The scopes that are known. All others are ignored.
const (
	ScopeOpenID  = "openid"
	ScopeProfile = "profile"
	ScopeEmail   = "email"
	ScopeGroups  = "groups"
	ScopeOffline = "offline_access"
)

var scopes = []string{ScopeOpenID, ScopeProfile, ScopeEmail, ScopeGroups, ScopeOffline}

// knownScopes returns the known scopes of a list that is separated by spaces, each once.
func knownScopes(list string) []string {
	asked := strings.Fields(list)
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return !slices.Contains(asked, s) })
}

// about returns the claims about a person that a client learns with scopes, without the subject. They are in the ID
// token and at userinfo alike: many applications read only one of the two.
func (s *Service) about(c Client, p Person, scopes []string) map[string]any {
	claims := map[string]any{}
	if slices.Contains(scopes, ScopeProfile) {
		claims["name"], claims["preferred_username"], claims["nickname"] = p.User.DisplayName, p.User.Username,
			p.User.Username
	}
	if slices.Contains(scopes, ScopeEmail) {
		switch {
		case p.Email.Address != "":
			claims["email"], claims["email_verified"] = p.Email.Address, p.Email.Confirmed()
		case c.Email:
			claims["email"], claims["email_verified"] = placeholder(p, s.host), true
		}
	}
	if c.TellsGroups(scopes) {
		claims["groups"] = append([]string{string(p.User.Role)}, p.Groups...)
	}
	return claims
}

// TellsGroups reports whether a client learns role and groups with scopes.
func (c Client) TellsGroups(scopes []string) bool {
	return c.Groups == GroupsAlways || c.Groups == GroupsAsked && slices.Contains(scopes, ScopeGroups)
}

// placeholder returns an e-mail address of p in the domain .invalid, which has no mailboxes (RFC 2606). about says
// that it is verified, because some applications refuse the user otherwise.
func placeholder(p Person, host string) string {
	local := strings.ToLower(p.User.Username)
	if strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		local = strings.ReplaceAll(p.Subject, "-", "")
		local = local[:min(len(local), 12)]
	}
	return local + "@" + strings.ReplaceAll(host, ":", "-") + ".invalid"
}

// halfHash returns the claim at_hash of an access token (OpenID Connect Core, section 3.1.3.6).
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}
