#!/bin/sh
# Unpacks an archive of the command in a root that has a C library and nothing else, not even a
# shell or /proc, and asks the model that comes with it; and has a program of one's own, linked with
# the archive's library, do the same.
#
#   bare.sh ARCHIVE MACHINE      MACHINE: x86_64-gnu, aarch64-gnu, x86_64-musl, aarch64-musl
#
# The C library is glibc of the oldest release that Debian's mirror has, 2.28 of buster or 2.31 of
# bullseye, or musl of this machine's release. Another processor's programs are run by QEMU.
# 77: the root cannot be had, or nobody may change the root here.
set -eu
archive=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
model=$(echo "${archive%/*}"/mica-*-model.tar.gz)
machine=$2
cd "$(dirname "$0")/../.."
case $machine in x86_64-*) debian=amd64 ;; *) debian=arm64 ;; esac
root=$PWD/build/root/bare-$machine
case $machine in
  *-gnu) tools/debian-root "$root-2.28" $debian buster libc6 2> /dev/null && root=$root-2.28 ||
    tools/debian-root "$root" $debian bullseye libc6 || exit 77 ;;
  *) tools/debian-root "$root" $debian - musl || exit 77 ;;
esac
rm -rf "$root"/mica-*
tar -xzf "$archive" -C "$root"
tar -xzf "$model" -C "$root"
prefix=/$(cd "$root" && echo mica-*)

if [ "${machine%-*}" != "$(uname -m)" ]; then
  command -v qemu-aarch64 > /dev/null || { echo "there is no QEMU"; exit 77; }
  inside() {
    program=$1
    shift
    env -i qemu-aarch64 -L "$root" "$root$program" "$@"
  }
  at=$root # QEMU takes a file that the root lacks from this machine
else
  chroot=$(PATH=$PATH:/usr/sbin command -v chroot)
  [ "$(id -u)" = 0 ] || chroot="$(command -v unshare) -r $chroot"
  $chroot / true || { echo "nobody may change the root here"; exit 77; }
  inside() { env -i $chroot "$root" "$@"; }
  at=
fi

default=$at$prefix/share/mica/models/default
inside "$prefix/bin/mica" run "$default" "What is curl?" < /dev/null |
  grep -q '^curl is a command line tool'
inside "$prefix/bin/mica" version --licences < /dev/null | grep -q simdjson
# -O2: without it zig adds a runtime of sanitizers that calls statx, which musl has since 1.2.5.
dynamic=
case $machine in *-musl) dynamic=-dynamic ;; esac
build/zig/$machine/bin/cc -O2 $dynamic -I "$root$prefix/include" examples/generate.c \
  -o "$root/generate" -L "$root$prefix/lib" -lmica -Wl,-rpath,"$at$prefix/lib"
inside /generate "$default" | grep -q "^GNU tar is the GNU program"
