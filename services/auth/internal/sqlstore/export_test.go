package sqlstore

import "time"

// LastLogin is for the test of its plan.
const LastLogin = lastLogin

// A hundred calls at once wait for each other longer than four seconds on a machine that does other work.
func init() { timeout = time.Minute }
