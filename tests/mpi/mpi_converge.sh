# dynmo converge under a launcher: every rank plays a shard, and rank 0 prints the bytes of one process.
# Usage: mpi_converge.sh DYNMO, in tests/
launch=$(pwd)/mpi/launch
. cli/expect.sh

# over RANKS WORD...: that many processes print what one does
over() {
    ranks=$1
    shift
    "$dynmo" converge "$@" --threads 1 >whole 2>err || fail "alone, $*: $(cat err)"
    "$launch" "$ranks" "$dynmo" converge "$@" --store "$ranks.db" >out 2>err
    code=$?
    if [ $code -eq 77 ]; then cat out && exit 77; fi
    [ $code -eq 0 ] || fail "$ranks ranks, $*: $(cat err)"
    cmp -s whole out || fail "$ranks ranks, $*: another answer"
}
over 3 --graph torus --nodes 16,36,64 --instances 130
over 2 --nodes 32,64 --instances 300 --json
over 2 --nodes 32,64 --instances 300 --json
grep -q '^answered from run 1 of 2.db' err || fail "from the store: $(cat err)"

"$launch" 3 "$dynmo" converge --nodes 13 --graph torus --store s.db >out 2>err && fail 'a torus of 13 is played'
grep -q '^dynmo: torus: 13 nodes make no rows and columns' err || fail "torus: $(cat err)"
[ -s out ] && fail "a torus of 13 has an answer: $(cat out)"
exit "$failed"
