A GGUF file is served like any other model, and that of an embedder or a reranker as its folder.

Needs curl.

  $ cp $ROOT/tests/fixtures/gguf/qwen3/model.gguf tiny.gguf; mica serve tiny.gguf --port 0 2> said &
  > server=$!; until grep -q curl said || ! kill -0 $server; do :; done
  > url=http://$(sed -n 's|.*serving.*http://||p' said)
  > curl -s $url/v1/models | grep -o '"id":"[^"]*"'
  > curl -s $url/api/generate -d '{"model": "tiny.gguf", "prompt": "ab", "raw": true, "stream": false,
  >   "options": {"num_predict": 3}}' | grep -o '"eval_count":[0-9]*'
  > kill $server; wait $server
  "id":"tiny.gguf"
  "eval_count":3

  $ export MICA_ARITHMETIC=exact; e=$ROOT/tests/fixtures/embedders
  > mica convert $e/bert_minilm minilm.gguf --quiet > /dev/null
  > mica convert $e/xlmr_reranker ranker.gguf --quiet > /dev/null
  > rm said; mica serve minilm.gguf ranker.gguf --port 0 2> said &
  > server=$!; until grep -q curl said || ! kill -0 $server; do :; done
  > url=http://$(sed -n 's|.*serving.*http://||p' said)
  > curl -s $url/v1/embeddings -d '{"model": "minilm.gguf", "input": "curl is"}' > got
  > sed 's/.*"embedding":\[//; s/\].*//' got | tr , '\n' | awk '{ printf "%.6f\n", $1 }' > vector
  > echo 'curl is' | mica embed $e/bert_minilm -q | sed 's/.*\[//; s/\].*//' | tr , '\n' \
  >   | awk '{ printf "%.6f\n", $1 }' | cmp - vector && echo same
  > curl -s $url/v1/rerank -d '{"model": "ranker.gguf", "query": "q", "documents": ["a", "b"]}' \
  >   | grep -o '"relevance_score"' | wc -l
  > kill $server; wait $server
  same
  2
