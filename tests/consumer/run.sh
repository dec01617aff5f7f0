#!/bin/sh
# Installs a build, moves it to another folder, and builds a stranger's program against what lies
# there: by find_package and by pkg-config, with the shared and with the static library.
#
#   tests/consumer/run.sh BUILD-FOLDER
set -eux
build=$1
CC=${CC:-cc}
CXX=${CXX:-c++}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

DESTDIR=$work/stage cmake --install "$build" --prefix /opt/mica > /dev/null
mv "$work/stage/opt/mica" "$work/mica"
rmdir "$work/stage/opt" "$work/stage" # nothing was written elsewhere
model=$work/mica/share/mica/models/default
libdir=$(dirname "$(find "$work/mica" -name libmica.a)")

cmake -S "$here/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/mica" \
  -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" > /dev/null
cmake --build "$work/build"
"$work/build/with_shared" "$model"
"$work/build/with_static" "$model"

export PKG_CONFIG_PATH=$libdir/pkgconfig
$CC "$here/project/main.c" $(pkg-config --cflags --libs mica) -o "$work/a.out"
LD_LIBRARY_PATH=$libdir DYLD_LIBRARY_PATH=$libdir "$work/a.out" "$model"
rm "$libdir"/libmica.so* "$libdir"/libmica*.dylib 2> /dev/null || true
$CC "$here/project/main.c" $(pkg-config --cflags --libs --static mica) -o "$work/a.out"
"$work/a.out" "$model"

# The command finds the model that was installed with it, wherever that went.
cd "$work"
env -u MICA_MODELS "$work/mica/bin/mica" run --quiet --max-tokens 4 Hello
