# The same input gives the same bytes: run by run, under other locales and time zones, and on every
# machine and by every compiler, for determinism.txt holds the hash of each output.
# Usage: determinism.sh DYNMO [new]. With `new` prints determinism.txt as it would be now, for a commit
# that says why an output has changed.
set -eu
dynmo=$1
tests=$(cd "$(dirname "$0")/.." && pwd)
list=$tests/cli/determinism.txt
failed=0

# The commands run where these short paths are theirs, so that no path of a machine is in an output.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
ln -s "$tests/golden" golden
ln -s "$tests/../models/studies" studies
"$dynmo" import csv "$tests/../traces/recorded/gpt-freezing-cpu.csv.gz" -o trace.db >imported
"$dynmo" simulate studies/freezing.json --trace trace.db --store run.db >simulated

# hash_of LOCALE TIME_ZONE WORD...: of what the command writes to standard output
hash_of() {
    locale=$1
    time_zone=$2
    shift 2
    LC_ALL=$locale TZ=$time_zone "$dynmo" "$@" >out
    sha256sum <out | cut -c 1-64
}

while read -r wanted words; do
    # shellcheck disable=SC2086 # words is a list of words
    first=$(hash_of C UTC $words)
    if [ "${2:-}" = new ]; then
        echo "$first $words"
        continue
    fi
    # shellcheck disable=SC2086
    second=$(hash_of de_DE.UTF-8 Asia/Tokyo $words)
    if [ "$first" != "$second" ]; then
        echo "dynmo $words: differs from run to run"
        failed=1
    elif [ "$first" != "$wanted" ]; then
        echo "dynmo $words: hash is $first, was $wanted"
        failed=1
    fi
done <"$list"
exit "$failed"
