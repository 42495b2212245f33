package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
)

// races are run on one program for each database, with users of their own.
var races = []struct {
	rule string
	run  func(t *testing.T, p *program, admin *browser)
}{
	{"No login survives a deletion under way", noLoginSurvivesADeletionUnderWay},
	{"No login with the old password survives its change", noLoginWithTheOldPasswordSurvivesItsChange},
	{"Of two password changes at once one succeeds", ofTwoPasswordChangesAtOnceOneSucceeds},
	{"Of many password changes of one user one succeeds", ofManyPasswordChangesOfOneUserOneSucceeds},
	{"Of two admins who delete each other one remains", ofTwoAdminsWhoDeleteEachOtherOneRemains},
	{"Of many creations of one username one succeeds", ofManyCreationsOfOneUsernameOneSucceeds},
	{"No request under way brings a logged out session back", noRequestUnderWayBringsALoggedOutSessionBack},
}

func TestRaces(t *testing.T) {
	eachDatabase(t, func(t *testing.T, p *program) {
		for i, r := range races {
			t.Run(r.rule, func(t *testing.T) {
				here := p.within(t, i)
				r.run(t, here, here.loggedIn(adminName, adminPass))
			})
		}
	})
}

func noLoginSurvivesADeletionUnderWay(t *testing.T, p *program, admin *browser) {
	names, ids := admin.users(many, "admin")
	browsers := make([]*browser, many)
	atOnce(2*many, func(i int) {
		if i%2 == 0 {
			admin.delete(ids[i/2])
			return
		}
		browsers[i/2] = p.browser()
		if status, body := browsers[i/2].login(names[i/2], oldPass); status != http.StatusOK && status != http.StatusUnauthorized {
			t.Errorf("login: %d %s", status, body)
		}
	})
	for i, b := range browsers {
		if b.usable() {
			t.Errorf("%s is deleted and still logged in", names[i])
		}
	}
}

func noLoginWithTheOldPasswordSurvivesItsChange(t *testing.T, p *program, admin *browser) {
	names, _ := admin.users(many, "member")
	changing, browsers := p.allLoggedIn(many, func(i int) string { return names[i] }), make([]*browser, many)
	atOnce(2*many, func(i int) {
		if i%2 == 0 {
			if status := changing[i/2].change(oldPass, newPass); status != http.StatusOK && status != unknown {
				t.Errorf("change: %d", status)
			}
			return
		}
		browsers[i/2] = p.browser()
		if status, body := browsers[i/2].login(names[i/2], oldPass); status != http.StatusOK && status != http.StatusUnauthorized {
			t.Errorf("login: %d %s", status, body)
		}
	})
	for i := range many {
		if browsers[i].usable() {
			t.Errorf("%s changed the password, and the old one is still logged in", names[i])
		}
		if !changing[i].usable() {
			t.Errorf("%s changed the password and lost the session", names[i])
		}
	}
}

func ofTwoPasswordChangesAtOnceOneSucceeds(t *testing.T, p *program, admin *browser) {
	names, _ := admin.users(many/2, "member")
	browsers := p.allLoggedIn(many, func(i int) string { return names[i/2] })
	statuses := make([]int, many)
	atOnce(many, func(i int) { statuses[i] = browsers[i].change(oldPass, newPass+strconv.Itoa(i)) })
	for i := 0; i < many; i += 2 {
		winner, loser := i, i+1
		if statuses[loser] == http.StatusOK {
			winner, loser = loser, winner
		}
		if statuses[winner] != http.StatusOK && slices.Contains(statuses[i:i+2], unknown) {
			t.Logf("%s: got %d and %d, which does not show the winner", names[i/2], statuses[i], statuses[i+1])
			continue
		}
		if statuses[winner] != http.StatusOK || statuses[loser] != http.StatusUnauthorized && statuses[loser] != unknown {
			t.Fatalf("%s: got %d and %d", names[i/2], statuses[i], statuses[i+1])
		}
		if !browsers[winner].usable() || browsers[loser].usable() {
			t.Errorf("%s: the winner's session lives: %t, the loser's: %t", names[i/2], browsers[winner].usable(), browsers[loser].usable())
		}
		if status, _ := p.browser().login(names[i/2], newPass+strconv.Itoa(winner)); status != http.StatusOK {
			t.Errorf("%s: the status %d with the winner's password", names[i/2], status)
		}
	}
}

func ofManyPasswordChangesOfOneUserOneSucceeds(t *testing.T, p *program, admin *browser) {
	names, _ := admin.users(1, "member")
	b := p.loggedIn(names[0], oldPass)
	statuses := make([]int, many)
	atOnce(many, func(i int) { statuses[i] = b.change(oldPass, newPass+strconv.Itoa(i)) })
	if got := count(statuses); got[http.StatusOK] > 1 || got[http.StatusOK] == 0 && got[unknown] == 0 || got[http.StatusOK]+got[http.StatusUnauthorized]+got[unknown] != many {
		t.Errorf("got %v", got)
	}
}

func ofTwoAdminsWhoDeleteEachOtherOneRemains(t *testing.T, p *program, admin *browser) {
	names, ids := admin.users(many, "admin")
	browsers := p.allLoggedIn(many, func(i int) string { return names[i] })
	statuses := make([]int, many)
	atOnce(many, func(i int) {
		statuses[i], _ = browsers[i].request(http.MethodDelete, prefix+"/users/"+ids[i^1], "")
	})
	for i := 0; i < many; i += 2 {
		winner, loser := i, i+1
		if statuses[loser] == http.StatusOK {
			winner, loser = loser, winner
		}
		if statuses[winner] != http.StatusOK || statuses[loser] != http.StatusForbidden && statuses[loser] != http.StatusUnauthorized {
			t.Errorf("got %d and %d", statuses[i], statuses[i+1])
		}
		if !browsers[winner].usable() || browsers[loser].usable() {
			t.Errorf("the winner's session lives: %t, the loser's: %t", browsers[winner].usable(), browsers[loser].usable())
		}
	}
}

func TestRaces_AdminsThatDeleteEachOtherLeaveOne(t *testing.T) {
	eachDatabase(t, func(t *testing.T, p *program) {
		admin := p.loggedIn(adminName, adminPass)
		const n = 10
		names, ids := admin.users(n, "admin")
		browsers := append(make([]*browser, 0, n+1), admin)
		for _, name := range names {
			browsers = append(browsers, p.loggedIn(name, oldPass))
		}
		ids = append([]string{"1"}, ids...)
		atOnce(many*2, func(i int) {
			by, whom := i%(n+1), (i/(n+1)+i+1)%(n+1)
			if by != whom {
				_, _ = browsers[by].request(http.MethodDelete, prefix+"/users/"+ids[whom], "")
			}
		})
		left := 0
		for _, b := range browsers {
			if b.usable() {
				left++
				b.want(http.StatusOK, http.MethodGet, prefix+"/users", "")
			}
		}
		if left == 0 {
			t.Error("no admin is left")
		}
	})
}

func ofManyCreationsOfOneUsernameOneSucceeds(t *testing.T, _ *program, admin *browser) {
	statuses := make([]int, many)
	atOnce(many, func(i int) {
		name := "same"
		if i%2 == 1 {
			name = "SAME"
		}
		statuses[i], _ = admin.request(http.MethodPost, prefix+"/users", fmt.Sprintf(`{"username":%q,"display_name":"x","password":%q}`, name, oldPass))
	})
	if got := count(statuses); got[http.StatusCreated] != 1 || got[http.StatusConflict] != many-1 {
		t.Errorf("got %v", got)
	}
}

func noRequestUnderWayBringsALoggedOutSessionBack(t *testing.T, p *program, admin *browser) {
	names, _ := admin.users(many, "member")
	browsers := p.allLoggedIn(many, func(i int) string { return names[i] })
	thieves := make([]*browser, many)
	for i, b := range browsers {
		thieves[i] = b.duplicate()
	}
	atOnce(3*many, func(i int) {
		switch b, thief := browsers[i/3], thieves[i/3]; i % 3 {
		case 0:
			b.logout()
		case 1:
			if status, body := thief.steadily(http.MethodGet, prefix+"/me", ""); status != http.StatusOK && status != http.StatusUnauthorized {
				t.Errorf("me: %d %s", status, body)
			}
		default:
			_, _ = thief.request(http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
		}
	})
	for i := range browsers {
		if thieves[i].usable() {
			t.Errorf("%s has logged out and is still logged in", names[i])
		}
	}
}

func TestLoginLimit_IsThatOfItsSettings(t *testing.T) {
	p := start(t, settings(t, redistest.Start(t), "RATE_LIMIT_WINDOW_MS", "3600000", "RATE_LIMIT_MAX_ATTEMPTS", "2"))
	b := p.loggedIn(adminName, adminPass)
	for _, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusTooManyRequests} {
		if status, body := p.browser().login(adminName, "wrong"); status != want {
			t.Errorf("got %d %s, want %d", status, body, want)
		}
		b.want(want, http.MethodPatch, prefix+"/me/password", `{"current_password":"wrong","new_password":"new password"}`)
	}
	wrong := strings.NewReader(`{"username":"` + adminName + `","password":"wrong"}`)
	resp, err := http.Post(p.main+prefix+"/login", "application/json", wrong)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if policy := resp.Header.Get("RateLimit-Policy"); policy != "2;w=3600" {
		t.Errorf("the policy is %q", policy)
	}
}

func TestRaces_ABurstOfWrongLoginsGetsExactlyTheLimit(t *testing.T) {
	p := start(t, settings(t, redistest.Start(t)))
	statuses := make([]int, many)
	atOnce(many, func(i int) { statuses[i], _ = p.browser().login(adminName, "wrong") })
	if got := count(statuses); got[http.StatusUnauthorized] != 5 || got[http.StatusTooManyRequests] != many-5 {
		t.Errorf("got %v", got)
	}
}
