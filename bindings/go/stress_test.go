package mica_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mica"
)

// resident is the process's memory in bytes, 0 where the system does not tell.
func resident() int {
	data, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}

// Models are opened, asked and closed from 16 goroutines: $MICA_TEST_ROUNDS times in all, 500 if
// that does not say. No handle is lost, and memory stays flat: of many rounds, once the allocator
// has its arenas, also the process's.
func TestStress(t *testing.T) {
	rounds := 500
	if said := os.Getenv("MICA_TEST_ROUNDS"); said != "" {
		rounds, _ = strconv.Atoi(said)
	}
	warm := load(t) // as many arenas of the allocator as there will be
	storm(t, rounds/4, text(warm, context.Background(), "The sea", mica.WithMaxTokens(2)))
	active, scopes, before := mica.GetActiveMemory(), mica.ScopesOpen(), resident()
	storm(t, rounds, text(warm, context.Background(), "The sea", mica.WithMaxTokens(2)))
	mica.ClearCache()
	runtime.GC()
	if now := mica.GetActiveMemory(); now != active || mica.ScopesOpen() != scopes {
		t.Errorf("%d bytes are active, %d were; %d scopes, %d were", now, active,
			mica.ScopesOpen(), scopes)
	}
	after := resident()
	t.Logf("%d rounds: %.1f MB, then %.1f MB", rounds, float64(before)/1e6, float64(after)/1e6)
	if rounds >= 2000 && before > 0 && after-before > 64<<20 {
		t.Errorf("memory has grown from %d to %d", before, after)
	}
}

func storm(t *testing.T, rounds int, want string) {
	var wait sync.WaitGroup
	var next atomic.Int64
	for i := range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for round := next.Add(1); round <= int64(rounds) && !t.Failed(); round = next.Add(1) {
				if err := once(int(round)+i, want); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
}

func once(round int, want string) error {
	m, err := mica.LoadModel(folder)
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch round % 4 {
	case 0: // left at once
		for range m.Generate(ctx, "The sea") {
			break
		}
	case 1: // cancelled
		for range m.Generate(ctx, "The sea") {
			cancel()
		}
		if m.Err() != context.Canceled {
			return fmt.Errorf("cancelled: %v", m.Err())
		}
	case 2: // arrays
		x := mica.FromValues([]float32{1, 2}, 2)
		y := mica.Exp(x)
		defer mica.Free(x, y)
		return mica.Eval(y)
	default:
		var err error
		if said := text(m, ctx, "The sea", mica.WithMaxTokens(2), mica.WithError(&err)); said != want {
			return fmt.Errorf("%q, not %q: %v", said, want, err)
		}
	}
	return nil
}
