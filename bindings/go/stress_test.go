package mica_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
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
// that does not say. No handle is lost. Of many rounds the process's memory stays flat: its median
// within the last half of the rounds is that of the first, once the allocator has its arenas. What
// an idle process has is left to chance: what lies at the end of each arena.
func TestStress(t *testing.T) {
	rounds := 500
	if said := os.Getenv("MICA_TEST_ROUNDS"); said != "" {
		rounds, _ = strconv.Atoi(said)
	}
	warm := load(t)
	want := text(warm, context.Background(), "The sea", mica.WithMaxTokens(2))
	storm(t, rounds/4, want)
	active, scopes := mica.GetActiveMemory(), mica.ScopesOpen()
	before := storm(t, rounds/2, want)
	after := storm(t, rounds-rounds/2, want)
	mica.ClearCache()
	runtime.GC()
	if now := mica.GetActiveMemory(); now != active || mica.ScopesOpen() != scopes {
		t.Errorf("%d bytes are active, %d were; %d scopes, %d were", now, active,
			mica.ScopesOpen(), scopes)
	}
	t.Logf("%d rounds: %.1f MB, then %.1f MB", rounds, float64(before)/1e6, float64(after)/1e6)
	if rounds >= 2000 && after-before > 32<<20 {
		t.Errorf("memory has grown from %d to %d", before, after)
	}
}

// storm does the rounds, and returns the median of the process's memory within them.
func storm(t *testing.T, rounds int, want string) int {
	var wait sync.WaitGroup
	var next atomic.Int64
	memory := make([]int, rounds)
	for i := range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for round := next.Add(1); round <= int64(rounds) && !t.Failed(); round = next.Add(1) {
				memory[round-1] = resident()
				if err := once(int(round)+i, want); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
	slices.Sort(memory)
	return memory[rounds/2]
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
