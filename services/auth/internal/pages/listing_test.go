package pages_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// maxPage is what a page may weigh, in bytes.
const maxPage = 40 << 10

// full is a household with an admin and 199 members, all in a group.
func full(t *testing.T) *fixture {
	t.Helper()
	f := newEmptyFixture(t)
	f.add("anna", "Anna", adminPass, "admin")
	ids := []int64{}
	for i := 1; i < 200; i++ {
		n := user.New{
			Username: fmt.Sprintf("person%03d", i), DisplayName: fmt.Sprintf("Jörg Beispiel-Mustermann %03d", i),
			PasswordHash: "x", AvatarColor: user.DefaultAvatarColor, Role: user.Member,
		}
		ids = append(ids, must(f.store.Users.Create(t.Context(), n, session.Session{}))(t).ID)
	}
	if err := f.store.Groups.CreateGroup(t.Context(), "team", "Das ganze Team", ids, session.Session{}); err != nil {
		t.Fatal(err)
	}
	return f
}

var memberLink = regexp.MustCompile(`href="/pforte/admin/members/\d+"`)

func TestLists_OfAHouseholdOf200HavePagesAndASearch(t *testing.T) {
	f := full(t)
	anna := f.anna()
	shown := func(path string) []string {
		return memberLink.FindAllString(anna.get(path).want(http.StatusOK).body, -1)
	}

	seen := map[string]bool{}
	for page := 1; page <= 4; page++ {
		links := shown(fmt.Sprintf("/pforte/admin/members?page=%d", page))
		if len(links) != 50 {
			t.Errorf("page %d shows %d members, want 50", page, len(links))
		}
		for _, link := range links {
			seen[link] = true
		}
	}
	if len(seen) != 200 {
		t.Errorf("the pages show %d members, want 200", len(seen))
	}
	anna.get("/pforte/admin/members").shows("Seite 1 von 4").lacks("rel=\"prev\"")
	for _, page := range []string{"99", "-1", "x", "99999999999999999999"} {
		anna.get("/pforte/admin/members?page=" + page).want(http.StatusOK).shows("von 4")
	}
	for query, want := range map[string]int{
		"person007": 1, "JORG+007": 1, "j%C3%B6rg+mustermann+007": 1, "Jo%CC%88rg+007": 1, "team": 50, "nobody": 0,
		"anna": 1, "+": 50, "%ff": 50, strings.Repeat("x", 4000): 0,
	} {
		if links := shown("/pforte/admin/members?q=" + query); len(links) != want {
			t.Errorf("%.20s: found %d, want %d", query, len(links), want)
		}
	}
	anna.get("/pforte/admin/members?q=nobody").shows("Niemand gefunden.", `value="nobody"`)
	anna.get("/pforte/admin/members?q=jorg&page=2").shows("Seite 2 von 4", "page=3&q=jorg")

	for _, path := range []string{
		"/pforte/admin/members", "/pforte/admin/groups", "/pforte/admin/groups/team", "/pforte/admin/members/7",
		"/pforte/admin/audit",
	} {
		if page := anna.get(path).want(http.StatusOK); len(page.body) > maxPage {
			t.Errorf("%s weighs %d bytes, more than %d", path, len(page.body), maxPage)
		}
	}
}

// TestGroup_APageChangesWhomItShows has 150 members on other pages, who stay.
func TestGroup_APageChangesWhomItShows(t *testing.T) {
	f := full(t)
	anna := f.anna()
	const here = "/pforte/admin/groups/team?page=2&q=person"
	page := anna.get(here).want(http.StatusOK)
	fields := []string{"do", "change"}
	was := regexp.MustCompile(`name="(was\.\d+)"`).FindAllStringSubmatch(page.body, -1)
	if len(was) != 50 {
		t.Fatalf("the page shows %d members, want 50", len(was))
	}
	for i, match := range was {
		fields = append(fields, match[1], "yes")
		if i > 0 { // all but one stay
			fields = append(fields, strings.Replace(match[1], "was", "member", 1), "yes")
		}
	}
	anna.post(here, fields...).leadsTo("/pforte/admin/groups/team?done=profile&page=2&q=person")
	for _, g := range must(f.policy.Groups(t.Context()))(t) {
		if len(g.Members) != 198 {
			t.Errorf("%d members are left, want 198", len(g.Members))
		}
	}
}

func TestLists_OfAFamilyOfferNoSearch(t *testing.T) {
	anna := newFixture(t).anna()
	anna.get("/pforte/admin/members").want(http.StatusOK).lacks(`role="search"`, `class="pages"`)
}

// TestRules_OfAHouseholdOf200HavePagesAndASearch: who has no second factor is a long list too.
func TestRules_OfAHouseholdOf200HavePagesAndASearch(t *testing.T) {
	f := full(t)
	anna := f.anna()
	const path = "/pforte/admin/security"
	page := anna.get(path).want(http.StatusOK).shows("Seite 1 von 4")
	if links := memberLink.FindAllString(page.body, -1); len(links) != 50 || len(page.body) > maxPage {
		t.Errorf("%d members in %d bytes", len(links), len(page.body))
	}
	anna.get(path + "?page=4").shows("Seite 4 von 4")
	if links := memberLink.FindAllString(anna.get(path+"?q=jorg+042").want(http.StatusOK).body, -1); len(links) != 1 {
		t.Errorf("a search finds %d members", len(links))
	}
	anna.get(path + "?q=nobody").want(http.StatusOK).lacks("Alle haben einen zweiten Faktor.")
	anna.post(path, "required", "yes").leadsTo(path + "?done=profile")
}
