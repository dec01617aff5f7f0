module mica

go 1.23
