One model over several ranks: what one rank prints, to the byte. Each has a part of every matrix.

  $ echo 'exec "$MPIRUN" -n 2 mica "$@" 2> errors' > ranks
  > echo 'mica "$@" -t 1 > one 2> errors; sh ranks "$@" -t 1 > two; cmp one two' > same
  $ sh same generate model "curl is a" --max-tokens 12 < /dev/null
  $ sh same run model "What is curl?" --max-tokens 8 -T 0 --arithmetic exact < /dev/null
  $ sh same score model "curl is a tool" --tokens < /dev/null

Rank 0 reads standard input, and chooses the seed.

  $ echo "curl is a" | sh ranks score --json | sed 's/: -\{0,1\}[0-9]*\.[0-9]*/: N/g'
  {"tokens": 4, "log_probability": N, "perplexity": N}
  $ echo "curl is" | sh ranks generate model --temperature 2 --max-tokens 4 > answer
  > grep -c mica: errors
  0
  [1]

A rank that has something else than rank 0 is told by its number.

  $ "$MPIRUN" -n 1 mica score model hello : -n 1 mica score model hello --cache f16 2>&1 < /dev/null \
  > | grep -m 1 -o 'options: rank 1 .*' | sed 's/ on [^ ]* has / has /'
  options: rank 1 has 'arithmetic 2, cache 2, context_length 0', and rank 0 'arithmetic 2, cache 0, context_length 0'
  $ sh ranks score nowhere hello < /dev/null; grep -m 1 -o 'there is no model nowhere' errors
  there is no model nowhere

What does not run on several ranks says so.

  $ sh ranks list; grep -m 1 -o 'mica: mica list.*' errors
  mica: mica list runs as one process, and not as the 2 that were started

A launcher's variables alone, and no library for MPI: only what needs other ranks asks for one.

  $ echo 'MICA_MPI_LIBRARY=./nowhere mica "$@" 2>&1 < /dev/null' > bare
  > PMI_SIZE=4 sh bare version | grep -c '^mica '
  1
  $ PMI_SIZE=4 sh bare score model hello | grep -o 'this mica has no library for MPI'
  this mica has no library for MPI
  $ PMI_SIZE=1 sh bare score model hello --json | grep -c perplexity
  1
