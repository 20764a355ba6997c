# What every command shares: help, refusals that say what is meant, exit codes, data on stdout only.
# Usage: command_line.sh DYNMO
. cli/expect.sh

# shows PATTERN WORD...
shows() {
    pattern=$1
    shift
    "$dynmo" "$@" >out 2>err
    if ! grep -q -e "$pattern" out || [ -s err ]; then
        fail "dynmo $*: no line with '$pattern', or messages: $(cat err)"
    fi
}

refuse 2 'usage: dynmo COMMAND [OPTION]... [FILE]...; see dynmo --help'
refuse 2 "unknown command 'marge'; did you mean 'merge'?" marge
known='; dynmo --help lists them'
refuse 2 "unknown command 'zzzzzzzzzz'$known" zzzzzzzzzz
refuse 2 "unknown command ''$known" ''
refuse 2 "'import' is not a whole command; there is 'import csv', 'import kineto', 'import nsys', 'import ops'" import
refuse 2 "dynmo export: unknown format 'megatro'; did you mean 'megatron'?" export megatro p.json
refuse 2 'dynmo export pytorch: takes no --json' export pytorch p.json --json
refuse 2 "unknown command 'a?b'$known" "$(printf 'a\nb')"
refuse 2 "dynmo reproduce: unknown option '-x'; known: --json" reproduce -x

shows '^dynmo [0-9]*\.[0-9]*\.[0-9]*$' --version
shows '^usage: dynmo COMMAND' --help
shows '^usage: dynmo COMMAND' -h
shows '^  merge  *joins the stores of shards' --help
shows '^usage: dynmo merge' merge --help

# A reader that goes away, or a full disk, is a failure that is said, not silence.
if [ -w /dev/full ]; then
    "$dynmo" --help >/dev/full 2>err
    [ $? -eq 1 ] || fail 'full disk: exit status'
    grep -q '^dynmo: standard output: ' err || fail "full disk: $(cat err)"
fi
exit "$failed"
