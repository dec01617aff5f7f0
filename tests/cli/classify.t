The label whose first token the model would most likely say next, and how likely that is.

  $ printf 'curl is\n\nThe Linux kernel is\n' > in
  > mica classify in -l " a" -l " never" -q | sed 's/^0\.[0-9]*/P/'
  P   a            curl is
  P   a            The Linux kernel is
  $ printf ' never\n a\n' > labels; mica classify in --labels labels --json | head -1 | sed -E 's/(0\.9)[0-9]*|[0-9.]+e-[0-9]+/\1/g'
  {"id": 1, "label": " a", "probability": 0.9, "labels": {" never": , " a": 0.9}}
  $ printf 'curl\n' | mica classify --template "{} is" -l " a" -l " never" | cut -d ' ' -f 3-
   a            curl
  $ printf '{"id": "x", "text": "curl is"}\n{"text": "tar is"}\n' | mica classify --json -l " a" | cut -d , -f 1,2
  {"id": "x", "label": " a"
  {"id": 2, "label": " a"
  $ mica classify model in | sed 's/^[0-9.]*/P/'
  P   a            curl is
  P   the          The Linux kernel is
  $ printf 'What is curl?\n' | mica classify --chat | sed 's/^[0-9.]*/P/'
  P  curl          What is curl?
  $ printf 'What is curl?\n' | mica classify --chat --json | sed 's/[0-9.]*}/P}/'
  {"id": 1, "token": "curl", "probability": P}

Labels that are no labels; texts that are none.

  $ mica classify in -l a -l a 2>&1
  mica: labels 0, "a", and 1, "a", begin with the same token, 326: their probabilities cannot be told apart
  [1]
  $ mica classify in -l '' 2> err
  [2]
  $ grep -c '^mica: ' err
  1
  $ mica classify in --labels nowhere 2>&1
  mica: cannot read nowhere: No such file or directory
  [1]
  $ printf ' a\n\0 never\n' > nul; mica classify in --labels nul 2>&1
  mica: nul holds a NUL byte
  [1]
  $ mica classify nowhere 2>&1
  mica: cannot read nowhere: No such file or directory
  [1]
  $ mica classify -q < /dev/null
  $ printf 'curl is\na\377b\ncurl is\n' | mica classify -q 2> err | wc -l
  2
  $ grep -c '^mica: id 2: .*UTF-8' err
  1
  $ printf 'curl is\na\0b\n' | mica classify -q 2>&1 > /dev/null
  mica: standard input, line 2: it holds a NUL byte
  [1]
  $ printf '{"text": "curl is"}\n{"txt": 1}\n{"text": 1}\n{\n' | mica classify -q 2>&1 > /dev/null
  mica: standard input, line 2: it has no "text"
  mica: standard input, line 3: it has no "text"
  mica: standard input, line 4: a string is missing
  [1]
  $ yes curl | head -9000 | tr '\n' ' ' | mica classify -q 2>&1 | cut -c 1-60
  mica: id 1: the text has 9002 tokens, the model's context 20
  $ yes "curl is" | head -100 | mica classify -q | sort | uniq -c | wc -l
  1
  $ yes "curl is" | head -100 | mica classify -q 2>&1 | head -1 | wc -l
  1
