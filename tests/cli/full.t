A disk that is full: nothing is said to be written that was not.
Needs /dev/full.

  $ mica run "What is curl?" -q > /dev/full 2> err
  [1]
  $ grep -c '^mica: cannot write to standard output' err
  1
  $ echo '{"prompt": "curl is", "max_tokens": 1}' | mica batch > /dev/full 2> err
  [75]
  $ cat err
  mica: cannot write to standard output: No space left on device
  0 answered
  $ echo '{"prompt": "curl is", "max_tokens": 1}' | mica batch -o /dev/full 2>&1
  mica: cannot write /dev/full: No space left on device
  0 answered
  [75]
  $ ln -s /dev/full full
  > printf 'What is tar?\n/save full\n' | mica chat -q -n 1 model 2>&1; ls -F | grep '^full'
  tar
  mica: cannot write full: No space left on device
  full@
  $ echo '{"prompt": "a", "completion": "b"}' > train.jsonl
  $ mica tune model --data train.jsonl --batch-size 1 --iters 1 \
  >   --adapter-path c --log /dev/full -q 2>&1
  mica: /dev/full: No space left on device: this log ends here; all steps are done and saved
  [1]
  $ ls c
  adapter_config.json
  adapters.safetensors
  tune_state.safetensors
