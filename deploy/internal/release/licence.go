package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Licence is one text that a module comes with.
type Licence struct {
	// ID by SPDX; a notice has none.
	ID string
	// File is its name, Text what it says.
	File, Text string
}

// ErrLicence says that it is not known whether a module may be given on.
var ErrLicence = errors.New("its licence is not recognized")

// licenceFile is how a text of the law is named.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([._-].*)?$`)

// known are the licences that we may give on, by words that only they have. The
// first that fits counts. Copyleft of whole programs (GPL, AGPL) is not among
// them: go-ethereum's library is LGPL, its commands, which we do not use, GPL.
var known = []struct {
	id    string
	words []string
}{
	{"Apache-2.0", []string{"Apache License", "Version 2.0"}},
	{"LGPL-3.0-or-later", []string{"GNU LESSER GENERAL PUBLIC LICENSE", "Version 3"}},
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "used to endorse or promote"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
	{"MIT", []string{"Permission is hereby granted, free of charge, to any person obtaining a copy"}},
	{"ISC", []string{"Permission to use, copy, modify,", "distribute this software for any purpose with or without fee is hereby granted, provided"}},
	{"0BSD", []string{"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted."}},
	{"CC0-1.0", []string{"CC0 1.0 Universal"}},
	{"Unlicense", []string{"This is free and unencumbered software released into the public domain"}},
	{"Zlib", []string{"This software is provided 'as-is', without any express or implied", "must not be misrepresented"}},
}

// without are texts that grant nothing by themselves.
var without = regexp.MustCompile(`(?i)^(notice|patents)`)

// inSource are modules that tell their licence above their code only, and where.
var inSource = map[string]string{"github.com/holiman/bloomfilter/v2": "bloomfilter.go"}

// fromSource gives the licence that the first comment of a file names.
func fromSource(file string) ([]Licence, error) {
	text, err := os.ReadFile(file) //nolint:gosec // in the module cache
	if err != nil {
		return nil, err
	}
	comment, _, _ := strings.Cut(string(text), "\npackage ")
	if !strings.Contains(comment, "MIT license") {
		return nil, ErrLicence
	}
	return []Licence{{ID: "MIT", File: filepath.Base(file) + ".txt", Text: comment}}, nil
}

var space = regexp.MustCompile(`\s+`)

// recognize gives the SPDX id of a text, or "".
func recognize(text string) string {
	text = space.ReplaceAllString(text, " ")
next:
	for _, licence := range known {
		for _, word := range licence.words {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
				continue next
			}
		}
		return licence.id
	}
	return ""
}

// licencesIn gives the texts at the top of a module. ErrLicence.
func licencesIn(folder string) ([]Licence, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("look for licences: %w", err)
	}
	var licences []Licence
	granted := false
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name())) //nolint:gosec // in the module cache
		if err != nil {
			return nil, err
		}
		l := Licence{File: entry.Name(), Text: string(text)}
		if !without.MatchString(entry.Name()) {
			l.ID = recognize(l.Text)
		}
		granted = granted || l.ID != ""
		licences = append(licences, l)
	}
	if !granted {
		return nil, ErrLicence
	}
	return licences, nil
}
