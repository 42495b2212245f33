package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// TestLogouts_ArriveOnceWithinASecond has two replicas tell an application of 30 logins that end at once.
func TestLogouts_ArriveOnceWithinASecond(t *testing.T) {
	const logins = 30
	for name, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			database := fresh(t)
			if database == "" {
				t.Skip("not installed")
			}
			type arrival struct {
				sid string
				at  time.Time
			}
			arrivals := make(chan arrival, 10*logins)
			application := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				parts := strings.Split(r.PostFormValue("logout_token"), ".")
				var head, claims map[string]any
				for i, into := range []*map[string]any{&head, &claims} {
					raw, err := base64.RawURLEncoding.DecodeString(parts[i])
					if err == nil {
						err = json.Unmarshal(raw, into)
					}
					if err != nil {
						t.Error(err)
					}
				}
				if head["typ"] != "logout+jwt" || head["alg"] != "RS256" || claims["aud"] != "photos" || claims["nonce"] != nil {
					t.Errorf("got %v %v", head, claims)
				}
				arrivals <- arrival{fmt.Sprint(claims["sid"]), time.Now()}
			}))
			defer application.Close()

			stores := apptest.Open(t, database, nil)
			parts := stores.Build(t, func(o *apptest.Options) { o.Web.PublicURL = "https://home.example.org" })
			ctx := t.Context()
			otto := apptest.Must(parts.People.Add(ctx, people.NewUser{Username: "otto", DisplayName: "Otto", Password: "battery staple"}))(t)
			if err := parts.Policy.CreateApplication(ctx, session.Session{}, policy.NewApplication{Slug: "photos", URL: "https://photos.example.org"}); err != nil {
				t.Fatal(err)
			}
			apptest.Must(parts.OIDC.Create(ctx, session.Session{}, oidc.Client{Slug: "photos", Redirects: []string{"https://photos.example.org/cb"}, LogoutURI: application.URL + "/out"}))(t)
			client := apptest.Must(parts.OIDC.Client(ctx, "photos"))(t)
			person, _, err := stores.SQL.Grants.Person(ctx, otto.ID, client.ApplicationID)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]int{}
			for i := range logins {
				g := oidc.Grant{
					ID: oidc.NewGrantID(), ApplicationID: client.ApplicationID, UserID: otto.ID, Login: fmt.Sprint("l", i), Stamp: person.User.SessionStamp, Scopes: []string{"openid"},
					AuthTime: time.Unix(1, 0), Factor: session.Password,
				}
				if _, err := stores.SQL.Grants.CreateGrant(ctx, g); err != nil {
					t.Fatal(err)
				}
				want[g.ID] = 0
			}

			running, stop := context.WithCancel(ctx)
			var replicas sync.WaitGroup
			for range 2 {
				m := apptest.Must(oidc.NewLogoutSender(oidc.LogoutOptions{
					Store: stores.SQL.Logouts, Off: parts.OIDC.Off, Sign: parts.OIDC.Sign, Issuer: parts.OIDC.Issuer(), Transport: &http.Transport{}, Count: func(string) {}, Waiting: func(int) {},
					Log: slog.New(slog.DiscardHandler), Now: time.Now,
				}))(t)
				replicas.Go(func() { m.Run(running) })
			}
			begin := time.Now()
			apptest.Must(stores.SQL.Users.EndSessions(ctx, otto.ID, session.Session{}))(t)
			var last time.Duration
			for range logins {
				select {
				case a := <-arrivals:
					want[a.sid]++
					last = a.at.Sub(begin)
				case <-time.After(20 * time.Second):
					t.Fatal("it took too long")
				}
			}
			time.Sleep(600 * time.Millisecond) // in which both replicas look again
			stop()
			replicas.Wait()
			close(arrivals)
			for a := range arrivals {
				want[a.sid]++
			}
			for sid, n := range want {
				if n != 1 {
					t.Errorf("%s was told %d times", sid, n)
				}
			}
			t.Logf("the last of %d after %s", logins, last)
			if last > 3*time.Second { // a second where the machine is not busy with other tests
				t.Errorf("the last of %d after %s", logins, last)
			}
		})
	}
}
