module github.com/pforte/pforte/tools

go 1.26.0
