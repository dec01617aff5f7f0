The devices, and how each of them runs each op.

  $ mica devices | sed -n '1,5p' | sed 's/^\( *[a-z]* *\).*/\1/; s/ *$//'
  cpu
    description
    kernels
    threads
    memory
  $ mica devices --ops | cut -c 1-37 | sed 's/ *$//' > ops
  > sed -n '1p; /^add /p; /^reshape /p; /^part /p' ops
  op                       cpu
  part                     no work
  add                      native
  reshape                  no work
  $ grep -c -e ' -' -e 'on cpu' ops
  0
  [1]
