package user_test

import (
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/user/usertest"
)

func openMemory(_ *testing.T, now func() time.Time) []user.Store {
	return []user.Store{user.NewMemoryStore(now)}
}

func TestMemoryStore(t *testing.T)           { usertest.Run(t, openMemory) }
func TestMemoryStoreConcurrent(t *testing.T) { usertest.RunConcurrent(t, openMemory) }
