package app_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/app"
	"github.com/pforte/pforte/services/auth/internal/password"
)

func TestRun_ServesTheContractOnRedisAndBothDatabases(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for name, url := range sqldbtest.URLs(t) {
		t.Run(name, func(t *testing.T) {
			p := start(t, settings(t, redis, "DATABASE_URL", url, "APP_NAME", name))
			admin := p.loggedIn(adminName, adminPass)
			admin.want(http.StatusCreated, http.MethodPost, prefix+"/users", `{"username":"otto","display_name":"Otto","password":"battery staple"}`)
			if list := admin.want(http.StatusOK, http.MethodGet, prefix+"/users", ""); !strings.Contains(list, `"otto"`) || !strings.Contains(list, `"created_at":"20`) {
				t.Errorf("got %s", list)
			}
			otto, phone := p.loggedIn("otto", "battery staple"), p.loggedIn("otto", "battery staple")
			otto.want(http.StatusForbidden, http.MethodGet, prefix+"/users", "")
			otto.want(http.StatusOK, http.MethodPatch, prefix+"/me/password", `{"current_password":"battery staple","new_password":"another one"}`)
			phone.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
			otto.want(http.StatusOK, http.MethodGet, prefix+"/me", "")
			otto.want(http.StatusOK, http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/x")
			admin.want(http.StatusOK, http.MethodDelete, prefix+"/users/2", "")
			otto.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
			admin.want(http.StatusOK, http.MethodPost, prefix+"/logout", "")
			admin.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
			if code := p.exit(); code != 0 {
				t.Errorf("it ended with %d: %s", code, p.log)
			}
		})
	}
}

// TestRun_HashesNoPasswordToServe would take days otherwise.
func TestRun_HashesNoPasswordToServe(t *testing.T) {
	t.Parallel()
	p := startWith(t, settings(t, redistest.Start(t), "BOOTSTRAP_ADMIN_USERNAME", "", "BOOTSTRAP_ADMIN_PASSWORD", ""), password.Options{Cost: 31})
	if status, body := get(t, p.main+"/health"); status != http.StatusOK {
		t.Errorf("health: %d %s", status, body)
	}
}

// TestRun_KnowsTheCostsOfHashesBeforeARequest stores one costlier than new
// ones: a login with an unknown name must cost as much from the start.
func TestRun_KnowsTheCostsOfHashesBeforeARequest(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	process := app.Process{Passwords: cheap, Process: service.Process{Getenv: func(name string) string { return environment[name] }, Stderr: &buffer{}}}
	costly, err := password.New(password.Options{Cost: cheap.Cost + 2})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := costly.Hash(t.Context(), adminPass)
	if err != nil {
		t.Fatal(err)
	}
	wantCost := func(want int) {
		t.Helper()
		if got, err := app.OpenedWorkCost(t.Context(), process); err != nil || got != want {
			t.Errorf("a comparison that fails has cost %d (%v), want %d", got, err, want)
		}
	}
	wantCost(cheap.Cost)
	mustOperate(t, environment, "username,display_name,password_hash,role\nanna,Anna,"+hash+",admin\n", "user", "import", "--from", "-", "--apply")
	wantCost(cheap.Cost + 2)
}

// TestRun_ServesHealthWhileTheFirstAdminIsCreated and a login waits for them.
func TestRun_ServesHealthWhileTheFirstAdminIsCreated(t *testing.T) {
	t.Parallel()
	addrs, err := freeport.Addrs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, ready := launchWith(t, settings(t, redistest.Start(t), "ADDR", addrs[0]), password.Options{Cost: 13})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		resp, err := http.Get("http://" + addrs[0] + "/health")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("health: %v, %v", resp, err)
		}
	}
	select {
	case <-ready:
		t.Error("health was served only after the first admin was created")
	default:
	}
	resp, err := http.Post("http://"+addrs[0]+"/api/v1/auth/login", "application/json",
		strings.NewReader(`{"username":"`+adminName+`","password":"`+adminPass+`"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("login: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

func TestRun_SessionsAndUsersSurviveARestart(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	first := start(t, environment)
	b := first.loggedIn(adminName, adminPass)
	first.exit()
	environment["BOOTSTRAP_ADMIN_PASSWORD"] = "another first password" // there is a user: not used
	second := start(t, environment)
	second.loggedIn(adminName, adminPass)
	jar := b.client.Jar
	b.p = second // cookies know no port
	b.client.Jar = jar
	b.want(http.StatusOK, http.MethodGet, prefix+"/me", "")
}

// TestRun_SessionsOutliveARotatedSecret is logged in by a cookie that the secret of before has signed.
func TestRun_SessionsOutliveARotatedSecret(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	first := start(t, environment)
	b := first.loggedIn(adminName, adminPass)
	first.exit()
	environment["SESSION_SECRET"] = "another " + secret
	for _, c := range []struct {
		previous string
		want     int
	}{{"", http.StatusUnauthorized}, {secret, http.StatusOK}} {
		environment["SESSION_SECRET_PREVIOUS"] = c.previous
		b.p = start(t, environment)
		b.want(c.want, http.MethodGet, prefix+"/me", "")
		b.p.exit()
	}
}

func TestRun_AdminAddressHasLivezAndMetrics(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, redistest.Start(t)))
	p.loggedIn(adminName, adminPass)
	if status, body := get(t, p.admin+"/livez"); status != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("livez: %d %s", status, body)
	}
	_, metrics := get(t, p.admin+"/metrics")
	for _, line := range []string{
		`auth_http_requests_total{method="POST",route="/api/v1/auth/login",status="200"} 1`, `auth_logins_total{outcome="success"} 1`,
		"auth_passwords_waiting 0", "auth_passwords_computing 0", "auth_passwords_refused_total 0", "go_goroutines ",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("%q is not among the metrics", line)
		}
	}
	for _, path := range []string{"/livez", "/metrics"} {
		if status, _ := get(t, p.main+path); status != http.StatusNotFound {
			t.Errorf("%s on the main address: %d", path, status)
		}
	}
}

func TestRun_ReportsAllFaultsOfTheSettings(t *testing.T) {
	t.Parallel()
	p, _ := launch(t, map[string]string{"LOG_LEVEL": "loud", "REDIS_URL": "http://x"})
	if code := <-p.exited; code != 1 {
		t.Errorf("it ended with %d", code)
	}
	p.exited <- 1
	for _, name := range []string{"LOG_LEVEL: ", "REDIS_URL: ", "SESSION_SECRET: "} {
		if !strings.Contains(p.log.String(), name) {
			t.Errorf("%s is not in %s", name, p.log)
		}
	}
}

// TestRun_SessionLifetimeReachesCookiesAndStore starts with one that is set.
func TestRun_SessionLifetimeReachesCookiesAndStore(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t)
	p := start(t, settings(t, addr, "SESSION_LIFETIME", "2160h"))
	resp, err := http.Post(p.main+prefix+"/login", "application/json", strings.NewReader(`{"username":"`+adminName+`","password":"`+adminPass+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	cookies := resp.Cookies()
	if len(cookies) != 2 || cookies[0].MaxAge != 7776000 || cookies[1].MaxAge != 7776000 {
		t.Errorf("got %v", cookies)
	}
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	for _, pattern := range []string{"svc:{u1}:session:*", "svc:{u1}:sessions"} {
		keys, err := client.Keys(t.Context(), pattern).Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("%s: %v, %v", pattern, keys, err)
		}
		if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl > 2160*time.Hour || ttl < 2160*time.Hour-time.Minute {
			t.Errorf("%s lives for %v", keys[0], ttl)
		}
	}
}

func TestPassword_WellKnownOnesAreRefusedIfSet(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	const change = `{"current_password":"` + adminPass + `","new_password":"password1"}`
	const create = `{"username":"otto","display_name":"Otto","password":"password1"}`
	for setting, want := range map[string][2]int{
		"allow":  {http.StatusCreated, http.StatusOK},
		"refuse": {http.StatusBadRequest, http.StatusBadRequest},
	} {
		p := start(t, settings(t, redis, "COMMON_PASSWORDS", setting, "APP_NAME", setting))
		admin := p.loggedIn(adminName, adminPass)
		admin.want(want[0], http.MethodPost, prefix+"/users", create)
		admin.want(want[1], http.MethodPatch, prefix+"/me/password", change)
	}
}

func TestRun_ASessionLifetimeOutOfBoundsIsAFault(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"59m", "9601h", "seven days"} {
		p, _ := launch(t, settings(t, "127.0.0.1:1", "SESSION_LIFETIME", bad))
		if code := p.wait(10 * time.Second); code != 1 || !strings.Contains(p.log.String(), "SESSION_LIFETIME: ") {
			t.Errorf("%s: it ended with %d: %s", bad, code, p.log)
		}
	}
}

func TestRun_NamesATakenPortWithItsSetting(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, setting := range []string{"ADDR", "ADMIN_ADDR"} {
		p, _ := launch(t, settings(t, redistest.Start(t), setting, taken.Addr().String()))
		if code := p.wait(10 * time.Second); code != 1 || !strings.Contains(p.log.String(), setting+": ") || !strings.Contains(p.log.String(), taken.Addr().String()) {
			t.Errorf("%s: it ended with %d: %s", setting, code, p.log)
		}
	}
}

func TestRun_AnUnusableFirstAdminIsAFault(t *testing.T) {
	t.Parallel()
	p, _ := launch(t, settings(t, redistest.Start(t), "BOOTSTRAP_ADMIN_PASSWORD", "short"))
	if code := p.wait(20 * time.Second); code != 1 || !strings.Contains(p.log.String(), "BOOTSTRAP_ADMIN_PASSWORD: ") {
		t.Errorf("it ended with %d: %s", code, p.log)
	}
}

func TestRun_AnUnusableDatabaseIsAFaultAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := launch(t, settings(t, redistest.Start(t), "DATABASE_URL", "sqlite:/proc/nothing/auth.db"))
	if code := p.wait(20 * time.Second); code != 1 {
		t.Errorf("it ended with %d: %s", code, p.log)
	}
}

// wait returns the exit code of a program that ends by itself.
func (p *program) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case code := <-p.exited:
		p.exited <- code
		return code
	case <-time.After(within):
		p.t.Fatalf("it still runs: %s", p.log)
		return -1
	}
}

func TestRun_AStopFinishesTheRequestsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWire(t, redistest.Start(t))
	p := start(t, settings(t, w.addr()))
	p.loggedIn(adminName, adminPass)
	w.hang()
	answer := make(chan int, 1)
	go func() {
		status, _ := p.browser().login(adminName, adminPass)
		answer <- status
	}()
	time.Sleep(300 * time.Millisecond) // the login waits for Redis
	p.stop()
	time.Sleep(300 * time.Millisecond) // and the program for the login
	w.mend()
	if status := <-answer; status != http.StatusOK {
		t.Errorf("the login was answered %d", status)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("it ended with %d: %s", code, p.log)
	}
	if status, _ := p.browser().login(adminName, adminPass); status != 0 {
		t.Errorf("a stopped program answers %d", status)
	}
}

func TestRun_TheEarlierVariantIsThatOfItsSetting(t *testing.T) {
	t.Parallel()
	for setting, site := range map[string]http.SameSite{
		"false": http.SameSiteLaxMode, "true": http.SameSiteStrictMode,
	} {
		p := start(t, settings(t, redistest.Start(t), "COMPAT_V0", setting))
		login := strings.NewReader(`{"username":"` + adminName + `","password":"` + adminPass + `"}`)
		resp, err := http.Post(p.main+prefix+"/login", "application/json", login)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		cookies := resp.Cookies()
		if len(cookies) != 2 || cookies[0].SameSite != site || cookies[1].SameSite != site {
			t.Errorf("COMPAT_V0=%s: got %v", setting, cookies)
		}
		inHeader, inBody := resp.Header.Get("X-CSRF-Token") != "", strings.Contains(string(body), "csrfToken")
		if later := setting == "false"; inHeader != later || inBody != later {
			t.Errorf("COMPAT_V0=%s: the token is in header and body: %v, %v", setting, inHeader, inBody)
		}
	}
}

func TestRun_TheEarlierVariantNeedsNoSecret(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t), "SESSION_SECRET", "", "COMPAT_V0", "true")
	p := start(t, environment)
	b := p.loggedIn(adminName, adminPass)
	if !strings.Contains(p.log.String(), "SESSION_SECRET is not set") {
		t.Error("no log line about sessions that end with the process")
	}
	p.exit()
	b.p = start(t, environment)
	b.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
}
