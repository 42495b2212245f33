package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/sqldb"
)

// settle finds out, when nothing fails any more, what became of the calls that
// had no answer, tries all sessions again, and counts the administrators.
func (h *house) settle(ctx context.Context, users string) {
	h.client = &http.Client{Timeout: readyWithin}
	admins, err := adminNames(ctx, users)
	if err != nil || len(admins) == 0 {
		h.violated("there is no administrator left (%v)", err)
		return
	}
	boss := h.boss(ctx, admins[0])
	if boss == nil {
		return
	}
	if h.leaving != nil && !h.exists(ctx, boss, h.leaving) {
		h.leaving.gone.Store(true)
	}
	for _, s := range []*session{h.admin, h.second} {
		if h.second != nil && !h.exists(ctx, boss, s.person) {
			s.gone.Store(true)
		}
	}
	if h.changing != nil {
		h.whichPassword(ctx)
	}
	h.tryAll(ctx)
	h.last(ctx, boss)
	h.tryAll(ctx)
	h.streamsEnd(streamsEndWithin)
}

// boss logs the administrator who is left in.
func (h *house) boss(ctx context.Context, name string) *session {
	password := oldPassword
	if name == layout.AdminName {
		password = h.adminPassword
	}
	var boss *session
	err := until(ctx, func(ctx context.Context) error {
		status := 0
		if boss, status = h.login(ctx, &person{name: name}, password, false); boss == nil {
			return fmt.Errorf("login: %d", status)
		}
		return nil
	})
	if err != nil {
		h.violated("the administrator who is left cannot log in: %v", err)
	}
	return boss
}

func (h *house) exists(ctx context.Context, boss *session, p *person) bool {
	r := h.ask(ctx, boss, http.MethodGet, "/users", nil)
	if r.status != http.StatusOK {
		h.violated("an administrator cannot list the users: %d %s", r.status, r.body)
		return true
	}
	return containsID(r.body, p.id)
}

// containsID tells whether a list of users has an id.
func containsID(list []byte, id int64) bool {
	var answer struct {
		Data []struct {
			ID int64 `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(list, &answer) != nil {
		return false
	}
	for _, user := range answer.Data {
		if user.ID == id {
			return true
		}
	}
	return false
}

// whichPassword tells whether a change that had no answer has happened. It may
// still be under way, and happen between the two questions.
func (h *house) whichPassword(ctx context.Context) {
	p := h.changing
	for range 2 {
		isNew := h.accepts(ctx, p, newPassword, false)
		p.changed.Store(isNew)
		isOld := h.accepts(ctx, p, oldPassword, true)
		if isOld && isNew {
			h.violated("two passwords of %s are accepted", p.name)
		}
		if isNew {
			h.count("password changes", 1)
		}
		if isOld || isNew {
			return
		}
	}
	h.violated("no password of %s is accepted", p.name)
}

// accepts logs in until the answer is yes or no.
func (h *house) accepts(ctx context.Context, p *person, password string, old bool) bool {
	for {
		s, status := h.login(ctx, p, password, old)
		if s != nil || status == http.StatusUnauthorized {
			return s != nil
		}
		if ctx.Err() != nil {
			h.violated("login does not answer when all is well again: %d", status)
			return false
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// last deletes who should have been, and logs out whoever is still there: now
// this must work.
func (h *house) last(ctx context.Context, boss *session) {
	if h.leaving != nil && !h.leaving.gone.Load() {
		if status := h.remove(ctx, boss, h.leaving); status != http.StatusOK {
			h.violated("a member cannot be deleted: %d", status)
		}
	}
	for _, s := range h.all() {
		if s.over() != "" || s == boss {
			continue
		}
		switch r := h.ask(ctx, s, http.MethodPost, "/logout", nil); r.status {
		case http.StatusOK, http.StatusUnauthorized:
			s.ended.Store(true)
		default:
			h.violated("a session cannot be logged out: %d %s", r.status, r.body)
		}
	}
}

// adminNames reads the administrators where auth keeps them.
func adminNames(ctx context.Context, path string) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	db, err := sqldb.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, "SELECT username FROM users WHERE role = 'admin' ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
