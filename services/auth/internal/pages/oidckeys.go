package pages

import (
	"slices"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// keysPath is the path of the page of the keys that sign what applications learn.
const keysPath = root + "admin/keys"

// signingKeys has the page of the keys.
type signingKeys struct{ *Pages }

type keysPage struct {
	Keys []oidc.StoredKey
	Next bool // a next key is published already
}

// page lists the keys: those that sign, then the next, the retired and the revoked ones.
func (p signingKeys) page(r *request) (err error) {
	page := keysPage{}
	if page.Keys, err = p.OIDC.KeyList(r.ctx()); err != nil {
		return err
	}
	order := []oidc.KeyState{oidc.KeyActive, oidc.KeyNext, oidc.KeyRetired, oidc.KeyRevoked}
	slices.SortStableFunc(page.Keys, func(a, b oidc.StoredKey) int {
		return slices.Index(order, a.State) - slices.Index(order, b.State)
	})
	page.Next = slices.ContainsFunc(page.Keys, func(k oidc.StoredKey) bool { return k.State == oidc.KeyNext })
	return p.render(r, "keys", r.text["Keys"], page)
}

// rotate publishes a next key of each algorithm that has none.
func (p signingKeys) rotate(r *request) error {
	if r.form.get("do") != "rotate" {
		return web.ErrMalformed
	}
	return r.done(keysPath, "keys-rotated", p.OIDC.RotateKeys(r.ctx()))
}
