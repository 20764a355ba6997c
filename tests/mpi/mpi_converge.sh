# dynmo converge prints the same bytes on any number of processes and threads, also from a store that an
# interrupted run has begun, and a wrong question is refused once.
# Usage: mpi_converge.sh DYNMO, in tests/
launch=$(pwd)/mpi/launch
. cli/expect.sh

# over RANKS WORD...: that many processes print what one did, in the file whole
over() {
    ranks=$1
    shift
    "$launch" "$ranks" "$dynmo" converge "$@" >out 2>err
    code=$?
    if [ $code -eq 77 ]; then cat out && exit 77; fi
    if grep 'this build has no MPI' err; then exit 77; fi
    [ $code -eq 0 ] || fail "$ranks ranks, $*: $(cat err)"
    cmp -s whole out || fail "$ranks ranks, $*: another answer"
}

# alone WORD...
alone() {
    "$dynmo" converge "$@" --threads 1 >whole 2>err || fail "alone, $*: $(cat err)"
}

alone --graph torus --nodes 16,36,64 --instances 130
over 3 --graph torus --nodes 16,36,64 --instances 130
over 2 --graph torus --nodes 16,36,64 --instances 130 --threads 2
alone --layers 12,40 --stages 3,9 --instances 70 --json
over 3 --layers 12,40 --stages 3,9 --instances 70 --json
alone --drift 0.01,0.1 --stages 6 --scheme max-neighbor
over 3 --drift 0.01,0.1 --stages 6 --scheme max-neighbor

# What one process leaves when it is interrupted, three take up.
alone --nodes 32,64 --instances 300 --json
"$dynmo" converge --nodes 32,64 --instances 300 --json --threads 1 --store s.db >out 2>err &
child=$!
while [ ! -s s.db ] && kill -0 $child 2>/dev/null; do sleep 0.05; done
kill -INT $child 2>/dev/null
wait $child
code=$?
if [ $code -ne 130 ] && [ $code -ne 0 ]; then fail "interrupted: exit $code, $(cat err)"; fi
over 3 --nodes 32,64 --instances 300 --json --store s.db
over 2 --nodes 32,64 --instances 300 --json --store s.db
grep -q '^answered from run 1 of s.db' err || fail "from the store: $(cat err)"

"$launch" 3 "$dynmo" converge --nodes 13 --graph torus >out 2>err && fail 'a torus of 13 is played'
[ "$(grep -c '^dynmo: torus: 13 nodes make no rows and columns' err)" -eq 1 ] || fail "torus: $(cat err)"
[ -s out ] && fail "a torus of 13 has an answer: $(cat out)"
exit "$failed"
