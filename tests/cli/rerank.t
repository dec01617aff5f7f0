A cross-encoder's scores of a query and each text, the best first.

  $ ln -s $ROOT/tests/fixtures/embedders e; export MICA_ARITHMETIC=exact
  $ printf 'The old lighthouse keeper wrote a letter every evening.\nshort\n' > texts
  $ mica rerank e/xlmr_reranker texts --query 'who wrote the letter?' | cut -c 1-21
  {"id": 2, "score": 0.
  {"id": 1, "score": 0.
  $ mica rerank e/xlmr_reranker texts --query 'who wrote the letter?' --top 1 --logits | wc -l
  1

It has no cache.

  $ mica show e/xlmr_reranker | grep '^memory'
  memory        218.9 kB weights and 0 bytes cache at 96 tokens

Models and options that are wrong.

  $ mica rerank e/xlmr_reranker texts 2>&1
  mica: there is no query: give --query TEXT
  Try: mica help rerank
  [2]
  $ mica rerank e/bert_minilm texts --query x 2>&1
  mica: mica_rerank: bert is neither a cross-encoder nor a language model with ChatML's format
  [1]
  $ mica rerank e/xlmr_reranker --query x < /dev/null 2>&1
  mica: there are no texts
  [1]
  $ mica run e/bert_minilm hi 2>&1
  mica: bert is an encoder, which says no next token: it makes vectors (mica embed) or scores (mica rerank)
  [1]

Embedders: their prompts, and fewer dimensions.

  $ mica embed e/nomic_bert texts -q --prompt-name query --dimensions 3 \
  >   | sed 's/.*\[//; s/\].*//' | awk -F, '{ printf "%d %.4f\n", NF, $1 * $1 + $2 * $2 + $3 * $3 }'
  3 1.0000
  3 1.0000
  $ mica embed e/nomic_bert texts -q --prompt-name nope 2>&1 | head -1
  mica: no prompt is called 'nope'; the model has: query, document
