Where a run fails there is no JSON: here two threads, stacks being larger than all addresses.

  $ (ulimit -s 100000000000; mica bench model -p 4 -n 3 -t 1,2 -r 1 --json 2> err)
  [1]
  $ sed 's/2: .*/2: .../' err
  mica: thread pool: cannot start thread 2 of 2: ...
