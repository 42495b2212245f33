// Package batch lets calls that come at once make one trip to a store together.
//
// It owns who travels with whom. A call that comes when no trip is under way goes
// at once, alone; those that come meanwhile go together on the next one, when the
// first is over or has become slow, and share the answer where they ask for the
// same. So nothing waits for company, and the busier a program is, the less a
// call costs. A trip begins after each of its calls was made: what a call learns
// is never older than the call.
package batch
