#!/bin/sh
# The Go module of an archive (tools/make_archive.py), and a program outside of mica's folder that
# is built with it, by ziglang's compiler: what tests/examples/go.sh asks of an installed one.
# 64-bit ARM's is run by QEMU, and opens fewer models.
#
#   go.sh ARCHIVE MACHINE      MACHINE: x86_64-gnu, aarch64-gnu; tests/portable/bare.sh has run
#
# 77: there is no Go 1.23, or no QEMU.
set -eu
archive=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
machine=$2
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$archive" -C "$work"
mica=$(echo "$work"/mica-*/bin/mica)
if [ "${machine%-*}" != "$(uname -m)" ]; then
  command -v qemu-aarch64 > /dev/null || { echo "there is no QEMU"; exit 77; }
  for root in "build/root/bare-$machine"*; do EMULATOR="qemu-aarch64 -L $PWD/$root"; done
  export EMULATOR MICA_TEST_ROUNDS=32
  printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$EMULATOR" "$mica" > "$work/mica"
  chmod +x "$work/mica"
  mica=$work/mica
fi
export CC="$PWD/build/zig/$machine/bin/cc" MICA_TEST_COMMAND="$mica"
tests/examples/go.sh "$archive" "$PWD" python3 "$PWD/tests/examples/answers.py" "$mica" \
  "$PWD/models/default"
