# What every command shares: help, refusals that say what is meant, exit codes, data on stdout only.
# Usage: command_line.sh DYNMO
set -eu
dynmo=$1
out=$(mktemp)
trap 'rm -f "$out" "$out.stderr"' EXIT

# refuses CODE MESSAGE WORD...
refuses() {
    wanted_code=$1
    wanted=$2
    shift 2
    code=0
    "$dynmo" "$@" >"$out" 2>"$out.stderr" || code=$?
    if [ "$code" -ne "$wanted_code" ] || [ "$(cat "$out.stderr")" != "$wanted" ] || [ -s "$out" ]; then
        echo "dynmo $*: exit code $code, wanted $wanted_code; messages:"
        cat "$out.stderr"
        echo "wanted: $wanted"
        exit 1
    fi
}

# shows PATTERN WORD...
shows() {
    pattern=$1
    shift
    "$dynmo" "$@" >"$out" 2>"$out.stderr"
    if ! grep -q -e "$pattern" "$out" || [ -s "$out.stderr" ]; then
        echo "dynmo $*: no line with '$pattern', or messages:"
        cat "$out.stderr"
        exit 1
    fi
}

refuses 2 'dynmo: usage: dynmo COMMAND [OPTION]... [FILE]...; see dynmo --help'
refuses 2 "dynmo: unknown command 'manul'; did you mean 'manual'?" manul
refuses 2 "dynmo: unknown command 'zzzzzzzzzz', see dynmo --help" zzzzzzzzzz
refuses 2 "dynmo: unknown command '', see dynmo --help" ''
refuses 2 "dynmo: 'import' is not a whole command; there is 'import csv', 'import kineto'" import
refuses 2 "dynmo: 'export' is not a whole command; there is 'export perfetto'" export --help
refuses 2 "dynmo: unknown command 'a?b', see dynmo --help" "$(printf 'a\nb')"
refuses 2 "dynmo: dynmo manual: unknown option '--all'" manual --all
refuses 2 "dynmo: dynmo manual: unknown option '-x'" manual -x
refuses 2 'dynmo: usage: dynmo manual ' manual operand
refuses 2 'dynmo: usage: dynmo manual ' manual -- --help

shows '^dynmo [0-9]*\.[0-9]*\.[0-9]*$' --version
shows '^usage: dynmo COMMAND' --help
shows '^usage: dynmo COMMAND' -h
shows '^  manual  *prints the manual page' --help
shows '^usage: dynmo manual' manual --help
shows '^\.Sh NAME$' manual

# A reader that goes away, or a full disk, is a failure that is said, not silence.
if [ -w /dev/full ]; then
    code=0
    "$dynmo" manual >/dev/full 2>"$out.stderr" || code=$?
    if [ "$code" -ne 1 ] || ! grep -q '^dynmo: standard output: ' "$out.stderr"; then
        echo "dynmo manual >/dev/full: exit code $code:"
        cat "$out.stderr"
        exit 1
    fi
fi
