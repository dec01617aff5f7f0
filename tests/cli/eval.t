How a model does on a text: the perplexity is that of `mica score`.

  $ mica eval "curl is a command line tool" | sed 's/\.[0-9]*$//'
  tokens          6
  arithmetic      fast
  perplexity      19
  $ of() { sed -n 's/^perplexity *//p'; }
  > mica score "curl is a command line tool" | of > a; mica eval "curl is a command line tool" | of | cmp - a

In one arithmetic and in another: `fast` against `exact` on the default model's golden answers, and
`exact` against itself.

  $ sed -n 's/^ *"text": "\(.*\)",$/\1/p' model/golden.json > answers
  > mica eval --compare exact --file answers > out; cut -c 1-14 out
  > awk '/^mean KL/ && $3 > 0 && $3 < 0.001 || /^largest KL/ && $3 < 0.1 || /^same/ && $4 > 99' out | wc -l
  tokens        
  arithmetic    
  perplexity    
  compared with 
  its perplexity
  mean KL       
  largest KL    
  same top token
  3
  $ mica eval --arithmetic exact --compare exact --file answers model | tail -3
  mean KL         0.000000
  largest KL      0.000000
  same top token  100.00 %

What is compared with has its default caches: f32 ones in `exact`, bf16 ones in `fast`.

  $ head -4 answers > few
  > none() { sed -n '/^compared/p; s/^largest KL *0.000000$/the same/p'; }
  > mica eval --arithmetic exact --compare exact --cache int8 -f few | none
  > mica eval --arithmetic exact --compare exact --cache f32 -f few | none
  > mica eval --compare fast --cache int8 -f few | none
  > mica eval --compare fast --cache bf16 -f few | none
  compared with   exact, default caches
  compared with   exact, default caches
  the same
  compared with   fast, default caches
  compared with   fast, default caches
  the same
  $ mica eval --compare exact --json "curl is" | sed 's/: [0-9][0-9.e-]*/: N/g'
  {"tokens": N, "arithmetic": "fast", "perplexity": N, "compared_with": "exact", "reference_perplexity": N, "mean_kl": N, "max_kl": N, "top_1_agreement": N}

A text may be longer than the context: each token is predicted once.

  $ yes curl | head -3000 > long
  > mica eval --json -f long | sed 's/, "perp.*//'; mica eval --json -f long -w 100 | sed 's/, "perp.*//'
  {"tokens": 6000, "arithmetic": "fast"
  {"tokens": 6000, "arithmetic": "fast"
  $ mica eval --window 1 curl 2>&1
  mica: a window of 1 tokens is too short
  [1]
  $ mica eval --compare best curl 2>&1
  mica: --compare: 'best' is not one of: none exact fast
  Try: mica help eval
  [2]
  $ mica eval '' 2>&1
  mica: the text is empty
  [1]
