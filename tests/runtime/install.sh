#!/bin/sh
# shellcheck disable=SC2086 # $install and $restore are a command and its arguments
# install.sh BIN: installing for all programs and taking it back, in a root of its own (DESTDIR).
set -u
bin=$1
install="cpu/client/install/install-client-lib $bin"
restore=cpu/client/install/restore-client-lib
number=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() {   # NAME COMMAND...
    name=$1
    shift
    number=$((number + 1))
    if "$@" > "$work/log" 2>&1; then echo "ok $number - $name"; else echo "not ok $number - $name"; sed 's/^/# /' "$work/log" | head; fi
}
fails() { ! "$@"; }
said() { grep -q "$1" "$work/said"; }
state() { (cd "$DESTDIR" && find . -printf '%p %y %m ' -type f -exec cksum {} \; -o -printf '%p %y %m\n' | LC_ALL=C sort); }
fresh() { DESTDIR=$work/root-$1; export DESTDIR; mkdir -p "$DESTDIR/etc/ld.so.conf.d" "$DESTDIR/usr/local/lib" "$DESTDIR/dev"; }
unset LIBDIR FORCE

echo 1..28
fresh plain
echo /usr/local/cuda/lib64 > "$DESTDIR/etc/ld.so.conf.d/000_cuda.conf"
echo nvidia > "$DESTDIR/usr/local/lib/libcudart.so.13"
state > "$work/before"
check "installs" $install
there() { for name; do [ -f "$DESTDIR/usr/local/lib/flyt/$name" ] || { echo "no $name"; return 1; }; done; }
check "the libraries are there" there libcudart.so.11.0 libcudart.so.12 libcudart.so.13 libcudart.so libcuda.so.1 \
      libcuda.so libnvidia-ml.so.1 libnvidia-ml.so flyt-nvml libflyt-client.so libflyt-tls.so
check "NVIDIA's file is as it was" test "$(cat "$DESTDIR/usr/local/lib/libcudart.so.13")" = nvidia
check "the loader's list names the folder" grep -qx /usr/local/lib/flyt "$DESTDIR/etc/ld.so.conf.d/000-flyt.conf"
check "and names it first" test "$(cd "$DESTDIR/etc/ld.so.conf.d" && LC_ALL=C && echo * | cut -d' ' -f1)" = 000-flyt.conf
check "installs again over itself" $install
check "restores" $restore
state > "$work/after"
check "everything is as before" cmp "$work/before" "$work/after"
check "restoring twice is harmless" $restore

fresh bare
rm -r "${DESTDIR:?}/etc" "${DESTDIR:?}/usr"
state > "$work/before"
$install 2> "$work/said"
$restore 2>> "$work/said"
state > "$work/after"
check "folders that were made are gone again" cmp "$work/before" "$work/after"

fresh gpu
touch "$DESTDIR/dev/nvidia0"
state > "$work/before"
$install 2> "$work/said"
check "refused where there is a GPU" test $? -ne 0
state > "$work/after"
check "which changes nothing" cmp "$work/before" "$work/after"
check "and says how to insist" said FORCE=1
check "FORCE=1 insists" env FORCE=1 $install

fresh driver
mkdir -p "$DESTDIR/usr/lib/x86_64-linux-gnu"
echo nvidia > "$DESTDIR/usr/lib/x86_64-linux-gnu/libcuda.so.1"
state > "$work/before"
$install 2> "$work/said"
check "refused where NVIDIA's driver is" test $? -ne 0
check "and says where it is" said usr/lib/x86_64-linux-gnu/libcuda.so.1
check "FORCE=1 insists there, too" env FORCE=1 $install
$restore
state > "$work/after"
check "and it is as before when restored" cmp "$work/before" "$work/after"

# A version that had a file which this one lacks, and one that was cut off while it was installed over it.
fresh older
state > "$work/before"
$install 2> "$work/said"
echo "file /usr/local/lib/flyt/libold.so" >> "$DESTDIR/usr/local/lib/flyt/.installed"
echo old > "$DESTDIR/usr/local/lib/flyt/libold.so"
cp -r "$DESTDIR" "$work/root-cut-upgrade"
check "installs over an older version" $install
check "which leaves no file of that one" test ! -e "$DESTDIR/usr/local/lib/flyt/libold.so"
$restore 2>> "$work/said"
state > "$work/after"
check "and is taken back as any other" cmp "$work/before" "$work/after"
DESTDIR=$work/root-cut-upgrade
# The last file cannot be put into place: as if the installation ended there.
mkdir "$DESTDIR/usr/local/lib/flyt/.new"
check "an installation that ends in the middle fails" fails $install
check "the older version's file can still be taken back" grep -q libold "$DESTDIR/usr/local/lib/flyt/.installed"
rmdir "$DESTDIR/usr/local/lib/flyt/.new"
$restore 2>> "$work/said"
state > "$work/after"
check "and everything is as before" cmp "$work/before" "$work/after"

# Killed before it had written what it is about to do.
fresh early
state > "$work/before"
mkdir "$DESTDIR/usr/local/lib/flyt.new"
echo "file" > "$DESTDIR/usr/local/lib/flyt.new/.installed"
$restore 2> "$work/said"
state > "$work/after"
check "an installation that hardly began is taken back" cmp "$work/before" "$work/after"
mkdir "$DESTDIR/usr/local/lib/flyt.new"
$install 2> "$work/said"
$restore 2>> "$work/said"
state > "$work/after"
check "or begun again, and taken back" cmp "$work/before" "$work/after"

fresh foreign
mkdir -p "$DESTDIR/usr/local/lib/flyt"
touch "$DESTDIR/usr/local/lib/flyt/somebody"
check "somebody else's folder is not taken" fails $install

fresh cut
mkdir "$work/empty"
check "a folder without libraries is told" fails cpu/client/install/install-client-lib "$work/empty"
