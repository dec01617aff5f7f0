The devices, and how each of them runs each op.

  $ mica devices | sed -n '1,5p' | sed 's/^\( *[a-z]* *\).*/\1/; s/ *$//'
  cpu
    description
    kernels
    threads
    memory
  $ mica devices --ops | cut -c 1-37 | sed -n '1p; /^add /p; /^reshape /p; /^part /p' | sed 's/ *$//'
  op                       cpu
  part                     no work
  add                      native
  reshape                  no work
  $ mica devices --ops | cut -c 1-37 | grep -c -e ' -' -e 'on cpu'
  0
  [1]
