// Chat asks a model one question and prints the answer while it is computed.
//
//	go run . FOLDER [QUESTION]
//
// Ctrl-C ends the answer. It is a module of its own, as a program of yours would be: go.mod says
// where mica's is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"mica"
)

func run(folder, question string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	model, err := mica.LoadModel(folder)
	if err != nil {
		return err
	}
	defer model.Close()
	for token := range model.Chat(ctx, []mica.Message{{Role: "user", Content: question}}) {
		fmt.Print(token.Text)
	}
	return model.Err()
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
