package receiptlog

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Bounds of a policy file. C2SP recommends 32 of each kind at least.
const (
	MaxPolicy = 64 << 10 // bytes
	maxListed = 64       // logs, witnesses and groups, of each
)

// PolicyLog is a log that a policy trusts.
type PolicyLog struct {
	Key Key
	URL string // where it is served; may be empty
}

// Witness is a witness that a policy knows.
type Witness struct {
	Name string // in the policy; has no meaning outside of it
	Key  Key
	URL  string // submission prefix (C2SP tlog-witness); may be empty
}

// Policy says which logs a reader trusts and which witnesses must have cosigned a
// checkpoint (C2SP tlog-policy). One that ParsePolicy did not make accepts nothing.
type Policy struct {
	Logs      []PolicyLog
	Witnesses []Witness
	quorum    *member
	list      *Directory // what the verifier lists, where it is known
}

// WithList returns the policy of a reader who has the verifier's list of its logs. Where the list
// has any generation of a log, Verify and Included refuse a proof of a generation that the list
// does not have, has with another key, or has as closed before the entry. Logs of which it has no
// generation are judged as without a list.
func (p Policy) WithList(d Directory) Policy {
	p.list = &d
	return p
}

// admits checks that the verifier's list does not contradict a checkpoint that the policy accepts
// (WithList). A policy that names several generations of a log needs a list with that log, because
// the signer of a generation to come could run a second log beside the open one. ErrUnlisted.
func (p Policy) admits(checkpoint []byte, origin string, index int64) error {
	if p.list != nil {
		for _, g := range p.list.Logs {
			if g.Origin == origin {
				return g.has(checkpoint, index)
			}
		}
		if slices.ContainsFunc(p.list.Logs, func(g Generation) bool { return SameLog(g.Origin, origin) }) {
			return fmt.Errorf("%w: %s", ErrUnlisted, origin)
		}
	}
	generations := 0
	for _, l := range p.Logs {
		if SameLog(l.Key.name, origin) {
			generations++
		}
	}
	if generations > 1 {
		return fmt.Errorf("%w: %s: the policy names %d generations of this log, and which of them there are "+
			"the verifier's list says, which is not at hand", ErrUnlisted, origin, generations)
	}
	return nil
}

// SameLog reports whether two origins are equal or of generations of one log.
func SameLog(a, b string) bool {
	one, _, ok := GenerationOf(a)
	other, _, ok2 := GenerationOf(b)
	return a == b || ok && ok2 && one == other
}

const (
	// ahead is how many generations after the last known one Origins names. Witnesses may cosign
	// some that have not begun.
	ahead = 3
	// maxOthers is of how many logs that only the list names Origins names the other generations. A verifier
	// has one, and another for each host that it had before.
	maxOthers = 4
)

// Origins returns the origins for which a reader asks a witness, to find logs that the verifier
// does not list: those of the policy and of the list, and all other generations of these logs from
// the first to three after the last one that is named. A named generation above 64 adds no others, nor do logs
// beyond the first four that only the list names.
func (p Policy) Origins(d Directory) []string {
	var all []string
	last := map[string]int64{}
	add := func(origin string, mostLogs int) {
		log, generation, ok := GenerationOf(origin)
		if _, known := last[log]; ok && generation <= maxGenerations && (known || len(last) < mostLogs) {
			last[log] = max(last[log], generation)
		} else {
			all = append(all, origin)
		}
	}
	for _, l := range p.Logs {
		add(l.Key.name, maxListed)
	}
	most := len(last) + maxOthers
	for _, g := range d.Logs {
		add(g.Origin, most)
	}
	for log, generation := range last {
		for n := range generation + ahead {
			all = append(all, fmt.Sprintf("%s/%d", log, n+1))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// member is a witness or a group of a policy.
type member struct {
	witness   int // place in Witnesses; of a witness, which has no members
	threshold int // how many of the members must have cosigned; 0 is "quorum none"
	members   []*member
}

func (m *member) met(counts func(place int) bool) bool {
	if m.members == nil && m.threshold > 0 {
		return counts(m.witness)
	}
	met := 0
	for _, each := range m.members {
		if each.met(counts) {
			met++
		}
	}
	return met >= m.threshold
}

// ParsePolicy reads a policy file. A line that it does not know, a witness whose key is
// not Ed25519 of type 0x04, and a file that is cut off in a line are refused. ErrMalformed.
func ParsePolicy(data []byte) (Policy, error) {
	if len(data) > MaxPolicy {
		return Policy{}, malformed("a policy of more than %d bytes", MaxPolicy)
	}
	for _, char := range data {
		if char < ' ' && char != '\t' && char != '\n' || char == 0x7f {
			return Policy{}, malformed("a policy with the control character 0x%02x", char)
		}
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return Policy{}, malformed("a policy whose last line does not end")
	}
	r := policyReader{names: map[string]*member{}, used: map[string]bool{}, keys: map[string][]Key{}}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		// strings.Fields would also split at Unicode's spaces.
		fields := strings.FieldsFunc(line, func(char rune) bool { return char == ' ' || char == '\t' || char == '\n' })
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := r.line(fields[0], fields[1:]); err != nil {
			return Policy{}, fmt.Errorf("policy, line %d: %w", number, err)
		}
	}
	if r.policy.quorum == nil {
		return Policy{}, malformed("a policy without a quorum")
	}
	return r.policy, nil
}

type policyReader struct {
	policy Policy
	groups int
	names  map[string]*member // witnesses and groups
	used   map[string]bool    // names that are members of a group
	keys   map[string][]Key   // of the lines so far, by public key
}

func (r *policyReader) line(keyword string, args []string) error {
	switch {
	case keyword == "log" && (len(args) == 1 || len(args) == 2):
		return r.log(args)
	case keyword == "witness" && (len(args) == 2 || len(args) == 3):
		return r.witness(args)
	case keyword == "group" && len(args) >= 3:
		return r.group(args[0], args[1], args[2:])
	case keyword == "quorum" && len(args) == 1:
		return r.quorum(args[0])
	default:
		return malformed("neither log, witness, group nor quorum")
	}
}

func (r *policyReader) log(args []string) error {
	k, err := ParseLogKey(args[0])
	if err != nil {
		return err
	}
	if len(r.policy.Logs) == maxListed {
		return malformed("more than %d logs", maxListed)
	}
	r.policy.Logs = append(r.policy.Logs, PolicyLog{Key: k, URL: optional(args[1:])})
	return r.listKey(k)
}

func (r *policyReader) witness(args []string) error {
	k, err := ParseWitnessKey(args[1])
	if err != nil {
		return err
	}
	if len(r.policy.Witnesses) == maxListed {
		return malformed("more than %d witnesses", maxListed)
	}
	place := len(r.policy.Witnesses)
	r.policy.Witnesses = append(r.policy.Witnesses, Witness{Name: args[0], Key: k, URL: optional(args[2:])})
	if err := r.define(args[0], &member{witness: place, threshold: 1}); err != nil {
		return err
	}
	return r.listKey(k)
}

// listKey refuses a key that is listed before, unless both are of logs with different names: a
// witness must not count twice, and a log is no witness of itself.
func (r *policyReader) listKey(k Key) error {
	for _, listed := range r.keys[string(k.public)] {
		if k.kind == typeWitness || listed.kind == typeWitness || listed.name == k.name {
			return malformed("the key of %s is listed twice", k.name)
		}
	}
	r.keys[string(k.public)] = append(r.keys[string(k.public)], k)
	return nil
}

func (r *policyReader) group(name, threshold string, members []string) error {
	if r.groups++; r.groups > maxListed {
		return malformed("more than %d groups", maxListed)
	}
	g := &member{}
	for _, each := range members {
		m, known := r.names[each]
		if !known {
			return malformed("group %s: %q is not defined above", name, each)
		}
		if r.used[each] {
			return malformed("group %s: %q is a member of a group already", name, each)
		}
		r.used[each] = true
		g.members = append(g.members, m)
	}
	switch threshold {
	case "any":
		g.threshold = 1
	case "all":
		g.threshold = len(members)
	default:
		k, err := strconv.Atoi(threshold)
		if err != nil || k < 1 || k > len(members) || strconv.Itoa(k) != threshold {
			return malformed("group %s: the threshold is neither any, all nor a number from 1 to %d", name,
				len(members))
		}
		g.threshold = k
	}
	return r.define(name, g)
}

func (r *policyReader) quorum(name string) error {
	if r.policy.quorum != nil {
		return malformed("a second quorum")
	}
	if name == "none" {
		r.policy.quorum = &member{}
		return nil
	}
	m, known := r.names[name]
	if !known {
		return malformed("quorum: %q is not defined above", name)
	}
	r.policy.quorum = m
	return nil
}

func (r *policyReader) define(name string, m *member) error {
	if _, known := r.names[name]; known || name == "none" {
		return malformed("the name %q is taken", name)
	}
	r.names[name] = m
	return nil
}

func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Unwitnessed reports whether the policy asks for no witness ("quorum none").
func (p Policy) Unwitnessed() bool { return p.quorum != nil && p.quorum.threshold == 0 }

// Cosignature is a witness's statement that it saw a checkpoint, at a time of its clock.
type Cosignature struct {
	Witness string // its name in the policy
	Time    time.Time
}

// Witnessed is a checkpoint that a policy accepts.
type Witnessed struct {
	Checkpoint
	Cosignatures []Cosignature // of the policy's witnesses, in its order

	earliest, newest time.Time
}

// Earliest returns the earliest time at which as many witnesses as the policy asks for had
// cosigned: what the checkpoint holds existed then at the latest, unless so many of them
// lie. Where it asks for none, all that cosigned count. ok is false when there is no
// cosignature.
func (w Witnessed) Earliest() (at time.Time, ok bool) { return w.earliest, len(w.Cosignatures) > 0 }

// Newest returns the newest time such that as many witnesses as the policy asks for have cosigned
// at that time or later. Where it asks for none, it is the time of the oldest cosignature. ok is
// false when there is no cosignature.
func (w Witnessed) Newest() (at time.Time, ok bool) { return w.newest, len(w.Cosignatures) > 0 }

// Open reads a signed checkpoint and judges it: a log of the policy must have signed it
// under its own origin, and witnesses cosigned it as the quorum asks. It compares neither
// the times with a clock nor the log with the list of WithList. ErrMalformed, ErrSignature,
// ErrUnknownLog, ErrQuorum.
func (p Policy) Open(data []byte) (Witnessed, error) {
	known := make([]note.Verifier, 0, len(p.Logs)+len(p.Witnesses))
	for _, l := range p.Logs {
		known = append(known, l.Key)
	}
	for _, each := range p.Witnesses {
		known = append(known, each.Key)
	}
	opened, c, err := openNote(data, known...)
	if err != nil {
		return Witnessed{}, err
	}
	by := map[string]string{} // name and key id to signature
	for _, sig := range opened.Sigs {
		by[signatureID(sig.Name, sig.Hash)] = sig.Base64
	}
	signed := false
	for _, l := range p.Logs {
		_, verified := by[signatureID(l.Key.name, l.Key.KeyHash())]
		signed = signed || verified && l.Key.name == c.Origin
	}
	if !signed || p.quorum == nil {
		return Witnessed{}, fmt.Errorf("%w: %s", ErrUnknownLog, c.Origin)
	}
	w := Witnessed{Checkpoint: c}
	times := make([]time.Time, len(p.Witnesses))
	for i, each := range p.Witnesses {
		text, verified := by[signatureID(each.Key.name, each.Key.KeyHash())]
		if !verified {
			continue
		}
		times[i] = timeOf(text)
		w.Cosignatures = append(w.Cosignatures, Cosignature{Witness: each.Name, Time: times[i]})
	}
	if !p.Met(func(i int) bool { return !times[i].IsZero() }) {
		return Witnessed{}, fmt.Errorf("%w: %d of the policy's %d cosigned", ErrQuorum, len(w.Cosignatures),
			len(p.Witnesses))
	}
	p.setTimes(&w, times)
	return w, nil
}

// setTimes sets what Earliest and Newest return, from the times of Witnesses by place.
func (p Policy) setTimes(w *Witnessed, times []time.Time) {
	sorted := make([]time.Time, len(w.Cosignatures))
	for i, c := range w.Cosignatures {
		sorted[i] = c.Time
	}
	slices.SortFunc(sorted, time.Time.Compare)
	if p.Unwitnessed() && len(sorted) > 0 {
		w.earliest, w.newest = sorted[len(sorted)-1], sorted[0]
		return
	}
	for _, at := range slices.Backward(sorted) {
		if p.Met(func(i int) bool { return !times[i].IsZero() && !times[i].After(at) }) {
			w.earliest = at
		}
	}
	for _, at := range sorted {
		if p.Met(func(i int) bool { return !times[i].IsZero() && !times[i].Before(at) }) {
			w.newest = at
		}
	}
}

// timeOf returns the time in a witness's signature that was verified. text is the base64 of key
// id, time and signature.
func timeOf(text string) time.Time {
	sig, _ := decodeBase64(text)
	return time.Unix(int64(binary.BigEndian.Uint64(sig[4:])), 0).UTC()
}

func signatureID(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// Met reports whether those of Witnesses that count reach the quorum. counts reports whether the
// one at a place counts.
func (p Policy) Met(counts func(place int) bool) bool { return p.quorum != nil && p.quorum.met(counts) }
