What is said at a terminal and not saved is kept, where nobody else can read it, and can be resumed.
Its model is taken, unless another is named.

  $ cat > tell << 'END'
  > wait >
  > send What is tar?\n
  > wait generated
  > wait >
  > send /bye\n
  > wait --resume continues this conversation
  > END
  > umask 022; mkdir -p .local; pty mica chat model -n 8 < tell
  > cd .local/state/mica; ls -ld talks talks/* | cut -c 1-10
  > sed "s|$ROOT|ROOT|; s|/.*/|.../|" talks/*; ls ../mica/talks | wc -l
  drwx------
  -rw-------
  {"model": "ROOT.../default"}
  {"role": "user", "content": "What is tar?"}
  {"role": "assistant", "content": "tar is the GNU program for packing"}
  1
  $ cat > go << 'END'
  > wait models/default, gemma3_text
  > wait 2 earlier messages
  > wait >
  > send /history\n
  > wait > 
  > wait What is tar?
  > wait tar is the GNU program for packing
  > wait >
  > send And gzip?\n
  > wait gzip is the GNU compression
  > wait generated
  > wait >
  > send \x04
  > wait --resume continues
  > END
  > pty mica chat --resume -n 8 < go; MICA_MODEL=nowhere mica chat --resume -q < /dev/null
  > ls .local/state/mica/talks | wc -l; cat .local/state/mica/talks/* | wc -l
  1
  5
  $ printf 'wait endless, gemma3_text\nwait 4 earlier messages\nwait >\nsend /bye\\n\n' | pty mica chat endless --resume

So is its adapter, where neither a model nor another adapter is named.

  $ rm .local/state/mica/talks/*; ln -s $ROOT/tests/fixtures/models/qwen3_tied base
  > ln -s $ROOT/tests/fixtures/lora/mlx_qwen3 tuned; ln -s $ROOT/tests/fixtures/lora/peft_qwen3 other
  > printf 'wait >\nsend a\\n\nwait generated\nwait >\nsend /bye\\n\n' > typed
  > told() { sed 's|"/[^"]*/|".../|g' .local/state/mica/talks/* | head -1; }
  > pty mica chat base -a tuned -n 1 < typed; told
  > pty mica chat --resume -n 1 < typed; told
  > pty mica chat --resume -a other -n 1 < typed; told
  > pty mica chat base --resume -n 1 < typed; told
  {"model": ".../qwen3_tied", "adapter": ".../mlx_qwen3"}
  {"model": ".../qwen3_tied", "adapter": ".../mlx_qwen3"}
  {"model": ".../qwen3_tied", "adapter": ".../peft_qwen3"}
  {"model": ".../qwen3_tied"}

/clear and /load begin another talk; what was said before stays where it is kept. What is saved by
/save is not kept any longer, nor what --session keeps.

  $ rm .local/state/mica/talks/*
  > pty mica chat -n 2 << 'END'
  > wait >
  > send What is tar?\n
  > wait generated
  > wait >
  > send /clear\n
  > wait >
  > send What is curl?\n
  > wait generated
  > wait >
  > send /bye\n
  > END
  > cat .local/state/mica/talks/* | grep -c '"user"'; ls .local/state/mica/talks | wc -l
  2
  2
  $ rm .local/state/mica/talks/*
  > printf 'wait >\nsend What is tar?\\n\nwait generated\nwait >\nsend /save said\\n\nwait >\nsend /bye\\n\n' > save
  > pty mica chat -n 2 < save; pty mica chat -n 2 --session other < save
  > ls .local/state/mica/talks; wc -l < said; grep -c model said
  2
  0
  [1]

--no-history keeps nothing, neither what was said nor what was typed; a pipe's talk is not kept.

  $ printf 'wait >\nsend What is rsync?\\n\nwait generated\nwait >\nsend /bye\\n\n' > typed
  > pty mica chat -n 1 --no-history < typed; MICA_HISTORY=off pty mica run -n 1 < typed
  > echo 'What is rsync?' | mica chat -n 1 -q; ls .local/state/mica/talks; cat .local/state/mica/history 2> /dev/null | grep -c rsync
  r
  0
  [1]

At most 20 are kept, and none for more than 30 days. Files of other names stay.

  $ cd .local/state/mica/talks; aged 744 1-1.jsonl mine.jsonl; aged 696 2-2.jsonl
  > for i in $(seq 10 40); do aged $i "$i-1.jsonl"; done; cd
  > pty mica chat -n 1 < typed; cd .local/state/mica/talks; ls | wc -l; ls | grep '^[0-9]*-[0-9].jsonl' | tail -1; ls mine.jsonl
  > cd; rm .local/state/mica/talks/*; aged 744 .local/state/mica/talks/1-1.jsonl
  > aged 696 .local/state/mica/talks/2-2.jsonl
  > pty mica chat -n 1 < typed; ls .local/state/mica/talks | wc -l; ls .local/state/mica/talks | grep '^[0-9]-'
  21
  28-1.jsonl
  mine.jsonl
  2
  2-2.jsonl

What is wrong is said.

  $ mica chat --resume --session x 2>&1
  mica: two conversations: --session and --resume
  Try: mica help chat
  [2]
  $ rm .local/state/mica/talks/*; mica chat --resume 2>&1; HOME= mica chat --resume 2>&1
  mica: there is no saved conversation to resume
  mica: there is no saved conversation to resume
  [1]
  $ mkdir -p full/mica; touch full/mica/talks
  > printf 'wait >\nsend What is tar?\\n\nwait cannot write\nwait talks\nwait >\nsend /bye\\n\n' > typed
  > XDG_STATE_HOME=$PWD/full pty mica chat -n 1 < typed
  $ printf '{"model": 5}\n' > bad; mica chat -q --session bad < /dev/null 2>&1
  mica: bad, line 1: it is not a message: {"role": ..., "content": ...}
  [1]

Where nothing can be kept, nothing says that it was.

  $ printf 'wait >\nsend hi\\n\nwait generated\nwait >\nsend /bye\\n\nwait continues\n' > tell
  > HOME=/dev/null pty mica chat model -n 1 < tell 2> said || sed '2,$d' said
  pty: the command ended before it wrote: continues
