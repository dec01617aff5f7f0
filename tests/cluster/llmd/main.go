// llm-d's own reader of KV events, and its own index, which is asked for blocks of tokens.
//
//	llmd ENDPOINT BLOCK SEED
//
// Listens at an endpoint of ZeroMQ. Each line of standard input is an object, {"model", "tokens"};
// it is answered by a line: of each replica how many of the first tokens it has, {"pod": 128}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/llm-d/llm-d-kv-cache-manager/pkg/kvcache/kvblock"
	"github.com/llm-d/llm-d-kv-cache-manager/pkg/kvcache/kvevents"
	"k8s.io/apimachinery/pkg/util/sets"
)

type query struct {
	Model  string   `json:"model"`
	Tokens []uint32 `json:"tokens"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// How many of the first blocks each replica has.
func count(keys []kvblock.Key, found map[kvblock.Key][]kvblock.PodEntry) map[string]int {
	blocks := map[string]int{}
	for i, key := range keys {
		for _, entry := range found[key] {
			if blocks[entry.PodIdentifier] == i {
				blocks[entry.PodIdentifier]++
			}
		}
	}
	return blocks
}

func main() {
	block, err := strconv.Atoi(os.Args[2])
	must(err)
	ctx := context.Background()
	index, err := kvblock.NewIndex(ctx, kvblock.DefaultIndexConfig())
	must(err)
	processor := kvblock.NewChunkedTokenDatabase(
		&kvblock.TokenProcessorConfig{BlockSize: block, HashSeed: os.Args[3]})
	config := kvevents.DefaultConfig()
	config.ZMQEndpoint = os.Args[1]
	kvevents.NewPool(config, index).Start(ctx)
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		var q query
		must(json.Unmarshal(input.Bytes(), &q))
		keys := processor.TokensToKVBlockKeys(q.Tokens, q.Model)
		found, err := index.Lookup(ctx, keys, sets.New[string]())
		must(err)
		tokens := count(keys, found)
		for pod := range tokens {
			tokens[pod] *= block
		}
		line, err := json.Marshal(tokens)
		must(err)
		fmt.Println(string(line))
	}
	must(input.Err())
}
