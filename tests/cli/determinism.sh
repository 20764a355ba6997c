# The same input gives the same bytes: run by run, in twelve environments in turn, and on every machine
# and by every compiler, for determinism.txt holds the hash of each output.
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
# The first two layers that freeze, after 70 and 80 iterations: longer tells no more, and takes long under valgrind.
gzip -cd "$tests/../traces/recorded/gpt-freezing-cpu.csv.gz" | awk -F, '!/^[0-9]/ || $1 < 90' >recorded.csv
"$dynmo" import csv recorded.csv -o trace.db >imported
"$dynmo" simulate studies/freezing.json --trace trace.db --store run.db >simulated

# hash_of ENVIRONMENT WORD...: of what the command writes to standard output
hash_of() {
    environment=$1
    shift
    # shellcheck disable=SC2086 # environment is a list of words
    env $environment "$dynmo" "$@" >out
    sha256sum <out | cut -c 1-64
}

# other_environment: the next of them
turn=0
other_environment() {
    turn=$((turn % 12 + 1))
    case $turn in
    1) echo LC_ALL=de_DE.UTF-8 ;;
    2) echo TZ=Asia/Tokyo ;;
    3) echo MALLOC_PERTURB_=165 ;;
    4) echo taskset -c 0 ;;
    5) echo -i ;;
    6) echo HOME=/nonexistent ;;
    7) echo TMPDIR=/nonexistent ;;
    8) echo COLUMNS=40 LINES=10 ;;
    9) echo nice -n 5 ;;
    10) echo OMP_NUM_THREADS=7 OPENBLAS_NUM_THREADS=7 ;;
    11) echo LC_NUMERIC=de_DE.UTF-8 LANG=tr_TR.UTF-8 ;;
    12) echo SOURCE_DATE_EPOCH=0 MALLOC_ARENA_MAX=1 ;;
    esac >environment
}

while read -r wanted words; do
    # shellcheck disable=SC2086 # words is a list of words
    first=$(hash_of LC_ALL=C $words)
    if [ "${2:-}" = new ]; then
        echo "$first $words"
        continue
    fi
    other_environment
    # shellcheck disable=SC2086
    second=$(hash_of "$(cat environment)" $words)
    if [ "$first" != "$second" ]; then
        echo "dynmo $words: differs where $(cat environment)"
        failed=1
    elif [ "$first" != "$wanted" ]; then
        echo "dynmo $words: hash is $first, was $wanted"
        failed=1
    fi
done <"$list"
exit "$failed"
