How likely a text is: the more the model expects it, the lower its perplexity.

  $ mica score "curl is a command line tool" | sed 's/\.[0-9]*$//'
  tokens           7
  log-probability  -17
  perplexity       19
  $ mica score "tool line command a is curl" --json | sed 's/: -\{0,1\}[0-9]*\.[0-9]*/: N/g'
  {"tokens": 7, "log_probability": N, "perplexity": N}
  $ perplexity() { mica score "$@" | sed -n 's/^perplexity *\([0-9]*\).*/\1/p'; }
  > [ $(perplexity "curl is a command line tool") -lt $(perplexity "tool line command a is curl") ]
  $ mica score --tokens "curl is a" | head -4 | sed 's/^ *-\{0,1\}[0-9]*\.[0-9]* /N/'
             <bos>
  N curl
  N ▁is
  N ▁a
  $ mica score --tokens --json "curl" | sed 's/: -\{0,1\}[0-9]*\.[0-9]*/: N/g'
  {"tokens": 2, "log_probability": N, "perplexity": N, "scores": [{"id": 2, "token": "<bos>"}, {"id": 5433, "token": "curl", "log_probability": N}]}
  $ printf 'curl is a' > file; mica score --json --file file > a
  > mica score --json "curl is a" | cmp - a; mica score --json < file | cmp - a
  > mica score --json -f - < file | cmp - a; mica score --json -f file model | cmp - a

Texts that are none.

  $ mica score '' 2>&1
  mica: the text is empty
  [1]
  $ mica score -f nowhere 2>&1
  mica: cannot read nowhere: No such file or directory
  [1]
  $ mica score -f file text model 2>&1
  mica: two texts: --file file and model
  Try: mica help score
  [2]
  $ mica score a b c 2>&1
  mica: score takes no 'c'; put quotes around a text of several words
  Try: mica help score
  [2]
  $ printf 'a\377b' | mica score 2>&1 | sed 's/ at byte.*//'
  mica: mica_score: encode: the text is not UTF-8
  $ yes curl | head -9000 | mica score -q 2>&1 | cut -c 1-40
  mica: the text has 18000 tokens, the mod
  With --context N its oldest tokens are f
