A folder that is no model: exit 1, a message that names it and what is missing, and no result.

  $ mica run --model nowhere x 2> err
  [1]
  $ grep -c '^mica: .*nowhere' err; tail -1 err
  1
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  $ mkdir empty; mica run --model empty x 2> err
  [1]
  $ grep -c '^mica: .*empty.*config.json' err; tail -1 err
  1
  A model is a folder that holds config.json, tokenizer.json and *.safetensors.
  $ mica chat empty 2>&1 > /dev/null < /dev/null | grep -c '^mica: .*empty.*config.json'
  1
  $ mica show empty 2>&1 > /dev/null | grep -c '^mica: .*empty.*config.json'
  1
  $ mica bench empty 2>&1 > /dev/null | grep -c '^mica: .*empty.*config.json'
  1
  $ mica tokenize -m empty x 2>&1 > /dev/null | grep -c '^mica: .*empty.*tokenizer.json'
  1
  $ MICA_MODEL=nowhere mica run x 2>&1 > /dev/null | grep -c '^mica: .*nowhere'
  1

Each file that a model needs is named where it is missing.

  $ for file in config.json tokenizer.json model.safetensors; do
  >   rm -rf part; mkdir part; cp model/*.json part; ln -s ../model/model.safetensors part
  >   rm part/$file
  >   mica run --model part x 2> err; echo "exit $?"; grep '^mica: ' err
  > done
  exit 1
  mica: part: not a model folder: config.json is missing: get it from where the model is from
  exit 1
  mica: part/tokenizer.json: there is none: copy it from where the model is from
  exit 1
  mica: part: not a model folder: weights (*.safetensors) are missing: get it from where the model is from

A model whose weights are broken, here by a NaN in its last norm: no result.

  $ mkdir nan; cp model/*.json model/model.safetensors nan; file=nan/model.safetensors
  > header=$(od -An -t u8 -N 8 $file | tr -d ' ')
  > at=$(tail -c +9 $file | head -c $header |
  >   sed 's/.*"model.norm.weight": *{[^}]*"data_offsets": *\[ *\([0-9]*\),.*/\1/')
  > printf '\377\377' | dd of=$file bs=1 seek=$((8 + header + at)) conv=notrunc 2> /dev/null
  > for task in 'score --json' score 'eval --json' 'eval --compare exact' 'eval --reference model' \
  >   'run -q'; do mica $task -m nan "curl is" 2>&1; echo "exit $?"
  > done
  > echo curl is > text; for task in 'classify --json' 'embed'; do
  >   mica $task -m nan text 2>&1; echo "exit $?"
  > done
  mica: a logit is not a number: the model's weights are broken
  exit 1
  mica: a logit is not a number: the model's weights are broken
  exit 1
  mica: a logit is not a number: the model's weights are broken
  exit 1
  mica: a logit is not a number: the model's weights are broken
  exit 1
  mica: a logit is not a number: the model's weights are broken
  exit 1
  mica: sampling: a logit is not a number: the model's weights are broken, or a bias or a penalty is too large
  exit 1
  {"id": 1, "error": "a logit is not a number: the model's weights are broken"}
  exit 1
  mica: id 1: a hidden state is not a number: the model's weights are broken
  exit 1

A prompt that is empty, no text, or longer than the context.

  $ mica run -q '' 2>&1
  mica: the prompt is empty: give a text as an argument, by --file, or on standard input
  [1]
  $ mica run -q < /dev/null 2>&1
  mica: the prompt is empty: give a text as an argument, by --file, or on standard input
  [1]
  $ mica generate -q '' 2>&1
  mica: the prompt is empty: give a text as an argument, by --file, or on standard input
  [1]
  $ printf 'a\0b' | mica run -q 2>&1
  mica: standard input holds a NUL byte
  [1]
  $ printf 'a\377b' | mica run -q 2>&1
  mica: the prompt is not UTF-8
  [1]
  $ yes curl | head -3000 | mica generate -q 2>&1
  mica: the prompt has 6000 tokens, the model's context 2048: shorten the prompt, or truncate it
  With --truncate its oldest tokens are dropped, with --context N they are forgotten.
  [1]

An answer that cannot be written.

  $ mica version >&- 2> err
  [1]
  $ grep -c '^mica: cannot write to standard output' err
  1
  $ mica run "What is curl?" -q >&- 2> err
  [1]
  $ grep -c '^mica: cannot write to standard output' err
  1

Files that are larger than one of their kind may be are not read, however large; nor is a device
that never ends.

  $ for file in config.json chat_template.jinja tokenizer.json tokenizer_config.json; do
  >   mkdir large; for f in model/*; do ln -s "../$f" large; done
  >   rm large/$file; sparse 3 large/$file; mica run --model large "curl is" -q 2>&1; rm -r large
  > done
  mica: large/config.json: is too large: it has 3221225472 bytes, and a config at most 16000000
  mica: large/chat_template.jinja: is too large: it has 3221225472 bytes, and a chat template at most 4000000
  mica: large/tokenizer.json: is too large: it has 3221225472 bytes, and a tokenizer at most 256000000
  mica: large/tokenizer_config.json: is too large: it has 3221225472 bytes, and a tokenizer's config at most 32000000
  $ mkdir adapter; sparse 3 adapter/adapter_config.json; : > adapter/adapters.safetensors
  > mica run --model model --adapter adapter "curl is" -q 2>&1
  mica: adapter/adapter_config.json: is too large: it has 3221225472 bytes, and a config at most 16000000
  [1]
  $ sparse 20 huge; mica run --chat-template-file huge a 2>&1
  mica: huge is too long: a chat template has at most 4.0 MB
  [1]
  $ mica run -f huge 2>&1; mica eval -f huge 2>&1; mica batch huge 2>&1
  > mica classify --labels huge < /dev/null 2>&1; echo /bye | mica chat --session huge 2>&1
  > echo '{"prompt": "curl is", "max_tokens": 1}' | mica batch -o huge 2>&1
  mica: huge is too long: a prompt has at most 64.0 MB
  mica: huge is too long: a text has at most 256.0 MB
  mica: huge is too long: a file of prompts or texts has at most 1.0 GB
  mica: huge is too long: a list of labels has at most 16.0 MB
  mica: huge is too long: a conversation has at most 64.0 MB
  mica: huge is too long: a file of answers has at most 16.0 GB
  [1]
  $ mica run -f /dev/zero 2>&1; mica run - < /dev/zero 2>&1; mica chat -q < /dev/zero 2>&1
  mica: /dev/zero is too long: a prompt has at most 64.0 MB
  mica: standard input is too long: a prompt has at most 64.0 MB
  mica: a line is too long: a prompt has at most 64.0 MB
  [1]
  $ (printf '{"prompt": "curl is", "max_tokens": 1, "stop": ["'; head -c 64000000 /dev/zero | tr '\0' x
  > echo '"]}') > long; mica batch long 2>&1 | grep -c 'it is longer than 64 MB'
  2

A file that is cut while it is mapped: the next answer ends with a word and 1.

  $ mkdir cut; cp $ROOT/tests/fixtures/models/gemma3_text_f32/[cmt]* cut; mkfifo said
  > (echo a; head -n 1 said > first; : > cut/model.safetensors; echo b) |
  >   mica chat -q -n 1 --chat-template '{{ messages[0].content }}' cut 2> err > said
  [1]
  $ wc -l < first; sed "s|^mica: $(pwd -P)|mica: |" err
  1
  mica: /cut/model.safetensors was cut short, or cannot be read, while it was in use
  With --no-mmap weights are read into memory first.

A file that may not grow so large is told, and what was begun is removed.

  $ mkdir small; ulimit -f 8; printf 'What is curl?\n/save small/talk\n' | mica chat model -q -n 1 2>&1; ls -A small
  curl
  mica: cannot write small/talk.cache: File too large
  talk
  $ ulimit -f 8; mica help run 2>&1 > small/help
  mica: cannot write to standard output: File too large
  [1]

A reader that has seen enough ends it quietly.

  $ mica run "What is curl?" 2> err | head -c 4; echo
  curl
  $ cat err
