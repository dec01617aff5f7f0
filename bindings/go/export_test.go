package mica

// ScopesOpen is the number of scopes that arrays have in C.
func ScopesOpen() int64 { return scopesOpen.Load() }
