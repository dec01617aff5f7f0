The model of an installed mica lies beside it.

  $ mkdir -p inst/bin inst/share/mica/models
  > cp "$(command -v mica)" inst/bin; ln -s "$PWD/model" inst/share/mica/models/default
  > inst/bin/mica show | sed -n '1s/ \/.*\/inst/ inst/p'
  model         inst/share/mica/models/default
