What the default model is. How much memory there is depends on the machine.

  $ mica show model | sed 's/ of [0-9.]* [kMGT]B$/ of .../'
  $ mica show | sed 1d > a; mica show model | sed 1d | cmp - a
  $ mica show model --context 100 | grep '^memory'
  $ mica show model --context 1000000000 | grep '^fits' | sed 's/ of .*//'
  $ mica show --json | grep -v -e path -e memory_bytes
