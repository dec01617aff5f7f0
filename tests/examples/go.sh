#!/bin/sh
# Installs a build, runs the tests of the Go module bindings/go against what lies there, under Go's
# race detector where that can be had, and one of them for long without it. Asks the program of
# examples/go, which is built outside of mica's folder with the module that was installed.
#
#   go.sh BUILD ROOT COMMAND...    COMMAND... PROGRAM asks; 77 without Go 1.23 or later
#
# BUILD: a build's folder, or an archive of tools/portable, whose Linux $CC compiles for: the race
# detector, which takes this machine's own, is left out then. $EMULATOR runs programs of 64-bit ARM,
# for which Go then builds.
set -eu
build=$1 root=$2
shift 2
# Of tools/setup-go; Go's own archive.
PATH=$root/build/go-root/go/bin:$root/build/go-tools:$PATH:/usr/local/go/bin
minor=$(go version 2> /dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
if [ "${minor:-0}" -lt 23 ]; then
  echo "there is no Go 1.23 or later: tools/setup-go fetches one"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -d "$build" ]; then
  place=$build/go race=-race
  stage=$place/stage # one place: what Go has compiled stays good
  rm -rf "$stage"
  DESTDIR=$stage cmake --install "$build" --prefix /opt/mica > /dev/null
else
  place=$root/build/go race=
  stage=$place/$(basename "$build" .tar.gz)
  rm -rf "$stage"
  mkdir -p "$stage"
  tar -xzf "$build" -C "$stage"
fi
PKG_CONFIG_PATH=$(dirname "$(find "$stage" -name mica.pc)")
module=$(PKG_CONFIG_PATH=$PKG_CONFIG_PATH pkg-config --variable=go mica)
# Go's cache does not see that headers have changed, but flags.
headers=$(find "$stage" -name '*.h' -exec cat {} + | cksum | tr ' ' _)
export PKG_CONFIG_PATH GOCACHE="$place/cache" GOTOOLCHAIN=local GOPROXY=off GOFLAGS='' \
  CGO_LDFLAGS='' CGO_CFLAGS="-O2 -Wall -Werror -DMICA_HEADERS_$headers" CGO_ENABLED=1 \
  MICA_TEST_ROOT="$root"
[ ! "${EMULATOR-}" ] || export GOARCH=arm64
run=${EMULATOR:-env}

python3 "$root/tools/make_go.py" --check
cd "$root/bindings/go"
unformatted=$(gofmt -l . "$root/examples/go")
[ ! "$unformatted" ] || { echo "gofmt -w $unformatted"; exit 1; }
go vet ./...
if command -v staticcheck > /dev/null; then # tools/setup-go staticcheck
  for folder in . ../../examples/go ../../bench/go; do (cd $folder && staticcheck ./...); done
fi
[ "$(go env GOARCH)" = amd64 ] || race=
go test $race -count=1 -timeout=20m -exec "$run" ./...
# The process's memory, without what the race detector keeps of each thread.
[ ! -d "$build" ] || MICA_TEST_ROUNDS=10000 go test -count=1 -timeout=20m -run TestStress .

cp -R "$root/examples/go" "$work/chat"
cd "$work/chat"
go mod edit -replace "mica=$module"
go vet .
go build -o chat .
"$@" ${EMULATOR-} "$work/chat/chat"
