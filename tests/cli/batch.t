A line of JSON for each line of JSON, as soon as it is answered; as many tokens as the same prompt
has alone.

  $ cat > in << 'END'
  > {"id": "tar", "messages": [{"role": "user", "content": "What is tar?"}]}
  > {"id": 7, "prompt": "curl is", "max_tokens": 5}
  > 
  > {"prompt": "curl is", "stop": [" tool", "never"]}
  > {"id": "brief", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is curl?"}], "max_tokens": 3}
  > END
  > mica batch in -q | sort > out; cut -d , -f 1-3 out
  {"id": "brief", "text": "curl is a", "finish": "length"
  {"id": "tar", "text": "tar is the GNU program for packing files into one archive and unpacking them. It can also compress the archive, for example with gzip (.tar.gz) or xz (.tar.xz)."
  {"id": 4, "text": " a command line", "finish": "stop"
  {"id": 7, "text": " a command line tool for", "finish": "length"
  $ mica run "What is tar?" -q > a; grep '"tar"' out | sed 's/.*"text": "\(.*\)", "finish.*/\1/' | cmp - a
  $ mica batch in -q --parallel 1 | sort | cmp - out; mica batch model -q < in | sort | cmp - out
  $ mica batch -m model in 2>&1 > /dev/null | sed 's/[0-9.]* tok\/s/N tok\/s/'
  4 answered, 52 tokens at N tok/s

What the command line says of all, a line says better.

  $ printf '{"prompt": "curl is"}\n{"prompt": "curl is", "max_tokens": 1}\n' | mica batch -q -n 2 | sort
  {"id": 1, "text": " a command", "finish": "length", "prompt_tokens": 3, "generated_tokens": 2}
  {"id": 2, "text": " a", "finish": "length", "prompt_tokens": 3, "generated_tokens": 1}
  $ printf '{"prompt": "curl is", "stop": [" command"]}\n' | mica batch -q --stop " a" -n 9
  {"id": 1, "text": " a", "finish": "stop", "prompt_tokens": 3, "generated_tokens": 2}

Lines that are wrong are told, and have a row with an error; the others are answered. So is a line with
the id of an earlier one.

  $ cat > bad << 'END'
  > {"prompt": "curl is", "max_tokens": 1}
  > {"prompt": 1}
  > {"prompt": "a", "messages": []}
  > {"id": "nothing"}
  > {"messages": [{"role": "user"}]}
  > {"prompt": "a", "tempratur": 1}
  > {"prompt": "a", "temperature": "hot"}
  > {"prompt": "a", "top_p": {}}
  > {"prompt": "a", "id": null}
  > {"prompt": "a\u0000b"}
  > ["prompt"]
  > {"prompt": "a"
  > {"prompt": ""}
  > {"messages": [{"role": "nobody", "content": "x"}]}
  > END
  > mica batch bad -q 2>&1 | sed 's,"error": "/[^ ]*/,"error": ",' | cut -c 1-110
  > mica batch bad -q > out 2> err; echo $?; grep -c error out
  mica: bad, line 2: "prompt" is a text
  {"id": 2, "error": "\"prompt\" is a text"}
  mica: bad, line 3: "messages" is empty
  {"id": 3, "error": "\"messages\" is empty"}
  mica: bad, line 4: it has either a "prompt" or "messages"
  {"id": "nothing", "error": "it has either a \"prompt\" or \"messages\""}
  mica: bad, line 5: "messages" is an array of {"role": ..., "content": ...}
  {"id": 5, "error": "\"messages\" is an array of {\"role\": ..., \"content\": ...}"}
  mica: bad, line 6: there is no option "tempratur"
  {"id": 6, "error": "there is no option \"tempratur\""}
  mica: bad, line 7: "temperature": 'hot' is not a number
  {"id": 7, "error": "\"temperature\": 'hot' is not a number"}
  mica: bad, line 8: "top_p" has a value of another kind
  {"id": 8, "error": "\"top_p\" has a value of another kind"}
  mica: bad, line 9: an id is a text or a number
  {"id": 9, "error": "an id is a text or a number"}
  mica: bad, line 10: a string holds a NUL
  {"id": 10, "error": "a string holds a NUL"}
  mica: bad, line 11: it is not a JSON object
  {"id": 11, "error": "it is not a JSON object"}
  mica: bad, line 12: a ',' or a closing bracket is missing
  {"id": 12, "error": "a ',' or a closing bracket is missing"}
  {"id": 1, "text": " a", "finish": "length", "prompt_tokens": 3, "generated_tokens": 1}
  {"id": 13, "error": "the text is empty: give at least one character"}
  {"id": 14, "error": "chat_template.jinja, line 13: Conversation roles must alternate user/assistant/user/assis
  1
  13
  $ printf '{"prompt": "a\377b"}\n' | mica batch -q | grep -c 'error.*UTF-8'
  1
  $ m='{"role": "user", "content": "x"}'
  > printf '{"messages": [%s, %s], "messages": [%s]}\n' "$m" "$m" "$m" | mica batch -q
  {"id": 1, "error": "\"messages\" is there twice"}
  [1]
  $ printf '[[[[[[[[[[%0100000d' 0 | mica batch 2>&1 | cut -c 1-60
  mica: standard input, line 1: a value is missing or malforme
  {"id": 1, "error": "a value is missing or malformed"}
  0 answered, 1 failed
  $ (printf '{"prompt": "'; yes curl | head -30000 | tr '\n' ' '; echo '"}') | mica batch -q | cut -c 1-60
  {"id": 1, "error": "the prompt has 30002 tokens, the model's
  $ mica batch -q < /dev/null; mica batch nowhere 2>&1
  mica: cannot read nowhere: No such file or directory
  [1]
  $ mica batch --top-p 2 in 2>&1
  mica: --top-p: 2 is more than 1
  Try: mica help batch
  [2]
  $ echo 'wait batch needs a file' | pty mica batch
  [2]

With --output a second run answers only what is new; half a line, as a crash leaves it, is dropped.

  $ mica batch in -o done -q; sort done > first; wc -l < done
  4
  $ mica batch in -o done 2>&1; sort done | cmp - first
  0 answered, 4 already there
  $ head -c $(($(wc -c < done) - 9)) done > half; mica batch in -o half 2>&1 | sed 's/, [0-9]* tokens.*//'; sort half | cmp - first
  1 answered, 3 already there
  $ echo '{"prompt": "curl is", "id": "new", "max_tokens": 1}' >> in; MICA_OUTPUT=done mica batch in -q; tail -1 done
  {"id": "new", "text": " a", "finish": "length", "prompt_tokens": 3, "generated_tokens": 1}
  $ echo "no output" > other; mica batch in -o other 2>&1; cat other
  mica: other, line 1: this is not an output of mica batch
  Name another --output, or remove that file.
  no output
  $ refused() { cp other same; mica batch in -o other 2>&1 | head -1; cmp other same; }
  > for tail in 'my notes' '{"prompt": "c"}' '{"id": 1, "prompt": "c"}' '{"id": "a,\"b", "p' \
  >   '{"idea'; do
  >   printf '%s' "$tail" > other; refused; (cat first; printf '%s' "$tail") > other; refused
  > done
  mica: other, line 1: this is not an output of mica batch
  mica: other, line 5: this is not an output of mica batch
  mica: other, line 1: this is not an output of mica batch
  mica: other, line 5: this is not an output of mica batch
  mica: other, line 1: this is not an output of mica batch
  mica: other, line 5: this is not an output of mica batch
  mica: other, line 1: this is not an output of mica batch
  mica: other, line 5: this is not an output of mica batch
  mica: other, line 1: this is not an output of mica batch
  mica: other, line 5: this is not an output of mica batch
  $ printf '{"id": 1, "prompt": "a"}\n{"id": 2, "prompt": "b"}' > other; cp other same
  > mica batch other -o other 2>&1; cmp other same
  mica: other, line 1: this is not an output of mica batch
  Name another --output, or remove that file.
  $ echo '{"prompt": "curl is", "id": "a,\"b\\", "max_tokens": 1}' > one; mica batch one -q -o row
  > n=$(wc -c < row); while n=$((n - 1)); [ $n -ge 0 ]; do
  >   head -c $n row > part; mica batch one -q -o part; cmp row part
  > done
  $ mica batch in -o no/folder 2>&1
  mica: cannot write no/folder: No such file or directory
  [1]
  $ printf '{"prompt": "a", "id": 1, "max_tokens": 1}\n{"prompt": "b", "id": 1}\n{"prompt": "c", "id": "1", "max_tokens": 1}\nno\n' > twice
  > mica batch twice -q -o rows 2>&1; cut -c 1-30 rows
  mica: twice, line 2: its id is that of an earlier line
  mica: twice, line 4: a value is missing or malformed
  {"id": 1, "error": "its id is 
  {"id": 4, "error": "a value is
  {"id": 1, "text": "es", "finis
  {"id": "1", "text": "y", "fini

What failed is tried again.

  $ sed '4s/.*/{"prompt": "d", "max_tokens": 1}/' twice > again; mv again twice
  > mica batch twice -o rows 2>&1 | sed 's/, [0-9]* tokens.*//'; tail -1 rows | cut -c 1-20
  mica: twice, line 2: its id is that of an earlier line
  1 answered, 2 already there, 1 failed
  {"id": 4, "text": "a

Ctrl-C ends it with 130; what was answered is in the file, and the next run goes on from there.

  $ for i in 1 2 3 4 5 6; do
  >   echo "{\"prompt\": \"curl is\", \"max_tokens\": $((i * i))}"
  > done > six
  > echo '{"prompt": "curl is", "max_tokens": 1900, "ignore_eos": true, "id": "long"}' > in
  > cat six >> in; echo '{"prompt": "curl is", "max_tokens": 1900, "ignore_eos": true, "id": "longer"}' >> in
  > cat > interrupt << 'END'
  > mica batch in -m model --parallel 2 -q -o part &
  > while kill -0 $! && ! grep -q '"id": 7' part; do :; done 2> /dev/null
  > kill -INT $!; wait $!
  > END
  > sh interrupt; echo "exit $?"; grep -c long part
  > mica batch six -m model -o part 2>&1 | sed 's/, [0-9]* tokens.*//'
  exit 130
  0
  1 answered, 5 already there

OpenAI's batches: requests with a custom_id and a body, answers as there. Read with other programs'
eyes: every line is JSON, and each custom_id is there once.

  $ cat > requests << 'END'
  > {"custom_id": "a-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": [{"role": "user", "content": "What is curl?"}], "max_completion_tokens": 3, "temperature": 0, "n": 1, "stream": false, "user": "u"}}
  > {"custom_id": "b", "body": {"prompt": "curl is", "max_tokens": 2}}
  > {"custom_id": "c", "url": "/v1/embeddings", "body": {"input": "curl"}}
  > {"custom_id": "d", "body": {"prompt": "curl is", "max_tokens": 9, "nonsense": 1}}
  > END
  > mica batch requests -q > out 2> err; echo $?; sed 's/"created": [0-9]*/"created": N/; s,"model": "/[^"]*","model": "M",' out | sort
  1
  {"id": "batch_req_1", "custom_id": "a-1", "response": {"status_code": 200, "request_id": "req_1", "body": {"id": "chatcmpl-1", "object": "chat.completion", "created": N, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "curl is a"}, "logprobs": null, "finish_reason": "length"}], "usage": {"prompt_tokens": 13, "completion_tokens": 3, "total_tokens": 16}}}, "error": null}
  {"id": "batch_req_2", "custom_id": "b", "response": {"status_code": 200, "request_id": "req_2", "body": {"id": "cmpl-2", "object": "text_completion", "created": N, "model": "M", "choices": [{"index": 0, "text": " a command", "logprobs": null, "finish_reason": "length"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}}, "error": null}
  {"id": "batch_req_3", "custom_id": "c", "response": null, "error": {"code": "invalid_request", "message": "\"url\" is /v1/chat/completions or /v1/completions"}}
  {"id": "batch_req_4", "custom_id": "d", "response": null, "error": {"code": "invalid_request", "message": "there is no option \"nonsense\""}}
  $ mica batch requests -q -o kept 2> err; mica batch requests -o kept 2> err; tail -1 err
  > head -c 40 kept > half; mica batch requests -q -o half 2> err; cut -d '"' -f 8 half | sort | uniq -c | sed 's/^ *//'
  0 answered, 2 already there, 2 failed
  1 a-1
  1 b
  1 c
  1 d

Parts of a file: by number, or by what a scheduler has set. Together they are the whole, each once.

  $ seq 7 | sed 's/.*/{"id": &, "prompt": "curl is", "max_tokens": 1}/' > seven
  > for i in 1 2 3; do mica batch seven -q --shard $i/3; done | sort > parts
  > mica batch seven -q | sort | cmp - parts; mica batch seven -q --shard 2/3 | cut -d , -f 1 | sort
  {"id": 2
  {"id": 5
  $ (export SLURM_ARRAY_TASK_ID=14 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=14 SLURM_ARRAY_TASK_STEP=2
  > mica batch seven 2> err | cut -d , -f 1 | sort; cut -d : -f 1 err)
  {"id": 3
  {"id": 6
  shard 3 of 3 (SLURM_ARRAY_TASK_ID)

Processes of a job of an array share its part. Of an array with gaps, as one that repeats a few jobs,
nobody knows who has which part.

  $ (export SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=1 SLURM_ARRAY_TASK_COUNT=2
  > SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3 mica batch seven 2> err | cut -d , -f 1 | sort; cut -d : -f 1 err
  > export SLURM_ARRAY_TASK_MAX=4; mica batch seven 2>&1 | head -1
  > SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=1 mica batch seven 2>&1 | head -1
  > mica batch seven -q --shard 7/7 | cut -d , -f 1)
  {"id": 6
  shard 6 of 6 (SLURM_ARRAY_TASK_ID, SLURM_PROCID)
  mica: SLURM_ARRAY_TASK_ID: some jobs of this array are missing, so --shard I/N must say which part is meant
  mica: SLURM_ARRAY_TASK_ID: some jobs of this array are missing, so --shard I/N must say which part is meant
  {"id": 7
  $ SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 mica batch seven -q | cut -d , -f 1 | sort
  {"id": 2
  {"id": 6
  $ SLURM_PROCID=0 SLURM_NTASKS=4 mica batch seven -q | wc -l
  7
  $ mica batch seven --shard 4/3 2>&1 | head -1
  mica: --shard: '4/3' is not I/N, with I from 1 to N

A scheduler that takes the machine back gets 75: the same command goes on where this one ended.

  $ yes '{"prompt": "curl is", "max_tokens": 200}' | head -400 > many
  > mica batch many -q -o answers & child=$!
  > until [ -s answers ]; do sleep 0.1; done; kill -TERM $child; wait $child; echo $?
  > grep -c error answers; [ $(wc -l < answers) -lt 400 ]
  75
  0
