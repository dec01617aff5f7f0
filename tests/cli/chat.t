Lines of a pipe are answered one by one, without prompts; empty lines are nothing; /bye ends it.

  $ mica run "What is curl?" -q > a; mica run "What is nginx?" -q > b
  > printf 'What is curl?\n\n  \n/bye\nWhat is nginx?\n' | mica chat -q 2>&1 | cmp - a

Two turns answer as golden.json records, the last line without its line feed, and the second turn
does not compute the first again.

  $ printf 'TURN1\nTURN2' | mica chat -q 2>&1

/clear forgets: what follows is answered as at first.

  $ printf 'What is curl?\n/clear\nWhat is nginx?\n' | mica chat -q 2>&1 | sed 1d | cmp - b

The commands.

  $ echo /help | mica chat -q 2>&1
  $ printf '/set temperature 0.5\n/set system  Be brief.\n/set\n' | mica chat -q --seed 3 2>&1
  $ printf '/set temp 1\n/set top-p 7\n/set seed\n/sett\n' | mica chat -q 2>&1
  $ printf '/set max-tokens 3\nWhat is curl?\n' | mica chat 2>&1 | sed 's/[0-9][0-9.]* tok/N tok/g'
