The version comes first; what follows depends on the build.

  $ mica version | head -1
  mica 0.1.0
  $ mica version | sed '1d; s/ .*//' | sort
  compiler
  devices
  line
  models
  $ mica --version | head -1
  mica 0.1.0

Every device is listed with what it is.

  $ mica devices | sed '/^mlx/,$d; s/^\( *[a-z]* *\).*/\1/; s/ *$//'
  cpu
    description
    architecture
    threads
    memory
    chosen
