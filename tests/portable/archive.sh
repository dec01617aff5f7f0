#!/bin/sh
# Checks an archive of the command (tools/make_archive.py): what is in it, and how large it is.
#
#   archive.sh ARCHIVE
set -eu
archive=$1
max_bytes=12000000
bytes=$(wc -c < "$archive")
[ "$bytes" -lt $max_bytes ] || { echo "$archive has $bytes bytes, which is too much"; exit 1; }
files=$(tar -tvzf "$archive")
for name in bin/mica include/mica/mica.h share/man/man1/mica.1 share/man/man1/mica-run.1 \
  share/bash-completion/completions/mica share/zsh/site-functions/_mica \
  share/fish/vendor_completions.d/mica.fish share/doc/mica/licences/LICENSE \
  share/doc/mica/licences/page.txt share/doc/mica/licences/simdjson.txt lib/pkgconfig/mica.pc \
  share/mica/go/go.mod share/mica/go/mica.go share/mica/go/inference/inference.go; do
  case $files in *"/$name"*) ;; *) echo "$archive has no $name"; exit 1 ;; esac
done
if tar -xzOf "$archive" | grep -qF "$(cd "$(dirname "$0")/../.." && pwd)"; then
  echo "$archive has the path of this folder"
  exit 1
fi
if printf '%s\n' "$files" | grep -vE '^[-l]r.xr.xr.x 0/0 .* 1970|^-rw-r--r-- 0/0 .* 1970|^lrwxrwxrwx 0/0 .* 1970'
then
  echo "$archive: these have a time, an owner or rights"
  exit 1
fi
