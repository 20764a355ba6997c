# Programs read no memory that they did not write, and free all of it: dynmo on the commands of the
# determinism test, and unit tests. Usage: valgrind.sh DYNMO TEST...
set -eu
dynmo=$1
shift
if ! command -v valgrind >/dev/null; then
    echo 'skipped: no valgrind'
    exit 77
fi

cd "$(dirname "$0")/.."
check() {
    echo "valgrind $*"
    valgrind --quiet --error-exitcode=99 --leak-check=full "$@" >/dev/null
}

for test in "$@"; do
    check "$test"
done
check "$dynmo" manual
while read -r _ words; do
    # shellcheck disable=SC2086 # a list of words
    check "$dynmo" $words
done <cli/determinism.txt
