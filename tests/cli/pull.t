Models come from a hub: here from one that the tests make.

  $ mkdir -p repos/org; cp -rL model repos/org/tiny; touch repos/org/tiny/README.md
  > mkfifo hold; mock_hub repos < hold > port & exec 9> hold
  > while ! [ -s port ]; do :; done
  > export HF_ENDPOINT=http://127.0.0.1:$(cat port)
  > mica pull org/tiny 2>&1 | sed "s|$PWD|...|"
  > mica list | sed "s|$PWD|...|; s/  */ /g; s/ now / AGE /"
  > mica run org/tiny "What is curl?" --max-tokens 4
  > mica pull org/tiny --offline --quiet | sed "s|$PWD|...|"
  > mica pull org/tiny@main org/none 2>&1 | sed "s|$PWD|...|; s|1:[0-9]*|1|"
  > mica rm org/tiny 2>&1
  > mica run org/tiny hello 2>&1 | grep pull
  > mica run --yes org/tiny "What is curl?" --max-tokens 4 2> said; head -1 said
  > mica gc --dry-run; mica gc
  org/tiny: 7 files, 13.4 MB to download
  .../.cache/huggingface/hub/models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567
  name architecture quantisation weights age path
  org/tiny gemma3_text 4 bit, groups of 32 (affine) 12.8 MB AGE .../.cache/huggingface/hub/models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567
  curl is a command
  .../.cache/huggingface/hub/models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567
  .../.cache/huggingface/hub/models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567
  mica: http://127.0.0.1 has no repository org/none, or it is private: then set HF_TOKEN to a token that may read it
  removed org/tiny: 13.4 MB
  To download it: mica pull org/tiny
  curl is a command
  org/tiny: 7 files, 13.4 MB to download
  would remove 0 bytes
  removed 0 bytes

A model that is not there is asked for at a terminal.

  $ mkdir -p repos/org; cp -rL model repos/org/tiny 2> /dev/null; mkfifo hold2
  > mock_hub repos < hold2 > port2 & exec 9> hold2
  > while ! [ -s port2 ]; do :; done
  > export HF_ENDPOINT=http://127.0.0.1:$(cat port2) HF_HOME=$PWD/other
  > printf 'wait Download it? [Y/n]\nsend n\\r\n' | pty mica tokenize org/tiny hi --ids; mica list 2>&1
  > printf 'wait Download it? [Y/n]\nsend \\r\n' | pty mica tokenize org/tiny hi --ids
  > mica list | wc -l
  There are no models but the one that comes with mica. Name folders to look in, or download one with mica pull.
  2

What is wrong is said before anything is asked.

  $ mica pull 2>&1; mica pull a/b/c 2>&1; mica pull org/x@1 --revision 2 2>&1
  mica: which model? Give its name, ORG/NAME
  Try: mica help pull
  mica: a/b/c is no name of a repository, which is ORG/NAME: letters, digits, '-', '_' and '.'
  mica: two revisions: --revision 2 and org/x@1
  Try: mica help pull
  [2]
  $ mica rm org/tiny org/none 2>&1 | sed "s|$PWD|...|"
  removed org/tiny: 13.4 MB
  mica: the cache .../.cache/huggingface/hub has no repository org/none

Of a repository with GGUF files one model is downloaded, and made into a folder.

  $ mkdir -p repos/org/tiny-GGUF; for q in Q5_1 Q4_K_M
  > do cp $ROOT/tests/fixtures/gguf/qwen3/model.gguf repos/org/tiny-GGUF/tiny-$q.gguf; done
  > mkfifo hold3; mock_hub repos < hold3 > port3 & exec 9> hold3
  > while ! [ -s port3 ]; do :; done
  > export HF_ENDPOINT=http://127.0.0.1:$(cat port3) HF_HOME=$PWD/other
  > mica tokenize --yes org/tiny-GGUF:q5_1 hi --ids 2> said > a; sed "s|$PWD|...|; s|/snap.*/|/.../|" said
  > mica tokenize org/tiny-GGUF:q5_1 hi --ids > b; cmp a b; mica list | sed 's/ .*//'
  > mica tokenize --yes org/tiny-GGUF hi --ids 2> /dev/null | cmp a -; mica list | sed 's/ .*//'
  > mica show org/tiny-GGUF --json | grep -c family
  > mica tokenize --yes org/tiny-GGUF:Q8_0 hi 2>&1
  > blob=$(find other -name tiny-Q5_1.gguf); cp $blob kept
  > cp $ROOT/tests/fixtures/gguf/llama/model.gguf $blob
  > mica show org/tiny-GGUF:Q5_1 --json 2> /dev/null | grep -o '"family": "[a-z0-9]*"'
  > head -c 1000 kept > $blob; mica tokenize org/tiny-GGUF:Q5_1 hi 2>&1 | sed "s|$PWD/.*/|.../|"
  > cp kept $blob; mica tokenize org/tiny-GGUF:Q5_1 hi --ids 2> /dev/null | cmp a -
  > mica tokenize org/tiny-GGUF hi --ids 2> /dev/null | cmp a -
  > mica rm org/tiny-GGUF:q5_1 2>&1 | sed 's/[0-9.]* kB/N kB/'; mica list | sed 's/ .*//'
  > mica rm org/tiny-GGUF 2>&1 | sed 's/[0-9.]* kB/N kB/'; mica list 2>&1 | sed 's/ .*//'
  org/tiny-GGUF: 1 file, 73.4 kB to download
  mica: .../other/hub/models--org--tiny-GGUF/.../tiny-Q5_1.gguf becomes a model folder, which is kept (mica list)
  name
  org/tiny
  org/tiny-GGUF:Q5_1
  name
  org/tiny
  org/tiny-GGUF:Q4_K_M
  org/tiny-GGUF:Q5_1
  1
  mica: org/tiny-GGUF has no files of those names
  "family": "llama"
  mica: .../tiny-Q5_1.gguf: ends within tokenizer.ggml.merges (is it cut short?)
  removed org/tiny-GGUF:q5_1: N kB
  name
  org/tiny
  org/tiny-GGUF:Q4_K_M
  removed org/tiny-GGUF: N kB
  name
  org/tiny
