#!/bin/sh
# A build for this machine alone (MICA_ISAS=native) leaves out the instruction sets that the command
# cannot run here, and no other: isas.sh SOURCE MICA FOLDER
set -eu
rm -rf "$3"
cmake -S "$1" -B "$3" -DMICA_KERNELS_ONLY=ON -DMICA_ISAS=native > "$3.log" 2>&1 ||
  { cat "$3.log" >&2; exit 1; }
[ -x "$3/isas" ] || exit 77 # another processor: nothing is left out
sed -n '/neon/!s/^ISA(\(.*\))$/\1/p' "$1/src/cpu/kern/isa_list.h" | while read -r isa; do
  if MICA_CPU=$isa "$2" devices | grep -q "MICA_CPU is $isa, which this machine cannot run"; then
    echo "$isa"
  fi
done > "$3/lacks"
"$3/isas" | diff "$3/lacks" -
while read -r isa; do
  [ -f "$3/src/cpu/kern/isa_$isa.c" ] # the file that stands for it
done < "$3/lacks"

# Nor does it compile files whose kernels a better set replaces: their function sets none. Those of
# a set that the machine lacks are gone with it.
sed -n 's/^BELOW(\(.*\), \(.*\), \(.*\))$/\1 \2 \3/p' "$1/src/cpu/kern/below_list.h" |
  while read -r isa file better; do
    if grep -qx -e "$isa" -e "$better" "$3/lacks"; then continue; fi
    grep -q "Left out" "$3"/src/cpu/kern/*/"$file.c"
    ! grep -rqs "$1/src/cpu/kern/.*/$file\\.c" "$3/build.ninja" "$3/CMakeFiles/mica_kernels.dir" ||
      { echo "$file.c is compiled" >&2; exit 1; }
  done
