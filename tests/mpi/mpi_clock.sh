# Ranks on nodes whose clocks count from another moment: time namespaces stand in for the nodes.
# Usage: mpi_clock.sh DYNMO TRANSPORT, in tests/
root=$(cd .. && pwd)
transport=$2
launch=$root/tests/mpi/launch
[ "$transport" = mpi ] || launch=${launch}_$transport
. cli/expect.sh

if ! unshare --time true 2>/dev/null; then
    echo 'skipped: time namespaces are not allowed here'
    exit 77
fi
cat >shifted <<'END'
# shifted SECONDS COMMAND...: rank 1 has a clock that is so far ahead.
seconds=$1
shift
if [ "${OMPI_COMM_WORLD_RANK:-${RANK:-0}}" != 1 ]; then exec "$@"; fi
exec unshare --time --monotonic "$seconds" --boottime "$seconds" --fork --kill-child -- "$@"
END
cat >study.json <<'END'
{"schema":"dynmo-study/1","name":"s","model":"gpt2","hardware":"h100-sxm",
 "training":{"iterations":4,"sequence_length":1024,"microbatches":8},
 "pipeline":{"stages":2,"schedule":"zb-h1"},"balancing":[{"balancer":"even"}]}
END
for seconds in 3000 -30; do
    timeout 120 "$launch" 2 sh ./shifted $seconds "$dynmo" run study.json --transport "$transport" --clock queue \
        --watchdog 20 --json >out 2>err
    code=$?
    if [ $code -eq 77 ]; then cat out && exit 77; fi
    if grep -q 'this build has no MPI' err; then
        echo 'skipped: built without MPI'
        exit 77
    fi
    [ $code -eq 0 ] || fail "a clock $seconds s ahead: $(cat out err)"
    offset=$(sed 's/.*"clock_offset_ns":\([-0-9]*\),"clock_residual_ns":\([0-9]*\).*/\1 \2/' out)
    # Shares of processor time are whatever they are here; a clock that was believed is off by seconds.
    echo "$offset $(sed 's/.*"measured_ns":\([0-9]*\).*/\1/' out)" |
        awk -v asked="$seconds" '{ off = $1 - asked * 1e9; if (off < 0) off = -off
            exit !(off <= $2 && $2 < 1e9 && $3 < 10e9) }' || fail "$seconds s: found $offset, $(cat out)"
done
exit "$failed"
