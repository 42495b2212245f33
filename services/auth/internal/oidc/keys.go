package oidc

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// complete reports whether each algorithm has an active key that can be opened.
func (s *Service) complete(keys []StoredKey) bool {
	for _, alg := range []Alg{RS256, ES256} {
		if k, ok := active(keys, alg); !ok || !s.o.Signer.Opens(k) {
			return false
		}
	}
	return true
}

// active returns the key that signs with alg, and whether there is one.
func active(keys []StoredKey, alg Alg) (StoredKey, bool) {
	i := slices.IndexFunc(keys, func(k StoredKey) bool { return k.Alg == alg && k.State == KeyActive })
	if i < 0 {
		return StoredKey{}, false
	}
	return keys[i], true
}

// makeKeys gives each algorithm an active key that can be opened, and returns all keys. An active key that cannot be
// opened is retired: DATA_KEY is another one. A retired key that is still published and can be opened becomes active
// again, so that no new keys are made each time DATA_KEY changes back, or two replicas have different ones.
func (s *Service) makeKeys(ctx context.Context) (made []StoredKey, err error) {
	err = s.o.Keys.ChangeKeys(ctx, false, func(keys []StoredKey) ([]StoredKey, error) {
		made = s.o.Signer.Reseal(keys)
		for _, alg := range []Alg{RS256, ES256} {
			k, ok := active(made, alg)
			if ok && s.o.Signer.Opens(k) {
				continue
			}
			if ok {
				s.o.Log.WarnContext(ctx, "a signing key cannot be opened and is replaced: was DATA_KEY lost?", "kid",
					k.ID)
				s.set(made, k.ID, KeyRetired)
			}
			if earlier := slices.IndexFunc(made, func(k StoredKey) bool {
				return k.Alg == alg && k.State == KeyRetired && k.Published(s.o.Now()) && s.o.Signer.Opens(k)
			}); earlier >= 0 {
				s.set(made, made[earlier].ID, KeyActive)
				continue
			}
			fresh, err := s.fresh(alg, KeyActive)
			if err != nil {
				return nil, err
			}
			made = append(made, fresh)
		}
		return made, nil
	})
	return made, err
}

func (s *Service) fresh(alg Alg, as KeyState) (StoredKey, error) {
	k, err := s.o.Signer.Generate(alg)
	k.State, k.Since = as, s.o.Now().UTC().Truncate(time.Second)
	return k, err
}

// set changes the state of the key with an id.
func (s *Service) set(keys []StoredKey, id string, to KeyState) {
	for i := range keys {
		if keys[i].ID == id && keys[i].State != to {
			keys[i].State, keys[i].Since = to, s.o.Now().UTC().Truncate(time.Second)
		}
	}
}

// KeyList returns all keys, for the operator.
func (s *Service) KeyList(ctx context.Context) ([]StoredKey, error) { return s.o.Keys.Keys(ctx) }

// RotateKeys publishes a KeyNext of each algorithm that has none. That key does not sign at once, so that no client
// meets a key that it does not know yet. ErrNoDataKey.
func (s *Service) RotateKeys(ctx context.Context) error {
	defer s.snapshot.Outdate()
	return s.o.Keys.ChangeKeys(ctx, true, func(keys []StoredKey) ([]StoredKey, error) {
		for _, alg := range []Alg{RS256, ES256} {
			if slices.ContainsFunc(keys, func(k StoredKey) bool { return k.Alg == alg && k.State == KeyNext }) {
				continue
			}
			k, err := s.fresh(alg, KeyNext)
			if err != nil {
				return nil, err
			}
			keys = append(keys, k)
		}
		return keys, nil
	})
}

// RevokeKey revokes a key. If it was active, the next key of its algorithm, or a new one, becomes active. ErrNoKey;
// ErrNoDataKey if a new one cannot be made.
func (s *Service) RevokeKey(ctx context.Context, id string) error {
	defer s.snapshot.Outdate()
	return s.o.Keys.ChangeKeys(ctx, true, func(keys []StoredKey) ([]StoredKey, error) {
		i := slices.IndexFunc(keys, func(k StoredKey) bool { return k.ID == id })
		if i < 0 {
			return nil, ErrNoKey
		}
		before := keys[i]
		s.set(keys, id, KeyRevoked)
		if before.State != KeyActive {
			return keys, nil
		}
		next := slices.IndexFunc(keys, func(k StoredKey) bool { return k.Alg == before.Alg && k.State == KeyNext })
		if next >= 0 {
			s.set(keys, keys[next].ID, KeyActive)
			return keys, nil
		}
		k, err := s.fresh(before.Alg, KeyActive)
		return append(keys, k), err
	})
}

// KeepKeys takes keys to their next states when it is time, seals again what the previous DATA_KEY has sealed, and
// forgets keys that were retired or revoked KeyVerifies ago. It does nothing where Options.Off is set.
func (s *Service) KeepKeys(ctx context.Context) error {
	if s.o.Off != nil {
		return nil
	}
	defer s.snapshot.Outdate()
	return s.o.Keys.ChangeKeys(ctx, false, func(keys []StoredKey) ([]StoredKey, error) {
		keys, now := s.o.Signer.Reseal(keys), s.o.Now()
		for _, k := range slices.Clone(keys) {
			if k.State != KeyNext || now.Sub(k.Since) < KeyAhead {
				continue
			}
			if before, ok := active(keys, k.Alg); ok {
				s.set(keys, before.ID, KeyRetired)
			}
			s.set(keys, k.ID, KeyActive)
		}
		return slices.DeleteFunc(keys, func(k StoredKey) bool {
			return (k.State == KeyRetired || k.State == KeyRevoked) && now.Sub(k.Since) >= KeyVerifies
		}), nil
	})
}

// KeySet returns the published keys (RFC 7517), RSA first. It fails as Off does, and with ErrNoClient where there are
// none, because there was no client yet. After the last client they stay: its logouts may be on their way.
func (s *Service) KeySet(ctx context.Context) ([]json.RawMessage, error) {
	st, err := s.on(ctx)
	if err != nil {
		return nil, err
	}
	keys := slices.Clone(st.keys)
	slices.SortStableFunc(keys, func(a, b StoredKey) int { return -cmp.Compare(a.Alg, b.Alg) }) // RS256, ES256
	var set []json.RawMessage
	for _, k := range keys {
		if k.Published(s.o.Now()) {
			set = append(set, json.RawMessage(k.JWK))
		}
	}
	if len(set) == 0 {
		return nil, ErrNoClient
	}
	return set, nil
}

// Sign signs a token of a type with the active key of an algorithm. It fails as Off does, and with ErrSealed where
// there is no such key or it cannot be opened.
func (s *Service) Sign(ctx context.Context, alg Alg, typ string, claims any) (string, error) {
	st, err := s.on(ctx)
	if err != nil {
		return "", err
	}
	k, ok := active(st.keys, alg)
	if !ok {
		return "", ErrSealed
	}
	return s.o.Signer.Sign(ctx, k, typ, claims)
}

// VerifyHint returns the claims, JSON, of an ID token of ours, which may have expired. ErrToken; it fails as Off does.
func (s *Service) VerifyHint(ctx context.Context, token string) ([]byte, error) {
	st, err := s.on(ctx)
	if err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(slices.Clone(st.keys), func(k StoredKey) bool {
		return k.State == KeyRevoked || k.State == KeyRetired && s.o.Now().Sub(k.Since) >= KeyVerifies
	})
	return s.o.Signer.Verify(keys, TypeID, token)
}
