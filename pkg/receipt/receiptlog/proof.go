package receiptlog

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	// ProofHeader is the first line of a proof (C2SP tlog-proof).
	ProofHeader = "c2sp.org/tlog-proof@v1"
	// MaxProof bounds a proof, or a request to a witness, in bytes.
	MaxProof = MaxNote + 8<<10
	// maxHashes is the length of the longest proof of a tree with MaxSize entries; one of
	// consistency has a hash more than one of inclusion.
	maxHashes = 51
)

// Proof shows that an entry is in the tree of a checkpoint.
type Proof struct {
	Index      int64       // of the entry, from 0
	Hashes     []tlog.Hash // from the leaf's sibling upwards (RFC 6962 section 2.1.1)
	Checkpoint []byte      // the signed note with its cosignatures
}

// Bytes returns the proof as the content of a .tlog-proof file.
func (p Proof) Bytes() []byte {
	return appendNote(ProofHeader+"\nindex "+strconv.FormatInt(p.Index, 10)+"\n", p.Hashes, p.Checkpoint)
}

// ParseProof reads a proof. It does not check it. A line "extra", which the format allows, is
// refused, because nothing would authenticate its data. ErrMalformed.
func ParseProof(data []byte) (p Proof, err error) {
	rest, found := bytes.CutPrefix(data, []byte(ProofHeader+"\n"))
	if !found {
		return Proof{}, malformed("the first line is not %s", ProofHeader)
	}
	p.Index, p.Hashes, p.Checkpoint, err = parseNote("index ", rest)
	return p, err
}

// AddCheckpoint is what a log asks a witness: to cosign a checkpoint that continues the
// one which the witness cosigned last (C2SP tlog-witness, POST add-checkpoint).
type AddCheckpoint struct {
	Old        int64       // size of the checkpoint that the witness cosigned last, or 0
	Hashes     []tlog.Hash // consistency proof from Old (RFC 6962 section 2.1.2); none from 0 or of the same size
	Checkpoint []byte      // the note, signed by the log
}

// Bytes returns the body of the request.
func (a AddCheckpoint) Bytes() []byte {
	return appendNote("old "+strconv.FormatInt(a.Old, 10)+"\n", a.Hashes, a.Checkpoint)
}

// ParseAddCheckpoint reads the body of the request. It checks neither proof nor signature.
// ErrMalformed.
func ParseAddCheckpoint(data []byte) (a AddCheckpoint, err error) {
	a.Old, a.Hashes, a.Checkpoint, err = parseNote("old ", data)
	return a, err
}

func appendNote(head string, hashes []tlog.Hash, checkpoint []byte) []byte {
	out := []byte(head)
	for _, hash := range hashes {
		out = base64.StdEncoding.AppendEncode(out, hash[:])
		out = append(out, '\n')
	}
	out = append(out, '\n')
	return append(out, checkpoint...)
}

// parseNote reads a line of a keyword and a number, hashes, an empty line and a note.
func parseNote(keyword string, data []byte) (n int64, hashes []tlog.Hash, checkpoint []byte, err error) {
	if len(data) > MaxProof {
		return 0, nil, nil, malformed("more than %d bytes", MaxProof)
	}
	head, checkpoint, found := bytes.Cut(data, []byte("\n\n"))
	if !found || len(checkpoint) == 0 {
		return 0, nil, nil, malformed("there is no checkpoint")
	}
	lines := strings.Split(string(head), "\n")
	number, found := strings.CutPrefix(lines[0], keyword)
	if !found {
		return 0, nil, nil, malformed("a line does not begin with %q", keyword)
	}
	if n, err = parseNumber(number); err != nil {
		return 0, nil, nil, err
	}
	if len(lines) > 1+maxHashes {
		return 0, nil, nil, malformed("more than %d hashes", maxHashes)
	}
	for _, line := range lines[1:] {
		hash, err := parseHash(line)
		if err != nil {
			return 0, nil, nil, err
		}
		hashes = append(hashes, hash)
	}
	return n, hashes, bytes.Clone(checkpoint), nil
}

// CheckInclusion returns ErrInclusion unless the proof, hashes, leads from a leaf at an
// index to the root of the checkpoint.
func (c Checkpoint) CheckInclusion(index int64, leaf tlog.Hash, hashes []tlog.Hash) error {
	if index < 0 || index >= c.Size {
		return fmt.Errorf("%w: index %d of %d entries", ErrInclusion, index, c.Size)
	}
	if err := tlog.CheckRecord(hashes, c.Size, c.Root, index, leaf); err != nil {
		return fmt.Errorf("%w: %w", ErrInclusion, err)
	}
	return nil
}

// CheckConsistency returns ErrConsistency unless the proof, hashes, shows that the
// checkpoint continues an older one of the same log: that its tree begins with the same
// entries. Every tree continues the empty one and an equal one; there hashes must be empty.
func (c Checkpoint) CheckConsistency(old Checkpoint, hashes []tlog.Hash) error {
	switch {
	case c.Origin != old.Origin:
		return fmt.Errorf("%w: %s is not %s", ErrConsistency, c.Origin, old.Origin)
	case c.Size < old.Size:
		return fmt.Errorf("%w: %d entries after %d", ErrConsistency, c.Size, old.Size)
	case old.Size == 0 || c.Size == old.Size:
		if len(hashes) > 0 || c.Size == old.Size && c.Root != old.Root {
			return fmt.Errorf("%w: at %d entries", ErrConsistency, c.Size)
		}
		return nil
	}
	if err := tlog.CheckTree(hashes, c.Size, c.Root, old.Size, old.Root); err != nil {
		return fmt.Errorf("%w: %w", ErrConsistency, err)
	}
	return nil
}
