#!/bin/sh
# Installs a build, builds examples/go against what lies there, and asks it.
#
#   go.sh BUILD-FOLDER COMMAND...    COMMAND... PROGRAM asks; 77 without Go 1.19 or later
set -eu
build=$1
shift
minor=$(go version 2> /dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
if [ "${minor:-0}" -lt 19 ]; then
  echo "there is no Go 1.19 or later"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR=$work/stage cmake --install "$build" --prefix /opt/mica > /dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$work/stage" -name mica.pc)")
export PKG_CONFIG_PATH GOCACHE="$build/go-cache" GOTOOLCHAIN=local GOPROXY=off \
  GOFLAGS='' CGO_LDFLAGS=''
export CGO_CFLAGS='-Wall -Werror'

# In another folder each time: Go's cache does not see that headers or mica.pc have changed.
cp -R "$(dirname "$0")/../../examples/go" "$work/chat"
cd "$work/chat"
unformatted=$(gofmt -l .)
[ ! "$unformatted" ] || { echo "gofmt -w $unformatted"; exit 1; }
go vet .
go build -o chat .
"$@" "$work/chat/chat"
