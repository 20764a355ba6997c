# dynmo study prints the same bytes on any number of processes and threads, also from a store that another
# number has begun, and a wrong study is refused once.
# Usage: mpi_study.sh DYNMO, in tests/
launch=$(pwd)/mpi/launch
. cli/expect.sh

cat >study.json <<'STUDY'
{"schema":"dynmo-study/1","name":"grid","model":"gpt2","hardware":"h100-sxm","cluster":{"gpus":16},
 "training":{"iterations":2,"global_batch":64,"sequence_length":512,"microbatch_size":1,"data_parallel":"fill"},
 "pipeline":{"stages":2},
 "vary":{"pipeline.stages":[1,2,3,4,5,6,7,8],"training.microbatch_size":[1,2,4],
         "training.global_batch":[32,64,96,128,160,192,224,256]}}
STUDY
"$dynmo" study study.json --json --threads 1 >whole 2>err || fail "alone: $(cat err)"

# same RANKS WORD...
same() {
    ranks=$1
    shift
    "$launch" "$ranks" "$dynmo" study study.json --json "$@" >out 2>err
    code=$?
    if [ $code -eq 77 ]; then cat out && exit 77; fi
    if grep 'this build has no MPI' err; then exit 77; fi
    [ $code -eq 0 ] || fail "$ranks ranks, $*: $(cat err)"
    cmp -s whole out || fail "$ranks ranks, $*: another answer"
}
same 1
same 2 --threads 1
same 4 --threads 2
same 8
grep -q 'of 8 ranks$' err || fail "8 ranks say: $(cat err)"
same 2 --store s.db
same 3 --store s.db
grep -q '^answered from run 1 of s.db' err || fail "from the store: $(cat err)"

"$launch" 3 "$dynmo" study absent.json >out 2>err && fail 'an absent study is played'
[ "$(grep -c '^dynmo: absent.json: No such file or directory' err)" -eq 1 ] || fail "absent: $(cat err)"
exit "$failed"
