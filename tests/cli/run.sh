#!/bin/sh
# Runs the commands of a transcript and compares what they print with what it says.
#
#   run.sh MICA PTY ROOT CASE.t             1 and a difference where they print something else
#   run.sh --update MICA PTY ROOT CASE.t    writes what they print into the transcript
#
# In a transcript a line "  $ COMMAND" is run by sh, lines "  > ..." after it being more of it. Its
# standard output follows, each line two blanks in, and "  [N]" where it exits with N and not 0.
# All other lines are for readers. Where there is no pty, as under Wine, commands with it are not
# run, and count as having printed what they should; so does the one command behind a line that
# begins with "Not on Windows:", which says why. A transcript with the line "Needs libedit." is
# skipped where mica was compiled without, one with "Needs /dev/full." where there is no such
# device, one with "Needs openssl." or "Needs curl." where that command is not installed.
#
# Transcripts are for Linux and macOS: tools/check_scripts reads them, too. Commands find: mica and
# pty (pty.c) in PATH, wc without the blanks of BSD's, `aged HOURS FILE...`, which sets the time of
# files to hours ago, and `sparse N FILE`, which makes a file of N GiB that takes no room; $ROOT,
# the project; a new folder as working directory and HOME, with `model`, a link to the default
# model, and `endless`, the same model without anything that would end an answer.
set -eu
update=
[ "$1" != --update ] || { update=1; shift; }
mica=$1 pty=$2 ROOT=$3 case=$4
case $case in /*) ;; *) case=$(pwd)/$case ;; esac
export ROOT

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home" "$work/home/endless"
ln -s "$mica" "$work/bin/mica"
ln -s "$pty" "$work/bin/pty"
ln -s "$(dirname "$pty")/mock_hub" "$work/bin/mock_hub"
tool() { # NAME LINE
  printf '#!/bin/sh\n%s\n' "$2" > "$work/bin/$1"
  chmod +x "$work/bin/$1"
}
tool wc "$(command -v wc) \"\$@\" | sed 's/^ *//'"
tool sparse 'exec dd if=/dev/null of="$2" bs=1048576 seek="$(($1 * 1024))" 2> /dev/null'
if date -v-1H > /dev/null 2>&1; then ago='-v-"$1H"'; else ago='-d "$1 hours ago"'; fi
tool aged "stamp=\$(date $ago +%Y%m%d%H%M.%S); shift; for file; do
  [ -e \"\$file\" ] || : > \"\$file\"; touch -h -t \"\$stamp\" \"\$file\"; done"
ln -s "$ROOT/models/default" "$work/home/model"
for file in model.safetensors tokenizer.json tokenizer_config.json chat_template.jinja; do
  ln -s "$ROOT/models/default/$file" "$work/home/endless/$file"
done
tr -d '\n' < "$ROOT/models/default/config.json" \
  | sed 's/"eos_token_id": *\[[^]]*\]/"eos_token_id": 0/' > "$work/home/endless/config.json"

# Every option has a variable MICA_...; MICA_CPU chooses kernels, and is whoever's who runs us.
for variable in $(env | sed -n 's/^\(MICA_[A-Z0-9_]*\)=.*/\1/p' | grep -v '^MICA_CPU$'); do
  unset "$variable"
done
# The engine mlx_lm finds no Python, whatever this machine has.
export MICA_MLX_LM_PYTHON=no-python
unset NO_COLOR XDG_STATE_HOME XDG_CACHE_HOME HF_HOME HF_HUB_CACHE HF_ENDPOINT HF_TOKEN HF_HUB_OFFLINE
unset http_proxy all_proxy ALL_PROXY
PATH=$work/bin:$PATH HOME=$work/home TERM=xterm LC_ALL=C
export PATH HOME TERM LC_ALL
cd "$HOME"

for needed in openssl curl; do
  if grep -q "^Needs $needed\.\$" "$case" && ! command -v $needed > /dev/null; then
    echo "$needed is not installed"
    exit 77
  fi
done
if grep -q '^Needs /dev/full\.$' "$case" && [ ! -e /dev/full ]; then
  echo "there is no /dev/full"
  exit 77
fi
if grep -q '^Needs libedit\.$' "$case" && ! mica version | grep -q libedit; then
  echo "mica has no line editing"
  exit 77
fi

actual=$work/actual
: > "$actual"
: > "$work/command"

# Whether the command that was read is not run here.
elsewhere=
is_skipped() {
  [ ! -e "$pty" ] && { [ "$elsewhere" ] || grep -qw pty "$work/command"; }
}

run_command() {
  [ -s "$work/command" ] || return 0
  if is_skipped; then
    : > "$work/command"
    elsewhere=
    return 0
  fi
  elsewhere=
  code=0
  sh "$work/command" > "$work/out" 2> "$work/err" < /dev/null || code=$?
  sed 's/^/  /' "$work/out" >> "$actual"
  [ $code -eq 0 ] || echo "  [$code]" >> "$actual"
  if [ -s "$work/err" ]; then # not compared, but told where the rest differs
    { sed 's/^/    /' "$work/command" && sed 's/^/    2: /' "$work/err"; } >> "$work/errors"
  fi
  : > "$work/command"
}

while IFS= read -r line || [ "$line" ]; do
  case $line in
    "  $ "*)
      run_command
      printf '%s\n' "${line#  $ }" > "$work/command"
      printf '%s\n' "$line" >> "$actual" ;;
    "  > "*)
      printf '%s\n' "${line#  > }" >> "$work/command"
      printf '%s\n' "$line" >> "$actual" ;;
    "  "*)
      if is_skipped; then printf '%s\n' "$line" >> "$actual"; fi ;;
    *)
      run_command
      case $line in "Not on Windows: "*) elsewhere=1 ;; esac
      printf '%s\n' "$line" >> "$actual" ;;
  esac
done < "$case"
run_command

if [ "$update" ]; then
  cat "$actual" > "$case"
elif ! diff -u "$case" "$actual"; then
  [ ! -f "$work/errors" ] || { echo "standard error:"; cat "$work/errors"; }
  exit 1
fi
