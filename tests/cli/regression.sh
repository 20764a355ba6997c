# The example of checks that the README shows: record on cpu, simulate what was recorded, run again
# and check; then with a rank that is slow. Processor time is measured, so the fault is larger and
# the tolerance wider than there: no load makes medians of ops twice as long.
# usage: regression.sh DYNMO, in tests/
root=$(cd .. && pwd)
. cli/expect.sh
# Shorter sequences than the example's, so that it takes no time.
train=train.json
sed "s|../../../LICENSE|$root/LICENSE|; s/\"sequence_length\": 128, \"microbatch_size\": 2/\"sequence_length\": 32, \"microbatch_size\": 1/" \
    "$root/models/studies/regression/train.json" >train.json
grep -q '"sequence_length": 32, ' train.json || fail 'the example is another one'
plan=$root/models/studies/regression/predict.json

"$dynmo" run "$train" --device cpu --clock nominal --iterations 60 --record trace.db >out 2>err ||
    fail "record: $(cat err)"
"$dynmo" simulate "$plan" --trace trace.db --store plan.db >out 2>err || fail "simulate: $(cat err)"
# A machine that is busy elsewhere may leave it undecided (exit 5): then another run is measured.
for run in 1 2 3 4 5; do
    rm -f run.db
    "$dynmo" run "$train" --device cpu --clock nominal --iterations 60 --store run.db >out 2>err ||
        fail "run $run: $(cat err)"
    "$dynmo" check --plan plan.db --measured run.db --tolerance 90% >out 2>err
    code=$?
    [ "$code" -eq 5 ] || break
done
[ "$code" -eq 0 ] || fail "green: $(cat out err)"
grep -q '^AGREES: none of ' out || fail "green: $(cat out)"

# Likewise where it leaves an op of the slow rank undecided.
for run in 1 2 3 4 5; do
    rm -f slow.db
    "$dynmo" run "$train" --device cpu --clock nominal --iterations 60 --slow 2=4 --store slow.db >out 2>err ||
        fail "slow run $run: $(cat err)"
    "$dynmo" check --plan plan.db --measured slow.db --tolerance 90% >out 2>err
    code=$?
    grep -q '^  [FBW] of stage 2 (rank 2) .* undecided$' out || break
done
[ "$code" -eq 4 ] || fail "red: $(cat out err)"
grep -q '^DEPARTS, first the F of stage 2 (rank 2)' out || fail "red: $(cat out)"
grep -q '^most likely cause (straggler-rank): rank 2 ' out || fail "red: $(cat out)"

# The run before also stands for the plan: did this change slow it down?
"$dynmo" check --plan run.db --measured slow.db --tolerance 90% --only-slower >out 2>err
[ $? -eq 4 ] || fail "run against run: $(cat out err)"
exit $failed
