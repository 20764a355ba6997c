# Programs read no memory that they did not write, and free all of it. Usage: valgrind.sh DYNMO TEST...
set -eu
dynmo=$1
shift
if ! command -v valgrind >/dev/null; then
    echo 'skipped: no valgrind'
    exit 77
fi

check() {
    echo "valgrind $*"
    valgrind --quiet --error-exitcode=99 --leak-check=full "$@" >/dev/null
}

for test in "$@"; do
    check "$test"
done
check "$dynmo" --version
check "$dynmo" manual
