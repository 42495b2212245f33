package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLicence_IsRecognizedByItsWords(t *testing.T) {
	for text, want := range map[string]string{
		"Permission is hereby granted, free of charge, to any\n  person obtaining a copy":                                                    "MIT",
		"MIT No Attribution\nPermission is hereby granted, free of charge, to any\n  person obtaining a copy":                                "MIT-0",
		"Redistribution and use in source and binary forms … used to endorse or promote":                                                     "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with or without modification":                                                    "BSD-2-Clause",
		"GNU LESSER GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007":                                                                        "LGPL-3.0-or-later",
		"GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007":                                                                               "",
		"GNU AFFERO GENERAL PUBLIC LICENSE Version 3":                                                                                        "",
		"Business Source License 1.1":                                                                                                        "",
		"All rights reserved.":                                                                                                               "",
		"This is free and unencumbered software released into the public domain.":                                                            "Unlicense",
		"Permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted, provided that": "ISC",
	} {
		if got := recognize(text); got != want {
			t.Errorf("%.40q is %q, want %q", text, got, want)
		}
	}
}

// Licences name others: that the GPL ends with, that the BUSL changes into, and that the MPL allows beside it.
func TestLicence_IsNotOneThatItsTextNames(t *testing.T) {
	for text, want := range map[string]string{
		"GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007\n … If this is what you want to do, use the GNU Lesser\n" +
			"General Public License instead of this License.": "",
		"Apache License\n Version 2.0, January 2004\n http://www.apache.org/licenses/":      "Apache-2.0",
		"Business Source License 1.1 … Change License: Apache License, Version 2.0":         "",
		"Business Source License 1.1 … Change License: Mozilla Public License, Version 2.0": "",
		"Mozilla Public License, version 2.0\n 1. Definitions … “Secondary License” means either the GNU General\n" +
			"Public License, Version 2.0, the GNU Lesser General Public License, Version 2.1, the GNU Affero General\n" +
			"Public License, Version 3.0 … This Source Code Form is subject to the terms of the Mozilla\n" +
			"Public License, v. 2.0.": "MPL-2.0",
		"Server Side Public License … the documentation is under CC0 1.0 Universal": "",
		"Licensed under the Apache License, Version 2.0 (the \"License\");\nyou may not use this file except in compliance " +
			"with the License.": "Apache-2.0",
	} {
		if got := recognize(text); got != want {
			t.Errorf("%.40q is %q, want %q", text, got, want)
		}
	}
}

func TestLicence_IsRequiredOfEveryModule(t *testing.T) {
	for name, text := range map[string]string{"LICENSE": "All rights reserved.", "NOTICE": "Apache License Version 2.0", "README": "MIT", "license.go": "package x"} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if licences, _, err := licencesIn(folder, ""); !errors.Is(err, errLicence) {
			t.Errorf("%s: %v, %v", name, licences, err)
		}
	}
}

// The proxy has a folder of its own in place of a module. It has no licence but ours.
func TestModules_AFolderInTheirPlaceIsOurs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "small")
	content := small(t, map[string]string{
		"go.mod": "module example.org/small\n\ngo 1.26\n\nrequire example.org/other v1.0.0\n\n" +
			"replace example.org/other => ./other\n",
		"main.go":        "package main\n\nimport _ \"example.org/other\"\n\nfunc main() {}\n",
		"other/go.mod":   "module example.org/other\n\ngo 1.26\n",
		"other/other.go": "package other\n",
	})
	if err := os.WriteFile(program, content, 0o600); err != nil {
		t.Fatal(err)
	}
	modules, err := modulesIn([]string{program}, goenv(t, "GOMODCACHE"), goenv(t, "GOROOT"))
	if err != nil || len(modules) != 1 || modules[0].path != "std" {
		t.Errorf("%v, %v", modules, err)
	}
}
