#!/bin/bash
# shows: set-up: asks for root once, calls a full disk that, finds libmongoc 2, gives nvcc a compiler that it takes
# tests/tools/setup.sh: tools/setup in a folder of its own, where commands say what another machine would. TAP.
number=0 failed=0
say() { # status name
  number=$((number + 1))
  if [ "$1" = 0 ]; then echo "ok $number - $2"; return; fi
  echo "not ok $number - $2"; sed 's/^/# /' "$work/said"; failed=1
}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$work/tools" "$work/commands" "$work/cuda/bin" "$work/cuda/include"
touch "$work/cuda/include/cuda.h"
# The files of packages are looked for below a folder, where all of them are.
sed "/^ *'[a-z].*:/s|:/|:$root/|g; /^  packages+=('/s|:/|:$root/|g" tools/setup >"$work/tools/setup"
chmod +x "$work/tools/setup"
grep -o ":$root/[^:']*" "$work/tools/setup" | cut -c2- | grep -v '\*' | while read -r file; do
  mkdir -p "$(dirname "$file")"; touch "$file"
done
command_of() { # name, script
  printf '#!/bin/bash\n%s\n' "$2" >"$work/commands/$1"; chmod +x "$work/commands/$1"
}
set_up() { # variable=value... command...: the exit status; what it said is in $work/said
  (cd "$work" && env -u CUDA_HOME -u NVCC_CCBIN -u NVCC_PREPEND_FLAGS PATH="$work/commands:$PATH" FLYT_TOOLKIT=pypi \
    "$@") >"$work/said" 2>&1
}
command_of id 'echo 1000'
command_of apt-get 'exit 1'

command_of python3 '[ "$2" != pip ]'                             # there is no pip
rm "$root/usr/include/uv.h"
set_up tools/setup; got=$?
[ "$got" = 3 ] && grep -q 'apt-get install .* libuv1-dev python3-pip$' "$work/said"
say $? "one command for root has what is missing, and pip, with which the toolkit is fetched"
touch "$root/usr/include/uv.h"
rm "$root/usr/bin/dpkg-shlibdeps"
set_up tools/setup --for package; got=$?
[ "$got" = 3 ] && grep -q 'apt-get install .*dpkg-dev' "$work/said"; say $? "what a package takes is named"
touch "$root/usr/bin/dpkg-shlibdeps"

command_of python3 '[ "$3" = --version ] || { echo "OSError: [Errno 28] No space left on device" >&2; exit 1; }'
set_up tools/setup; got=$?
[ "$got" = 5 ] && grep -q 'no room left on a disk' "$work/said" && ! grep -q 'no CUDA Toolkit on' "$work/said"
say $? "pip says that the disk is full, and so does set-up"
command_of python3 '[ "$3" = --version ]'
command_of df 'echo Filesystem; echo "/dev/sda 10000 9997 3 100% /"'
set_up tools/setup; got=$?
[ "$got" = 5 ] && grep -q 'has only 3 MB left' "$work/said"; say $? "a disk that is nearly full is named"
command_of df 'echo Filesystem; echo "/dev/sda 1000000 0 1000000 0% /"'
set_up tools/setup; got=$?
[ "$got" = 4 ] && grep -q 'no CUDA Toolkit on' "$work/said"; say $? "another failure is none of the disk"

nvcc() { printf '#!/bin/bash\n%s\n' "$1" >"$work/cuda/bin/nvcc"; chmod +x "$work/cuda/bin/nvcc"; }
nvcc 'exit 0'
rm -r "$root/usr/include/libmongoc-1.0"
mkdir -p "$root/usr/include/mongoc-2.5.7/mongoc"; touch "$root/usr/include/mongoc-2.5.7/mongoc/mongoc.h"
set_up FLYT_TOOLKIT= CUDA_HOME="$work/cuda" tools/setup; say $? "libmongoc 2 is found"
! grep -q NVCC_PREPEND "$work/build/toolkit.mk"; say $? "nvcc takes the compiler that there is"

refuses='*) echo "#error -- unsupported GNU version! gcc versions later than 13 are not supported!" >&2; exit 1 ;;'
nvcc "case \"\$*\" in *'-ccbin g++-13'*) ;; $refuses esac"; touch -d 2001-01-01 "$work/cuda/bin/nvcc"
command_of g++-13 'exit 0'
set_up FLYT_TOOLKIT= CUDA_HOME="$work/cuda" tools/setup && grep -q 'it is given g++-13' "$work/said" &&
  grep -q '^export NVCC_PREPEND_FLAGS ?= -ccbin g++-13$' "$work/build/toolkit.mk"
say $? "nvcc refuses the newest compiler, and gets an older one"
set_up FLYT_TOOLKIT= CUDA_HOME="$work/cuda" tools/setup && [ ! -s "$work/said" ] &&
  grep -q '^export NVCC_PREPEND_FLAGS ?= -ccbin g++-13$' "$work/build/toolkit.mk"
say $? "which stays so, without a word"
nvcc "case x in $refuses esac"; touch -d 2002-01-01 "$work/cuda/bin/nvcc"
set_up FLYT_TOOLKIT= CUDA_HOME="$work/cuda" tools/setup; got=$?
[ "$got" = 6 ] && grep -q 'refuses g++ [0-9]' "$work/said"; say $? "none will do: the message names both"
echo "1..$number"
exit $failed
