#!/bin/sh
# Has the Python of another release of Debian use a wheel: what it is to show, with numpy of that
# release.
#
#   release.sh WHEEL RELEASE
#
# Python 3.9 is bullseye's, 3.11 bookworm's, 3.13 trixie's. A wheel for 64-bit ARM is run by QEMU,
# and is asked less. 77: the release cannot be had, or nobody may change the root here.
set -eu
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
release=$2
cd "$(dirname "$0")/../.."
tree=$PWD
case $wheel in
  *_x86_64.whl) debian=amd64 processor=x86_64 ;;
  *) debian=arm64 processor=aarch64 ;;
esac
root=$PWD/build/root/python-$release-$debian
tools/debian-root "$root" $debian "$release" base-files python3-minimal libpython3-stdlib python3-numpy dash ||
  exit 77
python=$(cd "$root/usr/bin" && echo python3.*[0-9])
rm -rf "$root/mica" "$root/tree"
python3 -m pip install --quiet --disable-pip-version-check --no-index --no-deps --only-binary :all: \
  --platform "$(basename "$wheel" .whl | sed 's/.*-none-//')" --target "$root/mica" "$wheel"
libraries=/usr/lib/$processor-linux-gnu # where packages put alternatives of a library for numpy
libraries=$libraries/blas:$libraries/lapack

if [ $processor = "$(uname -m)" ]; then
  chroot=$(PATH=$PATH:/usr/sbin command -v chroot)
  [ "$(id -u)" = 0 ] || chroot="$(command -v unshare) -r $chroot"
  $chroot / true || { echo "nobody may change the root here"; exit 77; }
  mkdir -p "$root/tree/tests/python" "$root/tree/tests/fixtures/onnx" "$root/tree/models" \
    "$root/tmp" "$root/root"
  cp tests/python/package.py "$root/tree/tests/python"
  cp tests/fixtures/onnx/cnn.* "$root/tree/tests/fixtures/onnx"
  cp -R models/default "$root/tree/models"
  ln -sf dash "$root/bin/sh"
  exec env -i PATH=/bin HOME=/root PYTHONPATH=/mica \
    LD_LIBRARY_PATH=$libraries $chroot "$root" "/usr/bin/$python" \
    /tree/tests/python/package.py /tree /mica/bin/mica
fi
command -v qemu-aarch64 > /dev/null || { echo "there is no QEMU"; exit 77; }
# What a test starts is started by QEMU, too.
for name in mica python; do
  [ $name = mica ] && program=$root/mica/bin/mica || program=$root/usr/bin/$python
  printf '#!/bin/sh\nexec qemu-aarch64 -E LD_LIBRARY_PATH=%s -L "%s" "%s" "$@"\n' \
    $libraries "$root" "$program" > "$root/$name.sh"
  chmod +x "$root/$name.sh"
done
export PYTHON="$root/python.sh" PYTHONHOME="$root/usr" PYTHONPATH="$root/mica"
exec "$PYTHON" tests/python/package.py "$tree" "$root/mica.sh" Answers.test_chat \
  Answers.test_batch Tasks.test_embed_is_the_commands Training.test_a_loss_of_ones_own \
  Programs.test_onnx Ending.test_cancelled_from_another_thread Arrays.test_memory_is_shared \
  Arrays.test_numpy
