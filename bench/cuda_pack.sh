#!/bin/sh
# Packs what bench/cuda_machine.sh needs on another machine.
#
#   bench/cuda_pack.sh BUILD TO.tar.xz [SANITIZER.whl]     from the project's root
#
# BUILD is a build with kernels (MICA_CUDA=ON) and tests; for one kind of GPU it is a fifth as large
# (MICA_CUDA_TARGETS). SANITIZER.whl is
# nvidia-cuda-sanitizer-api 13.5 of PyPI: what 13.0 has there lacks a program that it starts.
set -eu
build=$1
case $2 in /*) to=$2 ;; *) to=$PWD/$2 ;; esac
wheel=${3:-}
programs="mica bench/random_model bench/memory bench/schedule bench/train_step tests/test_op
  tests/test_model tests/test_session tests/test_task tests/test_grad tests/test_schedule"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/bench" "$work/build/tests" "$work/build/lib" "$work/tests"
for program in $programs; do
  strip -o "$work/build/$program" "$build/$program"
done
# those that each machine has are left out
for program in $programs; do
  ldd "$build/$program"
done | awk '/=>/ && !/lib(c|m|dl|pthread)\.so/ { print $3 }' | sort -u |
  xargs -I {} cp -L {} "$work/build/lib/"
if [ "$wheel" ]; then
  python3 -m zipfile -e "$wheel" "$work/wheel"
  mkdir "$work/build/sanitizer"
  mv "$work/wheel/nvidia/cu13/bin" "$work/wheel/nvidia/cu13/compute-sanitizer" \
    "$work/build/sanitizer"
  rm -rf "$work/wheel" "$work/build/sanitizer/compute-sanitizer/x86" \
    "$work/build/sanitizer/compute-sanitizer/docs"
  chmod -R +x "$work/build/sanitizer"
fi
mkdir "$work/bench" "$work/models"
cp bench/cuda_machine.sh "$work/bench"
cp -r models/default "$work/models"
cp -r tests/fixtures "$work/tests"
tar -C "$work" -c . | xz -T2 --lzma2=preset=6,dict=64MiB > "$to"
ls -l "$to"
