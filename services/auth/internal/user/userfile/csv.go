package userfile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
)

// byteOrderMark is written by spreadsheets before UTF-8.
const byteOrderMark = "\ufeff"

func readCSV(path string) (File, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	content := bufio.NewReader(io.LimitReader(f, MaxBytes))
	if begin, _ := content.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
		_, _ = content.Discard(len(byteOrderMark))
	}
	rows := csv.NewReader(content)
	names, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return File{}, errors.New("the file is empty")
	} else if err != nil {
		return File{}, err
	}
	places, ignored, err := find(names)
	if err != nil {
		return File{}, fmt.Errorf("line 1: %w", err)
	}
	file := File{Ignored: ignored}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return file, nil
		} else if err != nil {
			return File{}, err // it names the line and quotes nothing
		}
		if len(file.Records) == maxUsers {
			return File{}, ErrTooLarge
		}
		line, _ := rows.FieldPos(0)
		file.Records = append(file.Records, places.record(fmt.Sprintf("line %d", line), row))
	}
}
