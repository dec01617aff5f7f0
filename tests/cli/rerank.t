A cross-encoder's scores of a query and each text, the best first.

  $ ln -s $ROOT/tests/fixtures/embedders e; export MICA_ARITHMETIC=exact
  $ printf 'The old lighthouse keeper wrote a letter every evening.\nshort\n' > texts
  $ mica rerank e/xlmr_reranker texts --query 'who wrote the letter?' | cut -c 1-21
  {"id": 2, "score": 0.
  {"id": 1, "score": 0.
  $ mica rerank e/xlmr_reranker texts --query 'who wrote the letter?' --top 1 --logits | wc -l
  1
  $ mica rerank e/xlmr_reranker texts --query 'who wrote the letter?' --logits > a
  > mica convert e/xlmr_reranker r.gguf --quiet > /dev/null
  > mica rerank r.gguf texts --query 'who wrote the letter?' --logits 2>/dev/null | cmp - a && echo same
  same

A language model that ranks by its answers does so whatever is made of it.

  $ cp -r e/qwen3_embedding ranker; chmod -R u+w ranker; mkdir ranker/1_LogitScore
  > m='{"type": "m.Transformer", "path": ""}, {"type": "m.LogitScore", "path": "1_LogitScore"}'
  > echo "[$m]" > ranker/modules.json
  > echo '{"true_token_id": 7, "false_token_id": 9}' > ranker/1_LogitScore/config.json
  > ask() { mica rerank $1 texts --query 'who wrote the letter?' --logits 2>/dev/null; }
  > ask ranker > a; mica convert ranker copied --quiet > /dev/null; ask copied | cmp - a && echo copied
  > mica convert ranker ranker.gguf --quiet > /dev/null; ask ranker.gguf | cmp - a && echo gguf
  > mica convert ranker.gguf back --quiet > /dev/null; ask back | cmp - a && echo back
  > mica quantize ranker small --bits 8 -g 32 --quiet > /dev/null; ask small | wc -l
  > cmp small/1_LogitScore/config.json ranker/1_LogitScore/config.json
  copied
  gguf
  back
  2

A cross-encoder has no cache.

  $ mica show e/xlmr_reranker | grep '^memory'
  memory        218.9 kB weights and 0 bytes cache at 96 tokens

Models and options that are wrong.

  $ mica rerank e/xlmr_reranker texts 2>&1
  mica: there is no query: give --query TEXT
  Try: mica help rerank
  [2]
  $ mica rerank e/bert_minilm texts --query x 2>&1
  mica: mica_rerank: bert is neither a cross-encoder nor a language model with ChatML's format or a LogitScore module
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
