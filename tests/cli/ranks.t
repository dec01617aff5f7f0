One model over several ranks: what one rank prints, to the byte. Each has a part of every matrix.

  $ echo 'exec "$MPIRUN" -n 2 mica "$@" 2> errors' > ranks
  > echo 'mica "$@" -t 1 > one 2> errors; sh ranks "$@" -t 1 > two; cmp one two' > same
  $ sh same generate model "curl is a" --max-tokens 12 < /dev/null
  $ sh same run model "What is curl?" --max-tokens 8 -T 0 --arithmetic exact < /dev/null
  $ sh same score model "curl is a tool" --tokens < /dev/null

Or a part of the layers; of four ranks two have each half, and a part of each matrix there. A draft
model is divided, too.

  $ sh same generate model "curl is a" --max-tokens 12 --pipeline-parallel 2 < /dev/null
  $ sh same run model "What is curl?" --max-tokens 8 -T 0 --draft-model model --pipeline-parallel 2 < /dev/null
  $ sed s/2/4/ ranks > four; sed s/ranks/four/ same > quad
  $ sh quad generate model "curl is a" --max-tokens 12 --tensor-parallel 2 < /dev/null
  $ sh quad score model "curl is a tool" --tokens --pipeline-parallel 4 < /dev/null
  $ sh ranks score model hello --tensor-parallel 4 < /dev/null; grep -m 1 -o 'tensor_parallel 4.*' errors
  tensor_parallel 4 times pipeline_parallel 0 is not the number of ranks, 2

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
  options: rank 1 has 'arithmetic 2, cache 2, context_length 0, tensor_parallel 0, pipeline_parallel 0', and rank 0 'arithmetic 2, cache 0, context_length 0, tensor_parallel 0, pipeline_parallel 0'
  $ sh ranks score nowhere hello < /dev/null; grep -m 1 -o 'there is no model nowhere' errors
  there is no model nowhere

Training: ranks have a batch each of an update. The adapter is that of one rank, to the byte.

  $ mkdir data; for i in curl tar C gzip; do
  >   echo "{\"prompt\": \"What is $i?\", \"completion\": \"It is $i.\"}"
  > done > data/train.jsonl
  > set -- tune model --data data --iters 4 --batch-size 1 --num-layers 2 --rank 2 -q
  > mica "$@" --grad-accumulation-steps 2 --adapter-path alone 2> errors
  > sh ranks "$@" --adapter-path together < /dev/null; cmp alone/adapters.safetensors together/adapters.safetensors
  $ sh ranks tune model --data data --grad-accumulation-steps 3 --force < /dev/null; grep -m 1 -o 'accumulate 3.*' errors
  accumulate 3: 2 ranks have a batch each of an update: want a multiple

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
