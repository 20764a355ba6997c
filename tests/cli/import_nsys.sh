# import nsys: what is said of exports of Nsight Systems, what is stored, and what is refused. How ranges
# are attributed is tested in tests/traces/test_nsys.c.
# Usage: import_nsys.sh DYNMO
# shellcheck disable=SC2016 # nothing is expanded in messages
seeds=$(pwd)/fuzz/seeds/fuzz_nsys
. cli/expect.sh

subject='import nsys'
cp "$seeds/ranges" run.sqlite || exit 1
prints 'trace '"'run'"' in t.db: 1 layer, 1 microbatch, 1 iteration (3 to 3), 1 rank; names of torch.distributed.pipelining
rank 0 (by the order of the files: it does not say): 10 events, 3 GPU operations: 2 attributed, 1 outside windows, 0 without launch
B and W were not told apart; schedules that split the backward need --backward-split
replay: 900 ns, recorded 900 ns: error +0.0 %; compute alone 100 ns
charged to ops: host 100 ns (11.1 %), exposed communication 40 ns (4.4 %)
outside ops: host 580 ns (64.4 %), launch 50 ns (5.6 %), work outside annotations 30 ns (3.3 %)' run.sqlite -o t.db
cmp run.sqlite "$seeds/ranges" || fail 'the export was changed'
for left in run.sqlite-*; do
    [ ! -e "$left" ] || fail "$left was left behind"
done
refuse 2 'dynmo import nsys: --output is needed' run.sqlite
refuse 1 'absent.sqlite: No such file or directory' absent.sqlite -o t.db
refuse 2 "$seeds/text: file is not a database" "$seeds/text" -o t.db
truncate -s 200G large || exit 1
refuse 2 'large: file is not a database' large -o t.db
refuse 2 "$seeds/column_missing: no such column: globalPid: record with "'`nsys profile -t cuda,nvtx` and export with `nsys export --type sqlite`' \
    "$seeds/column_missing" -o none.db
refuse 2 "$seeds/view_in_place_of_a_table: has no table CUPTI_ACTIVITY_KIND_KERNEL: no GPU did anything while it was recorded, or "'`nsys profile -t cuda,nvtx` was not asked for cuda' \
    "$seeds/view_in_place_of_a_table" -o none.db
refuse 2 'rank 0 and rank 1 both ran F of layer 0, microbatch 0 in iteration 3: import the ranks of one pipeline (of one data-parallel replica)' \
    run.sqlite run.sqlite -o none.db
[ ! -e none.db ] || fail 'a refused import made a store'
exit "$failed"
