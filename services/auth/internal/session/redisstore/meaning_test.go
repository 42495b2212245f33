package redisstore_test

import (
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// testMeaning checks the meaning of every method on stores that open returns.
func testMeaning(t *testing.T, open opener) {
	tests := map[string]func(*suite){
		"a session is loaded as it was created":                   found,
		"creating the same session again changes nothing":         createAgain,
		"an unknown session, or of another user, is not found":    unknown,
		"a session ends when it is not used":                      expires,
		"a session lives on while it is used":                     renewed,
		"a session that lasts longer is shortened by a use":       shortened,
		"a session does not live on for being looked at":          lookedAt,
		"a session lasts as long as its device is to":             ofDevices,
		"of sessions on devices the one used longest ago ends":    endsLeastUsed,
		"a deleted session is gone, and only that one":            deleted,
		"nothing brings a session back that is gone":              neverBack,
		"nothing brings a session back that has expired":          neverBackExpired,
		"without the user's fence there is no session":            unfenced,
		"revoking takes the fence away":                           revokeFence,
		"all sessions of a user are revoked":                      revokeAll,
		"all sessions of a user but one are revoked":              revokeOthers,
		"the session used longest ago is removed":                 removesOldest,
		"a CSRF token is added only where there is none":          addCSRF,
		"the sessions of a user are listed, last used first":      list,
		"a sweep forgets expired sessions and no other":           sweep,
		"a replaced session is gone, and the next one is there":   rotated,
		"a session that has ended is not replaced":                notRotated,
		"a pending login is loaded as it was created, with tries": pendingFound,
		"a pending login ends after five tries":                   pendingTries,
		"a pending login ends after five minutes":                 pendingExpires,
		"a pending login is no session and a session not pending": pendingIsNoSession,
		"a finished pending login is a session, once":             pendingFinished,
		"a revocation leaves no pending login that can finish":    pendingFenced,
		"a ceremony is taken once, and within five minutes":       ceremonyOnce,
		"a hand-over is taken once, and within half a minute":     handOverOnce,
		"a session opens a host by one secret, and no other host": hostOpened,
		"the hosts of a session end with it":                      hostsEnd,
		"the use of a host renews its session":                    hostRenews,
		"a session opens 30 hosts, those opened last":             hostsBounded,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(newSuite(t, open)) })
	}
}

func found(s *suite) {
	made := s.next(42)
	made.Username, made.UserAgent = "Anna.B_c-1", "Mozilla/5.0 (\"x\"; ü 👩) \n%s"
	s.ok(s.store.Create(s.Context(), made, s.fence(42), lasting(day)))
	s.same(s.load(made.Ref), made)
	plain := session.Session{Ref: session.Ref{UserID: 1<<63 - 1, Key: made.Key}, Role: "admin", Factor: session.Password, CreatedAt: made.CreatedAt, AuthAt: made.CreatedAt, Login: made.Key}
	s.ok(s.store.Create(s.Context(), plain, s.fence(plain.UserID), lasting(day)))
	s.same(s.load(plain.Ref), plain)
	s.same(s.load(made.Ref), made)
}

func createAgain(s *suite) {
	made, fence := s.next(42), s.fence(42)
	for range 2 {
		s.ok(s.store.Create(s.Context(), made, fence, lasting(day)))
	}
	s.same(s.load(made.Ref), made)
	s.same(s.keys(42), []string{made.Key})
}

func unknown(s *suite) {
	made := s.create(42, day)
	s.gone(session.Ref{UserID: 42}, session.Ref{UserID: 42, Key: made.Key[1:]}, session.Ref{UserID: 43, Key: made.Key}, session.Ref{UserID: 4, Key: "2" + made.Key})
	s.same(s.keys(43), []string{})
	s.ok(s.store.Delete(s.Context(), session.Ref{UserID: 43, Key: made.Key}))
	s.same(s.load(made.Ref), made)
}

func expires(s *suite) {
	unused, used := s.create(42, short), s.create(42, short)
	s.load(used.Ref)
	s.pass(short)
	s.pass(short / 10)
	s.gone(unused.Ref)
	s.same(s.keys(42), []string{used.Key})
	_, err := s.store.AddCSRFToken(s.Context(), unused.Ref, "token")
	s.refused(err, session.ErrNotFound)
	ended, err := s.store.Revoke(s.Context(), 42, "")
	s.ok(err)
	s.same(ended, 1)
}

func renewed(s *suite) {
	made := s.create(42, short)
	for range 3 {
		s.pass(short / 2)
		_, err := s.store.Load(s.Context(), made.Ref, lasting(short))
		s.ok(err)
	}
	infos, err := s.store.List(s.Context(), 42)
	s.ok(err)
	s.same(len(infos), 1)
	s.pass(short + short/10)
	s.gone(made.Ref)
}

// shortened has a session that was created under a longer lifetime, and another one of the
// user's that keeps its own.
func shortened(s *suite) {
	made, other := s.create(42, day), s.create(42, day)
	_, err := s.store.Load(s.Context(), made.Ref, session.Lifetimes{})
	s.ok(err)
	s.pass(short + short/10)
	_, err = s.store.Load(s.Context(), made.Ref, lasting(short))
	s.ok(err)
	s.pass(short + short/10)
	s.gone(made.Ref)
	s.load(other.Ref)
	s.same(s.keys(42), []string{other.Key})
}

// devices are lifetimes of which those on shared devices are over first.
var devices = session.Lifetimes{Any: day, Own: 30 * day, Shared: short}

func (s *suite) on(d session.Device) session.Session {
	s.Helper()
	made := s.next(42)
	made.Device = d
	s.ok(s.store.Create(s.Context(), made, s.fence(42), devices))
	return made
}

func ofDevices(s *suite) {
	anywhere, own, shared := s.on(session.AnyDevice), s.on(session.OwnDevice), s.on(session.SharedDevice)
	lasts := func(ref session.Ref, want time.Duration) {
		s.Helper()
		infos, err := s.store.List(s.Context(), 42)
		s.ok(err)
		for _, i := range infos {
			if left := time.Until(i.ExpiresAt); s.Advance == nil && i.Ref == ref && (left > want || left < want-2*short) {
				s.Errorf("%s lasts %v, want %v", i.Device, left, want)
			}
		}
	}
	for range 3 {
		for _, m := range []session.Session{anywhere, own, shared} {
			got, err := s.store.Load(s.Context(), m.Ref, devices)
			s.ok(err)
			s.same(got, m)
			lasts(m.Ref, devices.Of(m.Device))
		}
		s.pass(short / 2)
	}
	next := shared
	next.Key = s.next(42).Key
	s.ok(s.store.Rotate(s.Context(), shared.Ref, next, s.fence(42), devices))
	lasts(next.Ref, short)
	s.pass(short + short/10)
	_, err := s.store.Load(s.Context(), next.Ref, devices)
	s.refused(err, session.ErrNotFound)
	for _, m := range []session.Session{anywhere, own} {
		_, err := s.store.Load(s.Context(), m.Ref, devices)
		s.ok(err)
	}
	// A setting that is lowered holds from the next use.
	_, err = s.store.Load(s.Context(), own.Ref, session.Lifetimes{Any: day, Own: short, Shared: short})
	s.ok(err)
	s.pass(short + short/10)
	_, err = s.store.Load(s.Context(), own.Ref, devices)
	s.refused(err, session.ErrNotFound)
}

// endsLeastUsed fills a user's sessions with those on their own device, which expire last, and one that is used.
func endsLeastUsed(s *suite) {
	lifetimes := session.Lifetimes{Any: day, Own: 30 * day, Shared: day / 2}
	create := func(d session.Device) session.Session {
		made := s.next(42)
		made.Device = d
		s.ok(s.store.Create(s.Context(), made, s.fence(42), lifetimes))
		s.pass(10 * time.Millisecond)
		return made
	}
	first := create(session.OwnDevice)
	used := create(session.SharedDevice)
	for range session.MaxPerUser - 2 {
		create(session.OwnDevice)
	}
	create(session.AnyDevice)
	s.gone(first.Ref)
	_, err := s.store.Load(s.Context(), used.Ref, lifetimes)
	s.ok(err)
	s.same(len(s.keys(42)), session.MaxPerUser)
}

func lookedAt(s *suite) {
	made := s.create(42, short)
	for range 2 {
		s.pass(short / 3)
		seen, err := s.store.Load(s.Context(), made.Ref, session.Lifetimes{})
		s.ok(err)
		s.same(seen, made)
	}
	s.pass(short/3 + short/10)
	s.gone(made.Ref)
}

func deleted(s *suite) {
	made, other, stranger := s.create(42, day), s.create(42, day), s.create(43, day)
	for range 2 {
		s.ok(s.store.Delete(s.Context(), made.Ref))
		s.gone(made.Ref)
	}
	s.same(s.keys(42), []string{other.Key})
	s.load(other.Ref)
	s.load(stranger.Ref)
}

func neverBack(s *suite) {
	made := s.create(42, day)
	s.ok(s.store.Delete(s.Context(), made.Ref))
	s.gone(made.Ref)
	_, err := s.store.AddCSRFToken(s.Context(), made.Ref, "token")
	s.refused(err, session.ErrNotFound)
	_, err = s.store.Revoke(s.Context(), 42, made.Key)
	s.ok(err)
	_, err = s.store.Sweep(s.Context())
	s.ok(err)
	s.gone(made.Ref)
	s.same(s.keys(42), []string{})
}

func neverBackExpired(s *suite) {
	expired := s.create(42, short)
	s.create(42, day) // the user goes on
	s.pass(short + short/10)
	s.gone(expired.Ref)
	_, err := s.store.Revoke(s.Context(), 42, expired.Key)
	s.ok(err)
	s.gone(expired.Ref)
	s.same(s.keys(42), []string{})
}

func unfenced(s *suite) {
	made := s.next(42)
	s.refused(s.store.Create(s.Context(), made, "", lasting(day)), session.ErrFenced)
	s.refused(s.store.Create(s.Context(), made, "guess", lasting(day)), session.ErrFenced)
	own, foreign := s.fence(42), s.fence(43)
	s.refused(s.store.Create(s.Context(), made, foreign, lasting(day)), session.ErrFenced)
	s.gone(made.Ref)
	s.same(s.fence(42), own)
	s.ok(s.store.Create(s.Context(), made, own, lasting(day)))
	s.ok(s.store.Create(s.Context(), s.next(42), own, lasting(day)))
}

func revokeFence(s *suite) {
	before, other := s.fence(42), s.fence(43)
	_, err := s.store.Revoke(s.Context(), 42, "")
	s.ok(err)
	made := s.next(42)
	s.refused(s.store.Create(s.Context(), made, before, lasting(day)), session.ErrFenced)
	s.gone(made.Ref)
	after := s.fence(42)
	s.refused(s.store.Create(s.Context(), made, before, lasting(day)), session.ErrFenced)
	s.ok(s.store.Create(s.Context(), made, after, lasting(day)))
	s.ok(s.store.Create(s.Context(), s.next(43), other, lasting(day)))
}

func revokeAll(s *suite) {
	a, b, stranger := s.create(42, day), s.create(42, day), s.create(43, day)
	for _, want := range []int{2, 0} {
		ended, err := s.store.Revoke(s.Context(), 42, "")
		s.ok(err)
		s.same(ended, want)
	}
	s.gone(a.Ref, b.Ref)
	s.same(s.keys(42), []string{})
	s.load(stranger.Ref)
}

func revokeOthers(s *suite) {
	a, kept, b, stranger := s.create(42, day), s.create(42, day), s.create(42, day), s.create(43, day)
	ended, err := s.store.Revoke(s.Context(), 42, kept.Key)
	s.ok(err)
	s.same(ended, 2)
	s.gone(a.Ref, b.Ref)
	s.same(s.load(kept.Ref), kept)
	s.same(s.keys(42), []string{kept.Key})
	ended, err = s.store.Revoke(s.Context(), 42, stranger.Key)
	s.ok(err)
	s.same(ended, 1)
	s.gone(kept.Ref)
	s.load(stranger.Ref)
}

func addCSRF(s *suite) {
	with, without := s.create(42, day), s.next(42)
	without.CSRFToken = ""
	s.ok(s.store.Create(s.Context(), without, s.fence(42), lasting(day)))
	for _, token := range []string{"first", "second"} {
		got, err := s.store.AddCSRFToken(s.Context(), without.Ref, token)
		s.ok(err)
		s.same(got, "first")
		got, err = s.store.AddCSRFToken(s.Context(), with.Ref, token)
		s.ok(err)
		s.same(got, with.CSRFToken)
	}
	s.same(s.load(without.Ref).CSRFToken, "first")
	s.same(s.load(with.Ref), with)
}

func list(s *suite) {
	a, b := s.create(42, day), s.create(42, day)
	s.create(43, day)
	s.pass(short + short/10)
	s.load(b.Ref)
	s.pass(short + short/10)
	before, err := s.store.List(s.Context(), 42)
	s.ok(err)
	s.load(a.Ref)
	infos, err := s.store.List(s.Context(), 42)
	s.ok(err)
	s.same(len(infos), 2)
	s.same([]session.Session{infos[0].Session, infos[1].Session}, []session.Session{a, b})
	s.same(infos[1], before[0])
	if renewed := infos[0].ExpiresAt; !renewed.After(before[0].ExpiresAt) || renewed.Sub(before[0].ExpiresAt) > time.Minute {
		s.Fatalf("expires at %v, the other at %v", renewed, before[0].ExpiresAt)
	}
}

func sweep(s *suite) {
	live := []string{}
	for userID := int64(1); userID <= 20; userID++ {
		s.create(userID, short)
		s.create(userID, short)
		live = append(live, s.create(userID, day).Key)
	}
	swept, err := s.store.Sweep(s.Context())
	s.ok(err)
	s.same(swept, session.Swept{Live: 60})
	s.pass(short + short/10)
	for _, want := range []int{40, 0} {
		swept, err = s.store.Sweep(s.Context())
		s.ok(err)
		s.same(swept, session.Swept{Expired: want, Live: 20})
	}
	for i, key := range live {
		s.same(s.keys(int64(i+1)), []string{key})
	}
}

// removesOldest fills a user's sessions, uses all but two of them, and makes more.
func removesOldest(s *suite) {
	stranger := s.create(43, day)
	var made []session.Session
	for range session.MaxPerUser {
		made = append(made, s.create(42, day))
		s.pass(10 * time.Millisecond)
	}
	s.same(len(s.keys(42)), session.MaxPerUser)
	s.pass(1100 * time.Millisecond)
	for i, m := range made {
		if i != 7 && i != 50 {
			s.load(m.Ref)
		}
	}
	s.pass(10 * time.Millisecond)
	s.create(42, day)
	s.gone(made[7].Ref)
	s.load(made[50].Ref)
	s.pass(10 * time.Millisecond)
	last, fence := s.next(42), s.fence(42)
	for range 3 { // a reply was lost, and the call made again
		s.ok(s.store.Create(s.Context(), last, fence, lasting(day)))
	}
	s.gone(made[0].Ref)
	s.load(made[1].Ref)
	s.load(last.Ref)
	s.load(stranger.Ref)
	s.same(len(s.keys(42)), session.MaxPerUser)
}
