#!/usr/bin/env bash
# newcomer.sh [SUITE] [--keep] - what somebody meets who has nothing but a bare Debian: makes one by debootstrap (minbase;
# SUITE is bookworm when not given), copies the committed state of this repository into it, types the two commands of the
# README, `./build.sh` and `./build.sh test`, and reports their times and the last line of the tests. Fails when one does.
#
# Needs root. Inside, apt gets from this machine what it takes to reach the archive: its address, the Acquire part of apt's
# configuration, keys, certificates, name resolution and the environment's proxies. Nothing else is shared. MIRROR names
# another archive than that of this machine's apt. Logs are left in build/newcomer/; with --keep the root is left, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'newcomer: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

suite=bookworm
keep=
for word in "$@"; do
    case $word in
        --keep) keep=1 ;;
        -*) die "usage: tests/newcomer.sh [SUITE] [--keep]" ;;
        *) suite=$word ;;
    esac
done
[[ $(id -u) == 0 ]] || die "debootstrap and chroot need root"
if ! command -v debootstrap >/dev/null; then
    say "installing debootstrap"
    { apt-get update && apt-get install -y --no-install-recommends debootstrap; } >/dev/null 2>&1 </dev/null ||
        die "debootstrap is missing, and apt-get could not install it"
fi

# The archive of this machine's apt: the first that holds main and is not for security updates alone.
# shellcheck disable=SC2016  # apt's own format
MIRROR=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Component: main' 'Created-By: Packages' |
                   awk '$1 !~ /security/ && $2 !~ /security/ { print $1; exit }')}
[[ $MIRROR ]] || die "this machine's apt has no archive; name one by MIRROR=URL"

logs=$PWD/build/newcomer
root=$(mktemp -d)
chmod 755 "$root"      # the users inside must reach it
mkdir -p "$logs"
# shellcheck disable=SC2317  # called by the trap
cleanup()
{
    if mountpoint -q "$root/proc"; then umount -l "$root/proc"; fi
    if [[ $keep ]]; then say "the root is left in $root"; else rm -rf --one-file-system "$root"; fi
}
trap cleanup EXIT

start=$SECONDS
eval "$(apt-config shell proxy Acquire::http::Proxy)"
if [[ ${proxy:-} && ! ${http_proxy:-} ]]; then export http_proxy=$proxy; fi
debootstrap --variant=minbase "$suite" "$root" "$MIRROR" >"$logs/$suite.debootstrap.log" 2>&1 ||
    die "debootstrap failed: $(tail -n 1 "$logs/$suite.debootstrap.log")"
say "$suite from debootstrap, $((SECONDS - start)) s, $(chroot "$root" dpkg-query -f '.' -W | wc -c) packages"

# The way to the archive. debootstrap has written sources.list already.
apt-config dump Acquire >"$root/etc/apt/apt.conf.d/99newcomer"
for file in /etc/apt/{auth.conf,auth.conf.d,trusted.gpg,trusted.gpg.d,keyrings} /etc/resolv.conf /etc/hosts \
            /etc/ssl/certs /usr/local/share/ca-certificates; do
    if [[ -d $file ]]; then
        mkdir -p "$root$file"
        cp -rL "$file/." "$root$file/"
    elif [[ -f $file ]]; then
        cp -L --remove-destination "$file" "$root$file"
    fi
done
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb)
for name in http_proxy https_proxy ftp_proxy all_proxy no_proxy; do
    if [[ -n ${!name:-} ]]; then environment+=("$name=${!name}"); fi
    name=${name^^}
    if [[ -n ${!name:-} ]]; then environment+=("$name=${!name}"); fi
done
mount -t proc proc "$root/proc"
mkdir "$root/pu"
git archive HEAD | tar -x -C "$root/pu"

# typed NAME COMMAND...: types a command in the bare root; sets CODE and TOOK, and leaves a log
TIMEFORMAT='%R s, processor time %U + %S s'
typed()
{
    local log=$logs/$suite.$1.log
    shift
    CODE=0
    # shellcheck disable=SC2016  # for the shell inside
    { time chroot "$root" env -i "${environment[@]}" bash -c 'cd /pu && exec "$@"' bash "$@" >"$log" 2>&1 </dev/null; } \
        2>"$log.time" || CODE=$?
    TOOK=$(<"$log.time")
    if [[ $CODE != 0 ]]; then tail -n 40 "$log"; fi
}

bad=0
typed demo ./build.sh
[[ -s $root/pu/build/demo/report.html ]] || CODE="$CODE, no report.html"
[[ $CODE == 0 ]] || bad=1
say "$suite: ./build.sh: exit code $CODE, $TOOK"
typed test ./build.sh test
[[ $CODE == 0 ]] || bad=1
say "$suite: ./build.sh test: exit code $CODE, $TOOK, $(nproc) cores: $(tail -n 1 "$logs/$suite.test.log")"
say "$suite: packages after both: $(chroot "$root" dpkg-query -f '.' -W | wc -c)"
cp "$root/pu/build/test-times.txt" "$logs/$suite.test-times.txt" 2>/dev/null || true
exit $bad
