# tests/packages calls apt for what is missing and only then, and goes on where it fails. The
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

run() {
    : >"$bin/calls"
    PATH=$bin:$PATH "$packages" "$@" 2>"$bin/stderr"
}

stand_in apt-get "echo \"\$*\" >>'$bin/calls'"
stand_in id 'echo 0'
stand_in dpkg-query 'echo installed'
run build run report test
expect 'nothing is missing: apt is not called' '' "$(cat "$bin/calls")"

# shellcheck disable=SC2016 # $3 is the stand-in's
stand_in dpkg-query 'case $3 in cmake|libopenmpi-dev|clang|valgrind) exit 1 ;; esac; echo installed'
run build run report test
expect 'the missing ones are installed, group by group' \
    '-q -o DPkg::Lock::Timeout=300 update
-q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends cmake
-q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends libopenmpi-dev
-q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends clang valgrind' \
    "$(cat "$bin/calls")"

stand_in id 'echo 1000'
stand_in sudo "echo \"sudo \$*\" >>'$bin/calls'; exit 1"
run build
expect 'others than root ask sudo' \
    'sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update' \
    "$(head -n 1 "$bin/calls")"
expect 'what cannot be installed is named' \
    'tests/packages: cannot install, going on without: cmake' "$(tail -n 1 "$bin/stderr")"
