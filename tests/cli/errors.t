A folder that is no model: exit 1, a message that names it and what is missing, and no result.

  $ mica run --model nowhere x 2> err
  $ grep -c '^mica: .*nowhere' err; tail -1 err
  $ mkdir empty; mica run --model empty x 2> err
  $ grep -c '^mica: .*empty.*config.json' err; tail -1 err
  $ mica chat empty 2>&1 > /dev/null < /dev/null | grep -c '^mica: .*empty.*config.json'
  $ mica show empty 2>&1 > /dev/null | grep -c '^mica: .*empty.*config.json'
  $ mica bench empty 2>&1 > /dev/null | grep -c '^mica: .*empty.*config.json'
  $ mica tokenize -m empty x 2>&1 > /dev/null | grep -c '^mica: .*empty.*tokenizer.json'
  $ MICA_MODEL=nowhere mica run x 2>&1 > /dev/null | grep -c '^mica: .*nowhere'
  $ MICA_MODELS=nowhere mica run x 2>&1 > /dev/null | grep -c '^mica: .*nowhere/default'

Each file that a model needs is named where it is missing.

  $ for file in config.json tokenizer.json model.safetensors; do
  >   rm -rf part; mkdir part; cp model/*.json part; ln -s ../model/model.safetensors part
  >   rm part/$file
  >   mica run --model part x 2>&1 > /dev/null | grep -c "^mica: .*part"
  >   echo "exit $?"
  > done

A prompt that is empty, no text, or longer than the context.

  $ mica run -q '' > /dev/null 2>&1
  $ printf 'a\0b' | mica run -q 2>&1
  $ printf 'a\377b' | mica run -q > /dev/null 2>&1
  $ yes curl | head -3000 | mica generate -q > /dev/null 2> err
  $ grep -c 2048 err

An answer that cannot be written.

  $ mica version >&- 2> err
  $ grep -c '^mica: cannot write to standard output' err
  $ mica run "What is curl?" -q >&- 2> err
  $ grep -c '^mica: cannot write to standard output' err
  $ mica run "What is curl?" -q > /dev/full 2> err
  $ grep -c '^mica: cannot write to standard output' err

A reader that has seen enough ends it quietly.

  $ mica run "What is curl?" 2> err | head -c 4
  $ cat err
