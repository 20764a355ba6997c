# dynmo study and dynmo converge in shards: processes side by side, one of which is killed and started again,
# give after dynmo merge the bytes of one run; what is wrong or missing is said.
# Usage: shards.sh DYNMO
. cli/expect.sh

cat >study.json <<'STUDY'
{"schema":"dynmo-study/1","name":"grid","model":"gpt2","hardware":"h100-sxm","cluster":{"gpus":16},
 "training":{"iterations":2,"global_batch":64,"sequence_length":512,"microbatch_size":1,"data_parallel":"fill"},
 "pipeline":{"stages":2},
 "vary":{"pipeline.stages":[1,2,3,4,5,6,7,8],"training.microbatch_size":[1,2,4],
         "training.global_batch":[32,64,96,128,160,192,224,256]}}
STUDY

# shards NAME WORD...: the command in four shards, two at a time, the first of which is killed once; then as one
shards() {
    name=$1
    shift
    "$dynmo" "$@" --json >whole 2>err || fail "$name alone: $(cat err)"
    timeout -s KILL 0.03 "$dynmo" "$@" --shard 0/4 --store "$name.0.db" >out 2>err
    seq 0 3 | xargs -P 2 -I{} "$dynmo" "$@" --shard {}/4 --store "$name.{}.db" --threads 1 >out 2>err ||
        fail "$name in shards: $(cat err)"
    [ -s out ] && fail "$name: a shard answers: $(cat out)"
    [ "$(grep -c '^shard [0-3] of 4 is complete in ' err)" -eq 4 ] || fail "$name in shards says: $(cat err)"
    "$dynmo" merge -o "$name.db" "$name".[0-3].db >out 2>err || fail "$name merged: $(cat err)"
    grep -q ": 4 shards, [0-9]* results, in $name.db\$" out || fail "$name merged says: $(cat out)"
    "$dynmo" "$@" --json --store "$name.db" >out 2>err || fail "$name as one: $(cat err)"
    cmp -s whole out || fail "$name as one: another answer"
    "$dynmo" "$@" --json --store "$name.db" >out 2>err
    grep -q '^answered from run 1' err || fail "$name once more says: $(cat err)"
    cmp -s whole out || fail "$name once more: another answer"
}
shards grid study study.json --draws 20
shards rounds converge --nodes 32,64 --instances 300

"$dynmo" study study.json --draws 20 --shard 3/4 --store grid.3.db >out 2>err || fail "again: $(cat err)"
grep -q '^shard 3 of 4 is complete in grid.3.db: 48 items$' err || fail "a shard that is complete: $(cat err)"

# More threads than the machine gives: those that could be started do the work.
# Stacks of 1 GB in 4 GB of addresses, where the program can start in so few.
limits='ulimit -s 1000000 && ulimit -v 4000000'
if (eval "$limits" && "$dynmo" --version) >out 2>err; then
    (eval "$limits" && "$dynmo" study study.json --json --draws 20 --threads 12) >out 2>err ||
        fail "few threads: $(cat err)"
    "$dynmo" study study.json --json --draws 20 | cmp -s out - || fail 'few threads: another answer'
fi

subject=merge
refuse 2 'rounds.0.db: holds shards of another study than '"'grid'" -o x.db grid.0.db rounds.0.db
refuse 1 "2 of 4 shards of 'grid' missing: 1, 3" -o x.db grid.0.db grid.2.db
refuse 2 'grid.db: holds no shard' -o x.db grid.db
refuse 2 'dynmo merge: --output is needed' grid.0.db
[ -e x.db ] && fail 'shards are missing and x.db is written'

subject=study
for wrong in 4/4 -1/4 0/0 1 1/4x /4 ''; do
    refuse 2 "--shard: '$wrong' is not i/N with 0 <= i < N <= 1048576" study.json --store s.db --shard "$wrong"
done
refuse 2 '--shard needs --store' study.json --shard 0/4
refuse 2 'a shard plays a part of a study: without --csv' study.json --store s.db --shard 0/4 --csv x.csv
subject=converge

# A study may name a file from its own folder, and is found again when it has changed.
subject=study
echo '{"hidden_size":1}' >unused.json
sed 's/"name":"grid"/"name":"unused.json"/' study.json >named.json
for wanted in '' 'answered from run 1'; do
    "$dynmo" study named.json --draws 0 --store named.db --json >out 2>err || fail "named: $(cat err)"
    grep -q "^$wanted" err || [ -z "$wanted" ] || fail "named says: $(cat err)"
done
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0
export OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK
refuse 2 'started as one of 2 processes: each does a shard, which needs --store' study.json
exit "$failed"
