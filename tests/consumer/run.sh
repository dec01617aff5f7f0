#!/bin/sh
# Installs a build, moves it to another folder, and builds a stranger's programs against what lies
# there: by find_package and by pkg-config, with the shared and with the static library.
#
#   tests/consumer/run.sh BUILD-FOLDER
#   tests/consumer/run.sh --installed PREFIX      what a package put there
#
# For another machine: $TOOLCHAIN, a toolchain file, and $RUN, which starts a program.
set -eux
CC=${CC:-cc}
CXX=${CXX:-c++}
RUN=${RUN-}
compilers="-DCMAKE_C_COMPILER=$CC -DCMAKE_CXX_COMPILER=$CXX"
[ ! "${TOOLCHAIN-}" ] || compilers=-DCMAKE_TOOLCHAIN_FILE=$TOOLCHAIN
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$1" = --installed ]; then
  cp -R "$2" "$work/mica"
else
  DESTDIR=$work/stage cmake --install "$1" --prefix /opt/mica > /dev/null
  mv "$work/stage/opt/mica" "$work/mica"
  rmdir "$work/stage/opt" "$work/stage" # nothing was written elsewhere

  # What was installed is removed again, and nothing else.
  DESTDIR=$work/stage cmake --install "$1" --prefix /opt/mica > /dev/null
  echo mine > "$work/stage/opt/mica/bin/mine"
  DESTDIR=$work/stage "$here/../../tools/uninstall" "$1" /opt/mica
  [ "$(cd "$work/stage" && find . -type f)" = ./opt/mica/bin/mine ]
  [ ! -e "$work/stage/opt/mica/share/mica" ] && [ ! -e "$work/stage/opt/mica/include/mica" ]
  [ -d "$work/stage/opt/mica/share" ] # which others may use
  rm -r "$work/stage"
fi
model=$work/mica/share/mica/models/default
libdir=$(dirname "$(find "$work/mica" -name libmica.a)")
# What is packaged for /usr names no place of the library: the system looks there.
path=
grep -q rpath "$libdir/pkgconfig/mica.pc" || path="LD_LIBRARY_PATH=$libdir"

configure() { # FOLDER OPTION...
  folder=$1
  shift
  cmake -S "$here/project" -B "$work/$folder" -DCMAKE_PREFIX_PATH="$work/mica" \
    -Dmica_DIR="$libdir/cmake/mica" $compilers "$@" > /dev/null
}

# The shared library needs nothing of what it was built from.
nothing="-DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON"
configure shared $nothing
cmake --build "$work/shared"
$RUN "$work/shared/consumer" "$model"

# The static one does, and it is said what is missing. A component that there is not is no success.
static="-DLIBRARY=mica_static -DCOMPONENTS=static"
configure static $static
cmake --build "$work/static"
$RUN "$work/static/consumer" "$model"
! configure none $static $nothing 2> "$work/log" || exit 1
grep -q simdjson "$work/log"
! configure none -DCOMPONENTS=of_gold 2> "$work/log" || exit 1
grep -q of_gold "$work/log"

# pkg-config gives nothing but mica's own flags, and needs the files of no other library.
export PKG_CONFIG_PATH=$libdir/pkgconfig
flags=$(pkg-config --cflags mica)
[ "$flags" = "$(PKG_CONFIG_LIBDIR=/nowhere pkg-config --cflags mica)" ]
for flag in $flags; do
  case $flag in
    -I*) [ -f "${flag#-I}/mica/mica.h" ] ;;
    *) exit 1 ;;
  esac
done

# README's program and README's lines, and the one in C++; they run where they are, without ldconfig
# or LD_LIBRARY_PATH, and answer as the command does.
mkdir -p "$work/readme/examples"
cd "$work/readme"
readme=$here/../../README.md
sed -n '/^```c$/,/^```$/p' "$readme" | sed '1d;$d' > examples/chat.c
eval "$CC $(sed -n 's/^ *\$ cc \(examples\/chat\.c .*\)/\1/p' "$readme")"
line=$(sed -n 's/^ *\$ \(\.\/a\.out .*\)/\1/p' "$readme")
eval "env -u LD_LIBRARY_PATH -u DYLD_LIBRARY_PATH $path $RUN ${line:?}" > answer
$RUN "$work/mica/bin/mica" run --quiet "$model" "What is curl?" | cmp - answer
for standard in 17 20; do
  $CXX -std=c++$standard "$here/../../examples/cpp/chat.cpp" $(pkg-config --cflags --libs mica) -o chat
  env $path $RUN ./chat "$model" "What is curl?" | cmp - answer
done

rm "$libdir"/libmica.so* "$libdir"/libmica*.dylib 2> /dev/null || true
$CC "$here/project/main.c" $(pkg-config --cflags --libs --static mica) -o "$work/a.out"
$RUN "$work/a.out" "$model"

# The command finds the model that was installed with it, wherever that went.
cd "$work"
env -u MICA_MODELS $RUN "$work/mica/bin/mica" run --quiet --max-tokens 4 "Hello there"
