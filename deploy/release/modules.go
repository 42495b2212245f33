package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/CycloneDX/cyclonedx-go"
)

// module is a module of Go, or its standard library, that was compiled into a program.
type module struct {
	// path and version name it for Go; the standard library is "std".
	path, version string
	// sum is Go's checksum, "h1:…", none for the standard library.
	sum string
	// ids are its licences by SPDX id, texts are its licence files by name.
	ids   []string
	texts map[string]string
}

// modulesIn returns the modules of others that were compiled into programs, sorted by
// path and version. Their licences come from Go's module cache and its root folder,
// where the build has just read the modules.
func modulesIn(programs []string, cache, goroot string) ([]module, error) {
	found := map[string]module{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, fmt.Errorf("modules of %s: %w", filepath.Base(program), err)
		}
		found["std"+info.GoVersion] = module{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			if dep.Version == "(devel)" { // a folder of ours, by its own name or in another's place
				continue
			}
			found[dep.Path+dep.Version] = module{path: dep.Path, version: dep.Version, sum: dep.Sum}
		}
	}
	modules := slices.SortedFunc(maps.Values(found), func(a, b module) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	var faults []error
	for i := range modules {
		m := &modules[i]
		folder := goroot
		if m.path != "std" {
			folder = filepath.Join(cache, escape(m.path)+"@"+escape(m.version))
		}
		var err error
		if m.ids, m.texts, err = licencesIn(folder, inSource[m.path]); err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", m.path, m.version, err))
		}
	}
	return modules, errors.Join(faults...)
}

// escape writes a path as folders of the module cache are named: "!a" for "A".
func escape(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// errLicence means that it is not known whether a module may be passed on.
var errLicence = errors.New("its licence is not recognized")

// licenceFile matches the names of files with licences and notices.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([._-].*)?$`)

// known are the licences that we may pass on, each with words of its text or of its grant that no other licence has:
// the GPL and the BUSL name licences that are not theirs. The first of which all are found counts. Copyleft of whole
// programs (GPL, AGPL) is not among them: go-ethereum's library is LGPL, its commands, which we do not use, GPL.
var known = [][]string{
	{"Apache-2.0", "Apache License Version 2.0, January 2004 http"},
	{"Apache-2.0", `Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except`},
	{"LGPL-3.0-or-later", "GNU LESSER GENERAL PUBLIC LICENSE Version 3, 29 June 2007"},
	{"MPL-2.0", "This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0"},
	{"BSD-3-Clause", "Redistribution and use in source and binary forms", "used to endorse or promote"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	{"MIT-0", "MIT No Attribution", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "Permission to use, copy, modify,", "distribute this software for any purpose with or without fee is " +
		"hereby granted, provided"},
	{"0BSD", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee " +
		"is hereby granted."},
	{"CC0-1.0", "CC0 1.0 Universal CREATIVE COMMONS CORPORATION IS NOT A LAW FIRM"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
	{"Zlib", "This software is provided 'as-is', without any express or implied", "must not be misrepresented"},
}

// without matches the names of files that grant nothing by themselves.
var without = regexp.MustCompile(`(?i)^(notice|patents)`)

// inSource are modules whose licence stands above their code only, and where.
var inSource = map[string]string{"github.com/holiman/bloomfilter/v2": "bloomfilter.go"}

var space = regexp.MustCompile(`\s+`)

// recognize returns the SPDX id of a text, or "".
func recognize(text string) string {
	text = strings.ToLower(space.ReplaceAllString(text, " "))
	for _, licence := range known {
		misses := func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) }
		if !slices.ContainsFunc(licence[1:], misses) {
			return licence[0]
		}
	}
	return ""
}

// licencesIn returns the licences of a module and their texts, from files in folder and,
// unless source is empty, from the comment at the top of that source file. The error is
// errLicence where no licence is recognized.
func licencesIn(folder, source string) (ids []string, texts map[string]string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("look for licences: %w", err)
	}
	texts = map[string]string{}
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || name != source && (!licenceFile.MatchString(name) ||
			filepath.Ext(name) == ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // in the module cache
		if err != nil {
			return nil, nil, err
		}
		text, id := string(content), ""
		switch {
		case name == source:
			text, _, _ = strings.Cut(text, "\npackage ")
			name += ".txt"
			if strings.Contains(text, "MIT license") {
				id = "MIT"
			}
		case !without.MatchString(name):
			id = recognize(text)
		}
		texts[name] = text
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil, errLicence
	}
	return ids, texts, nil
}

// licenceFiles returns a list of all modules with their licences, and the texts.
func licenceFiles(modules []module) map[string][]byte {
	var list strings.Builder
	list.WriteString("# What is compiled into these programs\n\n| Module | Version | Licence |\n|---|---|---|\n")
	files := map[string][]byte{}
	for _, m := range modules {
		fmt.Fprintf(&list, "| %s | %s | %s |\n", m.path, m.version, strings.Join(m.ids, ", "))
		for name, text := range m.texts {
			files[path.Join("licences", m.path+"@"+m.version, name)] = []byte(text)
		}
	}
	files["licences.md"] = []byte(list.String())
	return files
}

// sbom lists modules as CycloneDX JSON.
func sbom(modules []module, version string, at time.Time) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: at.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "pforte", Type: cyclonedx.ComponentTypeApplication, Name: "pforte", Version: version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}, // that of LICENSE
		},
	}
	components := make([]cyclonedx.Component, len(modules))
	for i, m := range modules {
		purl := "pkg:golang/" + m.path + "@" + m.version
		var licences cyclonedx.Licenses
		for _, id := range m.ids {
			licences = append(licences, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
		}
		c := cyclonedx.Component{
			BOMRef: purl, PackageURL: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version,
			Licenses: &licences,
		}
		// Go's sum is the SHA-256 of the module's list of files with their sums.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:")); err == nil && len(sum) > 0 {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components[i] = c
	}
	bom.Components = &components
	var text bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_6)
	return text.Bytes(), err
}
