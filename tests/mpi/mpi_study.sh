# dynmo study under a launcher: every rank plays a shard, rank 0 answers with the bytes of one process, also after
# a rank was killed, and from a store that is complete.
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
    [ $code -eq 0 ] || fail "$ranks ranks, $*: $(cat err)"
    cmp -s whole out || fail "$ranks ranks, $*: another answer"
}
same 1
same 2 --threads 1 --store s.db
same 3 --store s.db
grep -q '^answered from run 1 of s.db' err || fail "from the store: $(cat err)"
[ -e s.db.shard-0-of-3 ] && fail 'from the store: shards are played'
same 4 --threads 2 --store t.db

# A rank that is killed ends all; the same command goes on.
export dynmo
# shellcheck disable=SC2016 # for the shell of each rank
"$launch" 3 sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then sleep 0.3; kill -KILL $$; fi
    exec "$dynmo" study study.json --json --store k.db' >out 2>err && fail 'a rank is killed and all is well'
[ -s out ] && fail 'a rank is killed and there is an answer'
same 3 --store k.db

"$launch" 3 "$dynmo" study absent.json --store a.db >out 2>err && fail 'an absent study is played'
grep -q '^dynmo: absent.json: No such file or directory' err || fail "absent: $(cat err)"
"$launch" 2 "$dynmo" study study.json >out 2>err && fail 'two processes without a store'
grep -q '^dynmo: started as one of 2 processes: each does a shard, which needs --store' err ||
    fail "without a store: $(cat err)"
exit "$failed"
