#!/bin/sh
# The package, and what a user writes with it, in mypy's strict mode, for the oldest Python that
# mypy knows and for the newest. 77: there is no mypy (tools/setup-pip, as .ci/run calls it).
#
#   types.sh PYTHON
set -eu
python=$1
cd "$(dirname "$0")/../.."
export PYTHONPATH="$PWD/build/mypy" MYPYPATH="$PWD/bindings/python"
"$python" -m mypy --version > /dev/null 2>&1 || { echo "there is no mypy"; exit 77; }
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
for version in 3.10 3.14; do
  "$python" -m mypy --strict --python-version $version --cache-dir "$cache" -p mica
  "$python" -m mypy --strict --python-version $version --cache-dir "$cache" tests/python/typed.py
done
