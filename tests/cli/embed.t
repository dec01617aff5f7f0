A vector for each text, as long as the model is wide; the same text has the same one.

  $ printf 'curl is\ntar\ncurl is\n' | mica embed > out
  > awk -F, '{ print NF }' out
  > sed 's/^{"id": [0-9]*, //' out | sort | uniq | wc -l
  385
  385
  385
  2
  $ printf '{"id": "a", "text": "curl is"}\n{"text": "tar"}\n' | mica embed -q | cut -d , -f 1
  {"id": "a"
  {"id": 2
  $ printf 'curl is\n' | mica embed -q --pooling mean | cmp - out | wc -l
  0
  $ printf 'curl is\n' | mica embed -q --pooling last | cut -c 1-24
  {"id": 1, "embedding": [
  $ printf 'curl is\ntar\n' | mica embed --normalise --pooling last | sed 's/.*\[//; s/\].*//' \
  >   | awk -F, '{ sum = 0; for (i = 1; i <= NF; i++) sum += $i * $i; printf "%.4f\n", sum }'
  1.0000
  1.0000

An embedder's GGUF file gives the vectors that its folder gives.

  $ for name in bert_minilm nomic_bert modernbert_cls embeddinggemma qwen3_embedding; do
  >   e=$ROOT/tests/fixtures/embedders/$name; mica convert $e $name.gguf --quiet > /dev/null
  >   printf 'curl is\n\303\234bung\n' | mica embed $e -q > a
  >   printf 'curl is\n\303\234bung\n' | mica embed $name.gguf -q | cmp - a && echo $name
  > done 2>/dev/null
  bert_minilm
  nomic_bert
  modernbert_cls
  embeddinggemma
  qwen3_embedding

Wrong options and odd texts.

  $ mica embed --pooling max in 2>&1
  mica: --pooling: 'max' is not one of: model mean last
  Try: mica help embed
  [2]
  $ MICA_POOLING=max mica embed in 2>&1
  mica: MICA_POOLING: 'max' is not one of: model mean last
  Try: mica help embed
  [2]
  $ mica embed nowhere 2>&1
  mica: cannot read nowhere: No such file or directory
  [1]
  $ mica embed -q < /dev/null
  $ printf 'a\377b\ntar\n' | mica embed -q 2> err | cut -c 1-9
  {"id": 2,
  $ grep -c '^mica: id 1: .*UTF-8' err
  1
  $ yes curl | head -9000 | tr '\n' ' ' | mica embed -q 2>&1 | cut -c 1-60
  mica: id 1: the text has 9002 tokens, the model's context 20
  $ printf 'tar\n' | mica embed -q | head -c 9; echo
  {"id": 1,
