module chat

go 1.23

require mica v0.0.0

replace mica => ../../bindings/go
