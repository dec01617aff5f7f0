// Chat asks a model one question and prints the answer while it is computed.
//
//	go run . FOLDER [QUESTION]
//
// Ctrl-C ends the answer. pkg-config has to find mica: PKG_CONFIG_PATH says where, if the system
// does not look there.
package main

/*
#cgo pkg-config: mica
#include <mica/mica.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"unsafe"
)

// Error is a call that failed.
type Error struct {
	Status string // such as "MICA_ENOENT"
	Text   string
}

func (e *Error) Error() string { return e.Status + ": " + e.Text }

// check does a call and returns its error. The error's text belongs to the thread of the call, and
// Go may move a goroutine to another thread between two calls: so both are made in a locked one.
func check(call func() C.mica_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == C.MICA_OK {
		return nil
	}
	return &Error{C.GoString(C.mica_status_name(status)), C.GoString(C.mica_last_error())}
}

// Model is an open model. Any number of goroutines may ask it at once.
type Model struct{ handle *C.mica_model }

// Open opens a model's folder. The caller closes the model.
func Open(folder string) (*Model, error) {
	path := C.CString(folder)
	defer C.free(unsafe.Pointer(path))
	m := new(Model)
	err := check(func() C.mica_status { return C.mica_model_open(path, nil, &m.handle) })
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Close closes the model. To close it twice does nothing.
func (m *Model) Close() { C.mica_model_close(&m.handle) }

// Ask gives the pieces of an answer to write, in this goroutine. If ctx is done before the answer
// is, it returns ctx.Err().
func (m *Model) Ask(ctx context.Context, question string, write func(piece string)) error {
	var session *C.mica_session
	err := check(func() C.mica_status { return C.mica_session_open(m.handle, nil, &session) })
	if err != nil {
		return err
	}
	defer C.mica_session_close(&session)

	message := C.mica_message{role: C.CString("user"), content: C.CString(question)}
	defer C.free(unsafe.Pointer(message.role))
	defer C.free(unsafe.Pointer(message.content))
	var stream *C.mica_stream
	err = check(func() C.mica_status { return C.mica_chat(session, &message, 1, nil, &stream) })
	if err != nil {
		return err
	}
	defer C.mica_stream_close(&stream)

	stop := cancelWhenDone(ctx, stream)
	defer stop() // before the stream is closed
	err = check(func() C.mica_status {
		var token C.mica_token
		for C.mica_stream_next(stream, &token) {
			write(C.GoStringN(token.text, C.int(token.len)))
		}
		return C.mica_stream_status(stream)
	})
	var failed *Error
	if errors.As(err, &failed) && failed.Status == "MICA_ECANCELLED" {
		return ctx.Err()
	}
	return err
}

// cancelWhenDone cancels a stream when ctx is done, until stop is called. Streams belong to one
// thread at a time, but any may cancel one that is open.
func cancelWhenDone(ctx context.Context, stream *C.mica_stream) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			C.mica_stream_cancel(stream)
		case <-over:
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

func run(folder, question string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := Open(folder)
	if err != nil {
		return err
	}
	defer model.Close()
	return model.Ask(ctx, question, func(piece string) { fmt.Print(piece) })
}

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chat FOLDER [QUESTION]")
		os.Exit(2)
	}
	question := "What is curl?"
	if len(os.Args) == 3 {
		question = os.Args[2]
	}
	switch err := run(os.Args[1], question); {
	case errors.Is(err, context.Canceled):
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println()
}
