package bench

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/deploy/internal/stack"
)

const (
	// fewest is how much the smaller of two worlds holds. The larger one holds
	// suite.most, in quick measurements less.
	fewest = 1_000
	// sessionsPerUser is how many sessions there are for each user.
	sessionsPerUser = 100
	// deletions is how many users are deleted for a figure.
	deletions = 5
)

// besideFew heads the column of the smaller world.
var besideFew = "with " + count(fewest)

// sessionsGrow measures whether the work for one client grows with the sessions and
// the users that others left.
func (s *suite) sessionsGrow() {
	s.line("\n## More sessions and users\n\nIn two services side by side, with %s sessions beside %s, and a user for every %d of them.", count(s.most), count(fewest), sessionsPerUser)
	s.section("sessions", func(s *suite) { s.table(besideFew, s.compareAccounts(s.pair((*world).fillAccounts))...) })
	s.section("users", (*suite).users)
}

// ledgerGrows measures whether a sale's work grows with the payments before it.
func (s *suite) ledgerGrows(database string) {
	about := ""
	if database == "Postgres" {
		about = " Postgres does not wait for its disk."
	}
	s.line("\n## More payments: %s\n\nIn two services side by side, with %s payments beside %s, through a proxy each.%s", database, count(s.most), count(fewest), about)
	s.table(besideFew, s.compareLedgers(s.pair(func(w *world, n int) { w.fillLedger(database, n) }))...)
}

// pair opens two worlds, one filled with fewest of something and one with most.
func (s *suite) pair(fill func(w *world, n int)) (both [2]*world) {
	for i, n := range []int{fewest, s.most} {
		both[i] = s.open(s.bin)
		began := time.Now()
		fill(both[i], n)
		s.progress("filled with %s in %v", count(n), time.Since(began).Round(time.Second))
	}
	return both
}

// fillAccounts starts auth with sessions and users.
func (w *world) fillAccounts(sessions int) {
	w.start(w.redis(), w.Auth())
	_, err := w.login(w.Addresses.Auth)
	w.must(err)
	w.copySessions(sessions)
	w.importUsers(1, sessions/sessionsPerUser)
}

// compareAccounts measures sessions, the list of users, and the end of a user.
func (s *suite) compareAccounts(both [2]*world) []row {
	var sessions, lists []cell
	var deleting, keys [2]samples
	for i, w := range both {
		admin, err := w.login(w.Addresses.Auth)
		s.must(err)
		deleting[i], keys[i] = w.deleteUsers(admin), samples{float64(w.redisCLI("DBSIZE"))}
		sessions = append(sessions, w.cell(me, w.Addresses.Auth, w.pids("auth", "redis")...))
		lists = append(lists, w.listing(admin))
	}
	r, list := s.compare(sessions...), s.compare(lists...)
	few, many := r[0], r[1]
	users := []int{fewest / sessionsPerUser, s.most / sessionsPerUser}
	perUser := func(i int) samples { return samples{list[i].cost.median() / float64(users[i])} }
	return []row{
		{what: "sessions: keys in Redis", ours: keys[1], beside: keys[0]},
		faster("sessions: "+string(me), many.rate, few.rate, atLeast(.9)),
		{what: "sessions: " + string(me), unit: "µs of auth and Redis", ours: many.cost, beside: few.cost, ratio: many.cost.over(few.cost), goal: atMost(1.1)},
		{what: "sessions: delete a user with theirs", unit: "ms", ours: deleting[1], beside: deleting[0], ratio: samples{deleting[1].median() / deleting[0].median()}},
		{what: fmt.Sprintf("users: `GET /users` of %s beside %s", count(users[1]), count(users[0])), unit: "µs per user", ours: perUser(1), beside: perUser(0), ratio: perUser(1).over(perUser(0)), goal: atMost(1)},
	}
}

// noteKeys remembers the keys of user 1, because looking for them among a million
// others takes a second.
const noteKeys = `
redis.call('DEL', 'noted')
return redis.call('SADD', 'noted', unpack(redis.call('KEYS', '*:{u1}:*')))`

// copyKeys copies the sessions of user 1 for users from..to: all their keys, under
// the hash tags of the others. It knows nothing of what is in them. A script that
// names keys it was not given is fine on one server.
const copyKeys = `
local made = 0
for _, key in ipairs(redis.call('SMEMBERS', 'noted')) do
  local before, after = string.match(key, '^(.*){u1}(.*)$')
  for user = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    made = made + redis.call('COPY', key, before .. '{u' .. string.format('%d', user) .. '}' .. after, 'REPLACE')
  end
end
return made`

// firstOther is the first of the users who get copies: no user has such an id.
const firstOther = 1_000_000_000

// copySessions makes n sessions.
func (w *world) copySessions(n int) {
	const step = 20_000 // so that Redis answers others meanwhile
	w.redisCLI("EVAL", noteKeys, "0")
	for from := 0; from < n; from += step {
		to := min(from+step, n) - 1
		if made := w.redisCLI("EVAL", copyKeys, "0", strconv.Itoa(firstOther+from), strconv.Itoa(firstOther+to)); made < to-from+1 {
			w.Fatalf("redis: %d keys copied for %d users", made, to-from+1)
		}
	}
}

// redisCLI runs a command whose reply is an integer.
func (w *world) redisCLI(words ...string) int {
	out := w.run(stack.Program{Path: "redis-cli"}, append([]string{"-p", portOf(w.Redis)}, words...)...)
	reply, err := strconv.Atoi(strings.TrimSpace(string(out)))
	w.must(err)
	return reply
}

// deleteUsers creates users, logs each in, deletes them, and returns how long the
// deletions took, in milliseconds.
func (w *world) deleteUsers(admin http.Header) (took samples) {
	for i := range deletions {
		credentials := fmt.Sprintf(`{"username":"guest-%d","password":"a password"}`, i)
		var made struct{ User struct{ ID int64 } }
		w.call(w.Addresses.Auth, http.MethodPost, usersPath, strings.Replace(credentials, "{", `{"display_name":"guest",`, 1), admin, &made)
		w.call(w.Addresses.Auth, http.MethodPost, loginPath, credentials, nil, nil)
		began := time.Now()
		w.call(w.Addresses.Auth, http.MethodDelete, fmt.Sprintf("%s/%d", usersPath, made.User.ID), "", admin, nil)
		took = append(took, milli(time.Since(began)))
	}
	return took
}

// listing is a load of the list of users.
func (w *world) listing(admin http.Header) cell {
	return cell{name: "list of users", addr: w.Addresses.Auth, pids: w.pids("auth"), clients: 4, status: http.StatusOK, requests: [][]byte{request(http.MethodGet, usersPath, "", admin)}}
}

// users measures the list of users as it grows.
func (s *suite) users() {
	w := s.open(s.bin)
	w.start(w.redis(), w.Auth())
	admin, err := w.login(w.Addresses.Auth)
	s.must(err)
	several := w.listing(admin)
	one := several
	one.clients = 1
	lines, costs := [][]string{{"users", "answers/s", "µs of processor", "p50 of one client, ms"}}, samples{}
	for before, n := 1, 1; n <= 1000; before, n = n, n*10 {
		w.importUsers(before, n)
		r := s.compare(several, one)
		costs = append(costs, r[0].cost.median())
		lines = append(lines, []string{count(n), r[0].rate.String(), r[0].cost.String(), r[1].p50.String()})
	}
	s.line("\n`GET /users` by %d clients, and by one. A user more in the list costs %s µs.", several.clients, figure((costs[len(costs)-1]-costs[0])/999))
	s.cells(lines...)
}

// importUsers raises the number of users, the administrator among them, from before
// to n with auth's own import.
func (w *world) importUsers(before, n int) {
	if n == before {
		return
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("a password"), bcrypt.MinCost)
	w.must(err)
	var csv strings.Builder
	csv.WriteString("username,display_name,password_hash\n")
	for i := before; i < n; i++ {
		fmt.Fprintf(&csv, "user-%d,Benutzer Nr. %d,%s\n", i, (i*7919)%n, hash)
	}
	file := filepath.Join(w.State, "users.csv")
	w.must(os.WriteFile(file, []byte(csv.String()), 0o600))
	w.run(w.Auth(), "user", "import", "--from", file, "--apply")
}
