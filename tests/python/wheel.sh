#!/bin/sh
# Makes a wheel and an archive of a build twice, in different folders, and uses the wheel as its
# users do: in a fresh virtual environment, where nothing else of mica is.
#
#   wheel.sh BUILD PYTHON      of this machine's build
#   wheel.sh WHEEL PYTHON      of a wheel
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -c 'import venv, ensurepip' 2> /dev/null || { echo "there is no venv for $python"; exit 77; }

wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
if [ -d "$wheel" ]; then
  build=$wheel
  platform=linux_$(uname -m)
  wheel=$("$python" "$root/tools/make_wheel.py" "$build" "$work/a" "$platform" \
    --pages "$build/pages")
  mkdir "$work/other"
  cp -R "$root/tools" "$root/bindings" "$root/include" "$root/docs" "$root/models" \
    "$root/LICENSE" "$root/README.md" "$root/web" "$work/other"
  again=$(cd / && "$python" "$work/other/tools/make_wheel.py" "$build" "$work/b" \
    "$platform" --pages "$build/pages")
  cmp "$wheel" "$again"
  archive=$("$python" "$root/tools/make_archive.py" "$build" "$work/a" this --pages "$build/pages")
  again=$(cd / && "$python" "$work/other/tools/make_archive.py" "$build" "$work/b" this \
    --pages "$build/pages")
  cmp "$archive" "$again"
fi
"$python" -m venv "$work/env"
"$work/env/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
cd "$work"
unset MICA_MODEL MICA_MODELS MICA_LIBRARY PYTHONPATH LD_LIBRARY_PATH
bin=$work/env/bin
said=$("$bin/mica" chat "What is curl?" < /dev/null)
[ "${said#curl is a command line tool}" != "$said" ] || { echo "mica chat: $said"; exit 1; }
[ "$("$bin/python" -c 'import mica; print(mica.Model().chat("What is curl?").read())')" = "$said" ]
[ "$("$bin/python" -m mica run "What is curl?")" = "$said" ]
# The tests of the package, all of them, over what was installed.
MICA_MODEL='' "$bin/python" "$root/tests/python/package.py" "$root" "$bin/mica"
