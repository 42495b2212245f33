// Command scs is the account module as one would write it with the session
// library alexedwards/scs on Redis: the routes of auth that are measured beside it,
// and nothing else. Its users are in memory, which costs nothing; auth's are in a
// database.
//
// Settings: PORT, REDIS_PORT, PASSWORD (of the user "admin").
package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/alexedwards/scs/goredisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/crypto/bcrypt"
)

const week = 7 * 24 * time.Hour

type user struct {
	ID           int64  `json:"id"`
	Username     string `json:"username"`
	DisplayName  string `json:"display_name"`
	AvatarColor  string `json:"avatar_color"`
	Role         string `json:"role"`
	passwordHash []byte
}

type server struct {
	sessions *scs.SessionManager
	byName   map[string]user
	byID     map[int64]user
}

func main() {
	hash, err := bcrypt.GenerateFromPassword([]byte(os.Getenv("PASSWORD")), 12)
	if err != nil {
		log.Fatal(err)
	}
	admin := user{1, "admin", "admin", "#007AFF", "admin", hash}
	sessions := scs.New()
	sessions.Store = goredisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("REDIS_PORT")}))
	// A session that is used lives on: scs writes it again with every request.
	sessions.Lifetime, sessions.IdleTimeout = 100*week, week
	sessions.Cookie.Name, sessions.Cookie.Secure = "svc.sid", false
	s := server{sessions, map[string]user{admin.Username: admin}, map[int64]user{admin.ID: admin}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/auth/login", s.login)
	mux.HandleFunc("GET /api/v1/auth/me", s.me)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), sessions.LoadAndSave(mux)))
}

func (s server) login(w http.ResponseWriter, r *http.Request) {
	var body struct{ Username, Password string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	u, ok := s.byName[body.Username]
	if !ok || bcrypt.CompareHashAndPassword(u.passwordHash, []byte(body.Password)) != nil {
		refuse(w, http.StatusUnauthorized)
		return
	}
	if err := s.sessions.RenewToken(r.Context()); err != nil {
		refuse(w, http.StatusInternalServerError)
		return
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token)
	s.sessions.Put(r.Context(), "userId", u.ID)
	s.sessions.Put(r.Context(), "role", u.Role)
	s.sessions.Put(r.Context(), "csrfToken", hex.EncodeToString(token))
	answer(w, u, hex.EncodeToString(token))
}

func (s server) me(w http.ResponseWriter, r *http.Request) {
	u, ok := s.byID[s.sessions.GetInt64(r.Context(), "userId")]
	if !ok {
		refuse(w, http.StatusUnauthorized)
		return
	}
	answer(w, u, s.sessions.GetString(r.Context(), "csrfToken"))
}

func answer(w http.ResponseWriter, u user, csrfToken string) {
	http.SetCookie(w, &http.Cookie{
		Name: "csrf-token", Value: csrfToken, Path: "/", MaxAge: int(week.Seconds()), SameSite: http.SameSiteLaxMode,
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"user": u, "csrfToken": csrfToken})
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": http.StatusText(status), "code": status})
}
