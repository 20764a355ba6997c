# Programs read no memory that they did not write, and free all of it: dynmo on the commands of the
# determinism test, and unit tests. Usage: valgrind.sh DYNMO TEST...
set -eu
dynmo=$1
shift
if ! command -v valgrind >/dev/null; then
    echo 'skipped: no valgrind'
    exit 77
fi
checker='valgrind --quiet --error-exitcode=99 --leak-check=full'
cd "$(dirname "$0")/.."

for test in "$@"; do
    echo "valgrind $test"
    $checker "$test" >/dev/null
done

checked=$(mktemp)
trap 'rm -f "$checked"' EXIT
printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$checker" "$dynmo" >"$checked"
chmod +x "$checked"
sh cli/determinism.sh "$checked" new
