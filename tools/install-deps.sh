#!/bin/sh
# Installs the distribution's packages that building, testing or fuzzing mica needs.
#
#   tools/install-deps.sh [build|full|test|check|mlx|page|cluster]
#
#   build  what mica cannot be built without: compilers, CMake, simdjson, PCRE2, utf8proc. Says
#          which optional packages are missing, and what of mica is left out for want of them
#   full   build, and the optional ones: Ninja, libedit, zlib, zstd, libyaml, libcurl, OpenSSL,
#          protobuf-c, libmicrohttpd, libzmq, xxhash (make deps)
#   test   full, and cmocka, clang-format 14
#   check  test, and the rest that CI needs: valgrind, doxygen, clang 14, shellcheck, Go (where
#          there is apt, tools/setup-go has it), and with apt a compiler for 64-bit ARM, QEMU, Wine,
#          what make macos, make windows and make packages need, and Node and Chromium for the page
#   mlx    full, and what tools/setup-mlx and tools/setup-mlx-lm need: pip, cargo, OpenBLAS
#   page   full, and Node and the browser that tests of the page are quickest in
#   cluster  full, and what tests of the label cluster start: Open MPI, Slurm, GNU parallel,
#          haproxy, nginx, Java (with apt)
#
# Does nothing, and prints nothing, if all packages are installed. Supports apt, dnf and brew.
set -eu
tier=${1:-build}

have() { command -v "$1" > /dev/null 2>&1; }

# library PACKAGE HEADER: some distributions have no pkg-config file for a library, so its header
# counts, too.
library() {
  pkg-config --exists "$1" 2> /dev/null ||
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$2" |
    c++ -E -x c++ - > /dev/null 2>&1
}

missing=
left_out=
need() { missing="$missing $1"; } # a word of the package tables below

# An optional package: needed but in the tier build, where what it is for is left out.
optional() { # WORD WHAT
  if [ "$tier" = build ]; then left_out="$left_out${left_out:+, }$2 ($1)"
  else need "$1"; fi
}

have cc && have c++ || need compiler
have cmake || need cmake
have pkg-config || need pkg-config
library simdjson simdjson.h || need simdjson
library libpcre2-8 pcre2.h || need pcre2
library libutf8proc utf8proc.h || need utf8proc
have ninja || have ninja-build || optional ninja "quicker builds"
library libcurl curl/curl.h || optional libcurl "mica pull"
library libcrypto openssl/evp.h || optional openssl "mica pull"
library libmicrohttpd microhttpd.h || optional libmicrohttpd "mica serve"
library libzmq zmq.h || optional libzmq "KV events of mica serve"
library libedit histedit.h || optional libedit "line editing in mica chat"
library libprotobuf-c protobuf-c/protobuf-c.h && have protoc-c || optional protobuf-c "ONNX files"
library zlib zlib.h || optional zlib "data compressed by gzip"
library libzstd zstd.h || optional zstd "data compressed by zstd"
library yaml-0.1 yaml.h || optional libyaml "configs of mica tune in YAML"
library libxxhash xxhash.h || optional xxhash "sharing caches of prompts"
[ -z "$left_out" ] || echo "mica: left out: $left_out. make deps installs what these need"
case $tier in
  build | full) ;;
  mlx)
    if [ "$(uname -s)" != Darwin ]; then
      python3 -m pip --version > /dev/null 2>&1 || need pip
      have cargo || need cargo
      ldconfig -p 2> /dev/null | grep -qE 'libopenblasp?\.so\.0 ' || need openblas
    fi
    ;;
  page)
    have npm || need node
    if have apt-get; then have chromium-headless-shell || need headless-shell
    else have chromium || have google-chrome || need headless-shell
    fi
    ;;
  cluster)
    python3 -m pip --version > /dev/null 2>&1 || need pip
    have mpicc || need mpi
    if have apt-get; then
      have parallel || need parallel
      [ -x /usr/sbin/slurmd ] || need slurm
      [ -x /usr/sbin/haproxy ] || need haproxy
      [ -x /usr/sbin/nginx ] || need nginx
      have java || need java
      have torchrun || need torchrun
      have ip || need iproute
    fi
    ;;
  test | check)
    library cmocka cmocka.h || need cmocka
    have clang-format-14 || have clang-format || need clang-format
    ! have dnf || rpm -q libasan libubsan libtsan > /dev/null || need sanitizers
    ;;
  *)
    echo "usage: tools/install-deps.sh [build|full|test|check|mlx|page|cluster]" >&2
    exit 2
    ;;
esac
if [ "$tier" = check ]; then
  have valgrind || need valgrind
  have mpicc || need mpi
  have doxygen || need doxygen
  have clang-14 || have clang || need clang
  have shellcheck || need shellcheck
  have apt-get || have go || [ -x /usr/local/go/bin/go ] || need go # with apt tools/setup-go does
  if have apt-get; then
    have aarch64-linux-gnu-g++ || need arm-compiler
    have llvm-nm-14 || need llvm
    have dpkg-source || need dpkg-dev
    have lintian || need lintian
    have ruby || need ruby
    python3 -m pip --version > /dev/null 2>&1 || need pip
    have npm || need node
    have chromium-headless-shell || have chromium || have google-chrome || need headless-shell
  fi
  ! have apt-get || have qemu-aarch64 || need qemu
  ! have apt-get || [ "$(uname -m)" != x86_64 ] || { { have wine64 || [ -x /usr/lib/wine/wine64 ]; } &&
    have makensis; } || need wine
fi
[ "$missing" ] || exit 0

package() { # MANAGER WORD: the packages that a word stands for
  case $1:$2 in
    apt:compiler) echo gcc g++ libc6-dev ;;
    apt:ninja) echo ninja-build ;;
    apt:simdjson) echo libsimdjson-dev ;;
    apt:pcre2) echo libpcre2-dev ;;
    apt:utf8proc) echo libutf8proc-dev ;;
    apt:libedit) echo libedit-dev ;;
    apt:zlib) echo zlib1g-dev ;;
    apt:zstd) echo libzstd-dev ;;
    apt:libyaml) echo libyaml-dev ;;
    apt:libcurl) echo libcurl4-openssl-dev ;;
    apt:openssl) echo libssl-dev ;;
    apt:libmicrohttpd) echo libmicrohttpd-dev ;;
    apt:libzmq) echo libzmq3-dev ;;
    apt:xxhash) echo libxxhash-dev ;;
    apt:protobuf-c) echo libprotobuf-c-dev protobuf-c-compiler ;;
    apt:cmocka) echo libcmocka-dev ;;
    apt:clang-format) echo clang-format-14 ;;
    apt:clang) # where the sanitizers' runtime lies differs between releases
      echo clang-14 libclang-common-14-dev
      apt-cache show libclang-rt-14-dev > /dev/null 2>&1 && echo libclang-rt-14-dev ;;
    apt:arm-compiler) # not made for every machine
      apt-cache show gcc-aarch64-linux-gnu > /dev/null 2>&1 &&
        echo gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross ;;
    apt:qemu) echo qemu-user ;;
    apt:wine) echo wine64 nsis ;;
    apt:llvm) echo llvm-14 ;;
    apt:node) echo nodejs npm ;;
    apt:headless-shell) # a part of Chromium, where the distribution divides it
      if apt-cache show chromium-headless-shell > /dev/null 2>&1; then echo chromium-headless-shell
      else echo chromium; fi ;;
    apt:mpi) echo openmpi-bin libopenmpi-dev ;;
    apt:slurm) echo slurmd slurmctld slurm-client munge ;;
    apt:nginx) echo nginx-light ;;
    apt:java) echo default-jre-headless ;;
    apt:torchrun) echo python3-torch ;;
    apt:iproute) echo iproute2 ;;
    apt:pip) echo python3 python3-pip ;;
    apt:openblas) echo libopenblas0 ;;

    dnf:compiler) echo gcc gcc-c++ ;;
    dnf:sanitizers) echo libasan libubsan libtsan ;;
    dnf:ninja) echo ninja-build ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    dnf:simdjson) echo simdjson-devel ;;
    dnf:pcre2) echo pcre2-devel ;;
    dnf:utf8proc) echo utf8proc-devel ;;
    dnf:libedit) echo libedit-devel ;;
    dnf:zlib) echo zlib-devel ;;
    dnf:zstd) echo libzstd-devel ;;
    dnf:libyaml) echo libyaml-devel ;;
    dnf:libcurl) echo libcurl-devel ;;
    dnf:openssl) echo openssl-devel ;;
    dnf:libmicrohttpd) echo libmicrohttpd-devel ;;
    dnf:libzmq) echo zeromq-devel ;;
    dnf:xxhash) echo xxhash-devel ;;
    dnf:protobuf-c) echo protobuf-c-devel protobuf-c-compiler ;;
    dnf:cmocka) echo libcmocka-devel ;;
    dnf:clang-format) echo clang-tools-extra ;;
    dnf:clang) echo clang compiler-rt ;;
    dnf:shellcheck) echo ShellCheck ;;
    dnf:mpi) echo openmpi openmpi-devel ;;
    dnf:pip) echo python3 python3-pip ;;
    dnf:headless-shell) echo chromium ;;
    dnf:go) echo golang ;;

    brew:mpi) echo open-mpi ;;
    brew:libzmq) echo zeromq ;;
    brew:headless-shell) echo chromium ;;
    brew:compiler) ;; # xcode-select --install, asked for below
    brew:libedit | brew:libcurl | brew:valgrind) ;; # part of macOS; not made for it
    brew:clang) echo llvm ;;
    *) echo "$2" ;;
  esac
}

if have apt-get; then manager=apt
elif have dnf; then manager=dnf
elif have brew; then manager=brew
else
  echo "mica needs:$missing" >&2
  echo "This script knows apt, dnf and brew, and finds none of them: install these yourself." >&2
  exit 1
fi

as_root=
if [ $manager != brew ] && [ "$(id -u)" != 0 ]; then as_root=sudo; fi
if [ "$as_root" ] && ! have sudo; then
  echo "mica needs:$missing" >&2
  echo "Installing them takes root, and there is no sudo. As root: tools/install-deps.sh $tier" >&2
  exit 1
fi

if [ $manager = apt ]; then
  echo "mica: reading the package lists"
  $as_root apt-get update -qq
fi
packages=
for word in $missing; do packages="$packages $(package $manager $word | tr '\n' ' ')"; done
packages=$(echo $packages)
if [ $manager = brew ] && ! have cc; then
  echo "There is no C compiler: run xcode-select --install, then this again." >&2
  exit 1
fi
[ "$packages" ] || exit 0

echo "mica: installing $packages${as_root:+ (with sudo)}"
case $manager in
  apt) $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
         -o DPkg::Lock::Timeout=600 \
         -o Dpkg::Use-Pty=0 $packages > /dev/null ;;
  dnf) $as_root dnf install -y -q $packages ;;
  brew) brew install $packages ;;
esac
echo "mica: installed"
