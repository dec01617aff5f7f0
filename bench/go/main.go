// Bench compares a decode loop in Go with the same one in C, in one process, in turns:
//
//	go run . FOLDER [TOKENS [ROUNDS]]
//
// It prints what Go costs a token: the processor's time with a step in place of C's that does
// nothing, since the token is there already. Then the median of the ratios of neighbouring rounds,
// by the clock and by the process's time on processors, which others on the machine do not change.
// Both have one thread: several wait for each other.
package main

/*
#cgo pkg-config: mica
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mica/mica.h>
#include <stdlib.h>
#include <sys/resource.h>

static mica_status open_model(const char *folder, mica_model **model)
{
    return mica_model_open(
        folder, &(mica_model_options){.struct_bytes = sizeof(mica_model_options), .threads = 1},
        model);
}

// In place of the library's: the next token, or so often the one that is there.
static int64_t repeats;
static void repeat(int64_t times) { repeats = times; }
bool mica_stream_next(mica_stream *stream, mica_token *token)
{
    static bool (*next)(mica_stream *, mica_token *);
    static mica_token last;
    if (repeats && last.text) {
        *token = last;
        return --repeats > 0;
    }
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "mica_stream_next");
    const bool there = next(stream, token);
    if (there && repeats) last = *token;
    return there;
}

static double processor_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static mica_status decode(mica_model *model, const char *prompt, int64_t tokens, size_t *bytes)
{
    mica_session *session = NULL;
    mica_stream *stream = NULL;
    const mica_generate_options options = {
        .struct_bytes = sizeof options, .max_tokens = tokens, .ignore_eos = true};
    mica_status status = mica_session_open(model, NULL, &session);
    if (!status) status = mica_generate(session, prompt, 0, &options, &stream);
    *bytes = 0;
    for (mica_token t; !status && mica_stream_next(stream, &t);) *bytes += t.len;
    if (!status) status = mica_stream_status(stream);
    mica_stream_close(&stream);
    mica_session_close(&session);
    return status;
}
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"mica"
)

const prompt = "The sea is"

func inC(model *C.mica_model, tokens int) int {
	said := C.CString(prompt)
	defer C.free(unsafe.Pointer(said))
	var bytes C.size_t
	if status := C.decode(model, said, C.int64_t(tokens), &bytes); status != C.MICA_OK {
		fail(C.GoString(C.mica_status_name(status)))
	}
	return int(bytes)
}

func inGo(model *mica.Model, tokens int) int {
	bytes := 0
	for token := range model.Generate(context.Background(), prompt, mica.WithMaxTokens(tokens),
		mica.WithIgnoreEOS()) {
		bytes += len(token.Text)
	}
	if err := model.Err(); err != nil {
		fail(err)
	}
	return bytes
}

// goPart is the seconds of Go a token.
func goPart(model *mica.Model) float64 {
	const tokens = 200000
	C.repeat(tokens)
	return measured(func() int { return inGo(model, 2) })[1] / tokens
}

// measured is the seconds of a call by the clock, and on processors.
func measured(call func() int) [2]float64 {
	begin, busy := time.Now(), C.processor_seconds()
	call()
	return [2]float64{time.Since(begin).Seconds(), float64(C.processor_seconds() - busy)}
}

func fail(what any) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(1)
}

func number(i, otherwise int) int {
	if len(os.Args) > i {
		if n, err := strconv.Atoi(os.Args[i]); err == nil && n > 0 {
			return n
		}
	}
	return otherwise
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: bench FOLDER [TOKENS [ROUNDS]]")
	}
	tokens, rounds := number(2, 64), number(3, 41)
	model, err := mica.LoadModel(os.Args[1], mica.WithThreads(1))
	if err != nil {
		fail(err)
	}
	defer model.Close()
	var other *C.mica_model
	folder := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(folder))
	if status := C.open_model(folder, &other); status != C.MICA_OK {
		fail(C.GoString(C.mica_status_name(status)))
	}
	defer C.mica_model_close(&other)
	loops := []func() int{func() int { return inC(other, tokens) },
		func() int { return inGo(model, tokens) }}
	if loops[0]() != loops[1]() {
		fail("the answers differ")
	}
	var ratios [2][]float64 // by the clock, by processors
	var inC []float64       // seconds of a token on processors
	for round := range rounds {
		var took [2][2]float64
		for turn := range 2 {
			which := (round + turn) % 2 // neither is always first
			took[which] = measured(loops[which])
		}
		inC = append(inC, took[0][1]/float64(tokens))
		for by := range ratios {
			ratios[by] = append(ratios[by], took[0][by]/took[1][by])
		}
	}
	for by := range ratios {
		slices.Sort(ratios[by])
	}
	slices.Sort(inC)
	whole, part := 1e6*inC[rounds/2], 1e6*goPart(model)
	fmt.Printf("Go a token: %.2f us, C: %.0f us on processors, so Go / C is %.4f\n", part, whole,
		whole/(whole+part))
	fmt.Printf("Go / C: %.3f by the clock, %.3f on processors (median of %d rounds of %d tokens)\n",
		ratios[0][rounds/2], ratios[1][rounds/2], rounds, tokens)
}
