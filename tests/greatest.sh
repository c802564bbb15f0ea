# greatest.sh - gets greatest.h v1.5.0, the test harness, into build/include; read by tests/jobs.sh.
#
# need_greatest tries, in this order: PU_GREATEST, the compiler's include path, the cache, its home on the web, and a Debian
# source package that ships the very file. Whatever it finds is judged by its SHA-256, except PU_GREATEST.
# shellcheck shell=bash

GREATEST_SHA256=1292593d95c35eeccc89ffa1c91d6fe53b49f81cbf2c2b7758842b7f3186fcc2
GREATEST_URL=https://raw.githubusercontent.com/silentbicycle/greatest/v1.5.0/greatest.h
GREATEST_DEB=dunst=1.12.2-1     # has it as test/greatest.h
GREATEST_SUITE=trixie
if [[ -n ${HOME:-} ]]; then default_cache=${XDG_CACHE_HOME:-$HOME/.cache}/pu; else default_cache=build/cache; fi
CACHE=${PU_CACHE:-$default_cache}

is_greatest() { [[ -f $1 ]] && echo "$GREATEST_SHA256  $1" | sha256sum --check --status 2>/dev/null; }

# Each way below leaves the file at $1 and returns true, or returns false. is_greatest judges it afterwards.

greatest_from_system()
{
    local path
    path=$(echo '#include <greatest.h>' | "${CC_CMD[@]}" -E -x c - 2>/dev/null |
           sed -n 's/^# [0-9]* "\(.*\/greatest\.h\)".*/\1/p' | head -n 1)
    [[ $path ]] && cp "$path" "$1"
}

greatest_from_cache() { [[ -f $CACHE/greatest.h ]] && cp "$CACHE/greatest.h" "$1"; }

greatest_from_upstream()
{
    if have curl; then
        curl -fsSL --connect-timeout 5 --max-time 20 -o "$1" "$GREATEST_URL" 2>/dev/null
    elif have wget; then
        wget -q --tries=1 --timeout=5 -O "$1" "$GREATEST_URL" 2>/dev/null
    else
        return 1
    fi
}

# Prints "URI keyring" for each archive this machine's apt uses (both formats of the configuration), security
# archives left out; the keyring is - where none is named by path.
apt_archives()
{
    local list='' parts=''
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    {
        find "$parts" -name '*.sources' -exec sh -c 'for f; do cat "$f"; echo; done' sh {} + | awk '
            function stanza(    n, i, uri, key) {
                key = v["signed-by"]; gsub(/[ \t]/, "", key); if (key !~ /^\/[^:]*$/) key = "-"
                if (v["types"] ~ /deb/ && v["enabled"] !~ /no/ && v["suites"] !~ /security/ && v["components"] ~ /main/) {
                    n = split(v["uris"], uri, " ")
                    for (i = 1; i <= n; i++) print uri[i], key
                }
                split("", v)
            }
            /^#/          { next }
            /^[ \t]*\r?$/ { stanza(); next }
            /^[ \t]/      { v[field] = v[field] " " $0; next }
                          { field = tolower($0); sub(/:.*/, "", field); sub(/^[^:]*:/, ""); v[field] = $0 }
            END           { stanza() }'
        find "$list" "$parts" -name '*.list' -exec cat {} + | awk '
            /^[ \t]*deb(-src)?[ \t]/ && !/security/ && / main( |$)/ {
                key = "-"
                if (match($0, /signed-by=[^] \t]*/)) key = substr($0, RSTART + 10, RLENGTH - 10)
                sub(/\[[^]]*\]/, ""); print $2, key
            }'
    } 2>/dev/null | awk '$1 ~ /^(https?|file|mirror\+[a-z]+):/ && !seen[$1]++'
}

# Fetches the Debian source package with an apt configuration of its own, in a temporary directory, so that the
# machine's package lists stay as they are. Signatures are checked as usual. Works without root as well.
greatest_from_debian() (
    apt_allowed && have apt-config || exit 1
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    mkdir -p "$tmp"/{parts,lists/partial,cache/archives/partial,src}
    chmod 755 "$tmp"
    if [[ $(id -u) == 0 ]] && id -u _apt >/dev/null 2>&1; then      # apt downloads as this user
        chown _apt "$tmp"/lists/partial "$tmp"/cache/archives/partial "$tmp"/src
    fi
    cat >"$tmp/apt.conf" <<CONF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$tmp/parts/";
Dir::State::lists "$tmp/lists/";
Dir::Cache "$tmp/cache/";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
    while read -r uri key; do
        rm -f "$tmp"/src/*
        if [[ ! -r $key ]]; then key=/usr/share/keyrings/debian-archive-keyring.gpg; fi
        {
            printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$GREATEST_SUITE"
            if [[ -r $key ]]; then printf 'Signed-By: %s\n' "$key"; fi
        } >"$tmp/parts/pu.sources"
        (cd "$tmp/src" && apt-get -c "$tmp/apt.conf" update &&
         apt-get -c "$tmp/apt.conf" source --download-only --tar-only "$GREATEST_DEB") >"$tmp/log" 2>&1 </dev/null || continue
        tar -xOf "$tmp"/src/*.orig.tar.* --wildcards '*/test/greatest.h' >"$1" 2>/dev/null && exit 0
    done < <(apt_archives)
    exit 1
)

# Puts greatest.h into build/include, alone there: that directory is given to the compiler with -isystem, which
# keeps our strict warnings off a file that is not ours.
need_greatest()
{
    local target=build/include/greatest.h try=build/include/greatest.h.try way
    mkdir -p build/include
    rm -f "$target"
    if [[ -n ${PU_GREATEST:-} ]]; then
        [[ -r $PU_GREATEST ]] || { warn "PU_GREATEST=$PU_GREATEST: no such file"; return 1; }
        is_greatest "$PU_GREATEST" || warn "PU_GREATEST is not the v1.5.0 this project is tested with; using it all the same"
        cp "$PU_GREATEST" "$target"
        say "greatest.h $PU_GREATEST"
        return 0
    fi
    for way in system cache upstream debian; do
        rm -f "$try"
        if "greatest_from_$way" "$try" && is_greatest "$try"; then
            say "greatest.h from $way"
            if [[ $way == upstream || $way == debian ]]; then
                { mkdir -p "$CACHE" && cp "$try" "$CACHE/.greatest.$$" &&
                  mv "$CACHE/.greatest.$$" "$CACHE/greatest.h"; } 2>/dev/null || warn "cannot keep greatest.h in $CACHE"
            fi
            mv "$try" "$target"
            return 0
        fi
    done
    rm -f "$try"
    warn "greatest.h v1.5.0 (github.com/silentbicycle/greatest) is neither installed nor cached, and could not be fetched."
    warn "Get that file and say where it is: PU_GREATEST=/path/greatest.h ./build.sh test"
    warn "or put it into $CACHE/."
    return 1
}
