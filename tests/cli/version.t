The version comes first; what follows depends on the build.

  $ mica version | head -1
  mica 0.1.0
  $ mica version | sed '1d; s/ .*//' | sort
  compiler
  devices
  line
  models
  parts
  $ mica --version | head -1
  mica 0.1.0

The licences are mica's, the page's, and those of libraries that are linked statically.

  $ mica version --licences | grep -c -e '^==== mica ====' -e '^MIT License' -e '^==== The page' -e '^highlight.js$'
  4

Every device is listed with what it is.

  $ mica devices | sed '/^mlx/,$d; s/^\( *[a-z]* *\).*/\1/; s/ *$//'
  cpu
    description
    architecture
    threads
    memory
    chosen
