# `dynmo probe` over processes: three of them have three links, one of them speaks for all.
# usage: mpi_probe.sh DYNMO TRANSPORT, in tests/
transport=$2
launch=$(pwd)/mpi/launch
[ "$transport" = mpi ] || launch=${launch}_$transport
. cli/expect.sh
"$launch" 2 "$dynmo" --version >version 2>&1
case $? in 0) ;; 77) cat version && exit 77 ;; *) fail "$launch: $(cat version)" ;; esac

"$launch" 3 "$dynmo" probe --transport "$transport" --model gpt-bytes --tokens 16 --seconds 0.001 --bytes 16777216 \
    -o hardware.json --json >out 2>err
found=$?
if grep -q 'this build has no MPI' err; then
    echo 'skipped: built without MPI'
    exit 77
fi
[ $found -eq 0 ] || fail "probe over $transport: $(cat err)"
[ "$(grep -c '"schema":"dynmo-probe/1"' out)" -eq 1 ] || fail 'not one answer'
[ "$(grep -o '"from":' out | wc -l)" -eq 27 ] || fail 'not 3 pairs x 9 sizes'
grep -q "\"transport\":\"$transport\"" out || fail 'another transport'
grep -q "intra measured over $transport, 27 sizes and pairs, within" hardware.json || fail 'no links in the file'
"$dynmo" model --model gpt-bytes --hardware hardware.json --dtype float32 >/dev/null || fail 'model'

"$launch" 2 "$dynmo" probe --transport "$transport" --ranks 3 >out 2>err && fail 'three of two ranks'
[ "$(grep -c "^dynmo: transport '$transport': 3 ranks are needed, 2 were started" err)" -eq 1 ] ||
    fail "not one message: $(cat err)"
"$launch" 2 "$dynmo" probe >out 2>err && fail 'local ranks under a launcher'
[ "$(grep -c 'a launcher has started several processes' err)" -ge 1 ] || fail "no message: $(cat err)"
exit $failed
