package app

import (
	"flag"
	"fmt"

	"github.com/pforte/pforte/pkg/receipt"
)

// inspect prints a document without verifying it.
func inspect(args []string, streams Streams) error {
	files, err := parse(flag.NewFlagSet("inspect", flag.ContinueOnError), args, 1)
	if err != nil {
		return err
	}
	data, err := readFile(files[0], streams.In, receipt.MaxSize)
	if err != nil {
		return err
	}
	doc, err := receipt.Parse(data)
	if err != nil {
		return exitError{exitInvalid, err}
	}
	if err := indented(streams, doc.Receipt); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "\n%s\nSigned by: %s\nProof:     %s\nNothing of this has been checked; receipt verify does.\n",
		claim(doc.Receipt), doc.Signature.KeyID, size(doc.Proof))
	return err
}

func size(proof *receipt.Proof) string {
	if proof == nil {
		return stateAbsent
	}
	bytes := len(proof.HeaderRLP)
	for _, nodes := range [][]receipt.Hex{proof.Transaction, proof.Receipt} {
		for _, node := range nodes {
			bytes += len(node)
		}
	}
	return fmt.Sprintf("header, %d nodes to the transaction, %d to its receipt, %d bytes",
		len(proof.Transaction), len(proof.Receipt), bytes)
}
