A GGUF file is a model: what verbs take is made of it once, and kept.

  $ cp $ROOT/tests/fixtures/gguf/qwen3/model.gguf tiny.Q5_1.gguf
  > mica generate -m tiny.Q5_1.gguf "ab" -n 3 -q > first; mica generate tiny.Q5_1.gguf "ab" -n 3 -q > again
  > cmp first again; mica list | sed "s|$PWD|...|g; s/  */ /g; s/ now / AGE /; s/-[0-9a-f]\{8\}/-HASH/g"
  > mica tokenize tiny.Q5_1.gguf hello --ids > ids; mica show tiny.Q5_1.gguf --json | grep -c family
  name architecture quantisation weights age path
  files/tiny.Q5_1-HASH qwen3 5 bit, groups of 32 (affine) 66.8 kB AGE .../.cache/mica/gguf/files/tiny.Q5_1-HASH
  1

It is made anew when the file has changed, and goes with it.

  $ cp $ROOT/tests/fixtures/gguf/qwen3/model.gguf tiny.gguf; mica tokenize tiny.gguf hi --ids > a
  > mica tokenize tiny.gguf hi --ids > a
  > cp $ROOT/tests/fixtures/gguf/llama/model.gguf tiny.gguf; mica tokenize tiny.gguf hi --ids > b
  > cmp -s a b; mica show tiny.gguf --json | grep -o '"family": "[a-z0-9]*"'
  > mica list | wc -l; mica gc | grep -c 'removed 0'; rm tiny.gguf; mica gc | sed 's/[0-9.]* kB/N kB/'
  > mica list | wc -l
  "family": "llama"
  3
  1
  removed N kB
  2

A folder with one, one of several files, and what is none.

  $ mkdir one two; cp $ROOT/tests/fixtures/gguf/qwen3/model.gguf one/x.gguf; : > one/mmproj-F16.gguf
  > mica tokenize one hi --ids > a; mica list | grep -c files/x-
  > cp one/x.gguf two/a.gguf; cp one/x.gguf two/b.gguf; mica tokenize two hi 2>&1
  > cp one/x.gguf half-00001-of-00002.gguf; mica tokenize half-00001-of-00002.gguf hi 2>&1
  > head -c 1000 one/x.gguf > cut.gguf; mica tokenize cut.gguf hi 2>&1
  > HOME= mica tokenize one hi 2>&1
  1
  mica: two: holds 2 models of GGUF files: name one of them: a.gguf, b.gguf
  mica: half-00001-of-00002.gguf: is one of 2 files, of which half-00002-of-00002.gguf is missing
  mica: cut.gguf: ends within tokenizer.ggml.merges (is it cut short?)
  mica: no place for the models of GGUF files: set MICA_GGUF_CACHE, or HOME
  [1]
