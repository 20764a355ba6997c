# What the tests of commands share; they read it with `.` from the folder tests/. It takes them to a
# folder of their own, which goes when they end, and gives them:
#   expect CODE STDOUT STDERR WORD...   dynmo with the words prints just this
#   prints STDOUT WORD...               it succeeds, and prints just this
#   refuse CODE MESSAGE WORD...         it prints one line, "dynmo: MESSAGE", and nothing to stdout
#   fail WORD...                        notes that the test has failed
# Words are put after $subject, which a test sets to the command that it is about.
# The test ends with `exit $failed`.
set -u
dynmo=$1
subject=''
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*"
    # shellcheck disable=SC2034 # the test ends with it
    failed=1
}

expect() {
    code=$1 stdout=$2 stderr=$3
    shift 3
    # shellcheck disable=SC2086 # a command of two words
    "$dynmo" $subject "$@" >out 2>err
    found=$?
    printf '%s' "$stdout${stdout:+
}" >wanted_out
    printf '%s' "$stderr${stderr:+
}" >wanted_err
    if [ "$found" -ne "$code" ] || ! cmp -s wanted_out out || ! cmp -s wanted_err err; then
        fail "dynmo $subject $*"
        echo "  exit $found, expected $code"
        diff wanted_out out
        diff wanted_err err
    fi
}

prints() {
    stdout=$1
    shift
    expect 0 "$stdout" '' "$@"
}

refuse() {
    code=$1 message=$2
    shift 2
    expect "$code" '' "dynmo: $message" "$@"
}
