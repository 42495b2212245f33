package sqlstore

// LastLogin is for the test of its plan.
const LastLogin = lastLogin
