# Items over several processes: the same bytes for any number of ranks and threads; a rank that dies or
# hangs has its items done by others where the launcher goes on without it, and else the ranks end; the
# leader's death ends all.
# Usage: mpi_spread.sh PROGRAM (mpi_spread)
#
# A launcher that ends the others kills them a second later, so what they still put is a beginning of the
# whole, however much of it.
set -eu
program=$1
launch=$(dirname "$0")/launch
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf '%s\n' "$1" "exit status $code, standard error:"
    cat "$folder/err"
    exit 1
}

# spread RANKS [ARGUMENT]...: no more than patience limits how long it takes.
spread() {
    code=0
    ranks=$1
    rm -f "$folder/fault"
    shift
    timeout -k 10 240 "$launch" "$ranks" $recovery "$program" "$@" >"$folder/out" 2>"$folder/err" || code=$?
    if [ "$code" -eq 77 ]; then
        cat "$folder/out"
        exit 77
    fi
    if grep 'this build has no MPI' "$folder/err"; then exit 77; fi
}
recovery=

"$program" 1000 1 >"$folder/all" 2>"$folder/err"
[ "$(wc -l <"$folder/all")" -eq 1010 ] || fail 'not every item is put'
for setting in '1 1' '2 1' '4 3' '8 2'; do
    spread "${setting% *}" 1000 "${setting#* }"
    cmp -s "$folder/all" "$folder/out" || fail "other bytes on ranks and threads $setting"
    grep -q "mpi_spread: ${setting% *} ranks, 0 lost" "$folder/err" || fail "on ranks and threads $setting"
done

spread 4 1000 1 fails 0 "$folder/fault"
[ "$code" -eq 1 ] || fail 'an item fails'
grep -q 'mpi_spread: item 50 fails' "$folder/err" || fail 'the item that fails is not named'
[ "$(wc -l <"$folder/out")" -eq 50 ] || fail 'those before the item that fails are not put'

# Without more the launcher ends all when one dies.
for rank in 0 2; do
    spread 4 1000 1 dies "$rank" "$folder/fault"
    case $code in 0 | 124) fail "rank $rank dies" ;; esac
    head -c "$(wc -c <"$folder/out")" "$folder/all" | cmp -s - "$folder/out" || fail "rank $rank dies: gaps"
done

# Open MPI goes on without a rank if it is told to.
mpirun --version 2>&1 | grep -q 'Open MPI) 4\.' || exit 0
recovery=--enable-recovery
for fault in dies stops; do
    spread 4 1000 1 "$fault" 2 "$folder/fault"
    cmp -s "$folder/all" "$folder/out" || fail "rank 2 $fault: items are missing"
    grep -q 'mpi_spread: 4 ranks, 1 lost' "$folder/err" || fail "rank 2 $fault"
done
spread 4 1000 1 dies 0 "$folder/fault"
grep -q 'mpi_spread: rank 0 is gone' "$folder/err" || fail 'the leader dies'
