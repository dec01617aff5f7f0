A chat whose context is full leaves out its oldest turns, and says so once. The system's message
stays, and is not computed again. /show never tells more tokens than there are places for.

  $ asks() { for name in $(seq $1); do echo "What is the tool number $name good for?"; done; }
  > (asks 7; echo /show) |
  >   mica chat model -c 110 -n 8 --system "Answer as briefly as you can, in a word or two" 2>&1 >/dev/null |
  >   sed 's/ at [0-9.]* tok.s//g; s/, the end of --max-tokens//; /^model/d; /^quant/d'
  32 prompt tokens, 8 generated
  21 prompt tokens (and 39 known), 8 generated
  21 prompt tokens (and 67 known), 8 generated
  The context is full: the oldest messages are left out from now on. /show tells how many.
  9 prompt tokens (and 23 known), 8 generated
  21 prompt tokens (and 39 known), 8 generated
  21 prompt tokens (and 67 known), 8 generated
  9 prompt tokens (and 23 known), 8 generated
  context       40 of 110 tokens
  messages      15, the oldest 12 left out

What is left out is whole turns, so that the answer is that of a chat without them.

  $ printf 'What is tar?\nAnd gzip?\nWhat is curl?\nAnd wget?\n' | mica chat -q -n 8 -c 56 2> told |
  >   tail -1 > a
  > printf 'What is curl?\nAnd wget?\n' | mica chat -q -n 8 | tail -1 | cmp - a; cat told
  The context is full: the oldest messages are left out from now on. /show tells how many.

It is the same with the context that a model has by itself, and for a conversation that was kept.
None of that is lost.

  $ for i in $(seq 200); do
  >   echo "{\"role\": \"user\", \"content\": \"What is the number $i good for?\"}"
  >   echo '{"role": "assistant", "content": "It comes behind the one before it."}'
  > done > kept
  > (echo 'What is curl?'; echo /show) | mica chat -q -n 8 --session kept 2>&1 |
  >   sed '/^model/d; /^quant/d; s/ [0-9,]* of/ N of/; s/oldest [0-9]* left/oldest N left/'
  > wc -l < kept
  The context is full: the oldest messages are left out from now on. /show tells how many.
  curl is a command line tool for transferring
  context       N of 2,048 tokens
  messages      402, the oldest N left out
  402

An answer ends where the context does, also with --context, and the next one has room again.

  $ printf 'What is curl?\nWhat is tar?\n/show\n/clear\n/show\n' | mica chat endless -c 60 2>&1 >/dev/null |
  >   sed 's/ at [0-9.]* tok.s//g; /^model/d; /^quant/d'
  13 prompt tokens, 48 generated, the context is full
  The context is full: the oldest messages are left out from now on. /show tells how many.
  7 prompt tokens (and 6 known), 48 generated, the context is full
  context       60 of 60 tokens
  messages      4, the oldest 2 left out
  context       0 of 60 tokens
  messages      0

A message that alone is more than the context is refused, or with --context only its end is kept in
mind; the turns before it are not lost.

  $ long=$(seq 1000 | tr '\n' ' ')
  > printf 'What is tar?\n%s\n/show\n' "$long" | mica chat -q -n 4 2>&1 | grep '^messages'
  > printf 'What is tar?\n%s\n/show\n' "$long" | mica chat -q -n 4 -c 300 2>&1 |
  >   grep -E '^context|forgets'
  messages      2
  mica: --context 300 forgets 3601 of the prompt's 3901 tokens
  context       300 of 300 tokens
