# tests/packages calls apt for what is missing and only then, and goes on where it may not. The
# programs it calls are replaced by ones that write down how they were called.
set -eu
packages=$(cd "$(dirname "$0")/.." && pwd)/packages
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

# stand_in NAME LINE...: a program of that name
stand_in() {
    name=$1
    shift
    printf '%s\n' '#!/bin/sh' "$@" >"$bin/$name"
    chmod +x "$bin/$name"
}

# expect WHAT WANTED GIVEN
expect() {
    [ "$2" = "$3" ] || { printf '%s\nwanted: %s\ngiven:  %s\n' "$1" "$2" "$3" && exit 1; }
}

stand_in apt-get "echo \"apt-get \$*\" >>'$bin/calls'"
stand_in sudo 'echo "sudo: a password is required" >&2; exit 1'
stand_in id 'echo 0'
run() {
    : >"$bin/calls"
    PATH=$bin:$PATH "$packages" "$@" 2>"$bin/stderr"
}

stand_in dpkg-query 'echo installed'
run build report test
expect 'nothing is missing: apt is not called' '' "$(cat "$bin/calls")"

# shellcheck disable=SC2016 # $3 is the stand-in's
stand_in dpkg-query 'case $3 in mandoc|cmake) exit 1 ;; esac; echo installed'
run build test
expect 'the missing two are installed' \
    'apt-get -q -o DPkg::Lock::Timeout=300 update
apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends cmake mandoc' \
    "$(cat "$bin/calls")"

stand_in id 'echo 1000'
run build
expect 'without the right to install, apt is not called' '' "$(cat "$bin/calls")"
expect 'and the missing one is named' 'tests/packages: cannot install, going on without: cmake' \
    "$(tail -n 1 "$bin/stderr")"

stand_in id 'echo 0'
stand_in apt-get 'exit 100'
if run build; then
    echo 'a failure of apt is not reported'
    exit 1
fi
