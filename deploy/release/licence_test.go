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
		"                         Apache License\n                   Version 2.0, January 2004":                                              "Apache-2.0",
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
