# import csv: what it says, what it refuses, and that a refusal leaves no file and no trace.
# Usage: import_csv.sh DYNMO
recorded=$(cd "$(dirname "$0")/../../traces/recorded" && pwd)
. cli/expect.sh

cp "$recorded/gpt-freezing-cpu.csv.gz" .
# What the host did between ops is in no row, and the import says so.
replay="replay: 27.9 s, recorded 33.7 s: error -17.3 %; compute alone 27.9 s
left out of ops: host 1.47 s (2.2 %)
left out: host 6.85 s (10.2 %), exposed communication 2.10 s (3.1 %), waiting 4.04 s (6.0 %)
warning: the replay is -17.3 % off what was recorded, most by host (--gaps charge keeps it)"
prints "trace 'gpt-freezing-cpu' in r.db: 16 layers x 4 microbatches, 240 sampled iterations from 0 to 239
$replay" import csv gpt-freezing-cpu.csv.gz -o r.db
refuse 2 "r.db: has a trace 'gpt-freezing-cpu' already (complete)" \
    import csv gpt-freezing-cpu.csv.gz -o r.db

# Kept, it is played: within ops, and once an iteration what passes between them.
prints "trace 'kept' in k.db: 16 layers x 4 microbatches, 240 sampled iterations from 0 to 239
replay: 33.7 s, recorded 33.7 s: error +0.0 %; compute alone 27.9 s
charged to ops: host 1.47 s (2.2 %)
outside ops: host 6.85 s (10.2 %), exposed communication 2.10 s (3.1 %), waiting 4.04 s (6.0 %)" \
    import csv gpt-freezing-cpu.csv.gz --gaps charge --name kept -o k.db
for store in r k; do
    echo "{\"schema\":\"dynmo-study/1\",\"trace\":\"$store.db\",\"pipeline\":{\"stages\":2}}" >$store.json
    "$dynmo" simulate $store.json --json | grep -o '"iteration_mean_ns":[0-9]*' | head -n 1 | cut -d: -f2 >$store.ns
done
awk 'NR == 1 { left = $1 } NR == 2 { kept = $1 } END { exit !(kept > 1.15 * left) }' r.ns k.ns || fail "time outside ops"

gzip -dc gpt-freezing-cpu.csv.gz >whole.csv
prints '{"trace":"again","trace_id":2,"layers":16,"microbatches":4,"sampled_iterations":240,"first_iteration":0,"last_iteration":239,"backward_split":"measured","replay":{"recorded_ns":33678121529,"replayed_ns":27862055446,"error_ratio":-0.17269567953758425,"compute_ns":27862055446,"ranks_ns":67356243058,"charged_ns":{"host":1472072652},"outside_ops_ns":{"host":6846125020,"exposed_communication":2100992186,"waiting":4038251771}}}' \
    import csv - --name again -o r.db --json <whole.csv

# The same rows as two ranks would have written them, and from the last to the first.
grep '^#' whole.csv >head.csv
grep '^iteration' whole.csv >>head.csv
for rank in 0 1; do
    { cat head.csv; grep '^[0-9]' whole.csv | awk -F, -v rank=$rank '$5 == rank' | sort -t, -k1,1nr; } >"rank$rank.csv"
done
prints "trace 'rank1' in r.db: 16 layers x 4 microbatches, 240 sampled iterations from 0 to 239
$replay" import csv rank1.csv rank0.csv -o r.db
"$dynmo" show r.db --loads --trace again --json >one
"$dynmo" show r.db --loads --trace rank1 --json >two
cmp one two || fail 'the loads of two ranks differ from those of one file'

printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n0,0,F,10\n0,0,BW,21\n' >full.csv
prints "trace 'full' in f.db: 1 layer, 1 sampled iteration from 0 to 0
B and W were not told apart; schedules that split the backward need --backward-split" \
    import csv full.csv -o f.db
prints "trace 'half' in f.db: 1 layer, 1 sampled iteration from 0 to 0" \
    import csv full.csv -o f.db --name half --backward-split 0.5
refuse 2 "a trace name holds a control character" \
    import csv full.csv -o n.db --name "a
b"
refuse 2 "--backward-split: 2 is outside [0, 1]" \
    import csv full.csv -o f.db --backward-split 2

{ echo '# dynmo-trace/1' && seq -f '# k%.0f=v' 1001 && echo 'iteration,layer,phase,busy_ns'; } >notes.csv
refuse 2 "notes.csv:1002: more than 1000 lines '# key=value' of other keys" import csv notes.csv -o new.db
printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n0,0,F,10\n0,1,F,x\n' >bad.csv
refuse 2 "bad.csv:4: busy_ns: 'x' is not an integer" import csv bad.csv -o new.db
refuse 2 "rank0.csv:10: iteration 239 microbatch 0 layer 0: F is given twice" \
    import csv whole.csv rank0.csv -o new.db
head -c 100000 gpt-freezing-cpu.csv.gz >cut.csv.gz
refuse 2 "cut.csv.gz: gzip data ends early: the file is truncated" import csv cut.csv.gz -o new.db
refuse 1 "absent.csv: No such file or directory" import csv absent.csv -o new.db
refuse 1 "absent/r.db: No such file or directory" import csv full.csv -o absent/r.db
refuse 2 "full.csv: not a SQLite file" import csv whole.csv -o full.csv
refuse 2 "dynmo import csv: --output is needed" import csv full.csv
refuse 2 "usage: dynmo import csv FILE[.gz]... -o TRACE.db [--name NAME] [--backward-split X] [--gaps charge|leave] [--json]" \
    import csv -o new.db
for left in new.db*; do
    [ ! -e "$left" ] || fail "left behind: $left"
done
refuse 2 "bad.csv:4: busy_ns: 'x' is not an integer" import csv bad.csv -o f.db
[ "$("$dynmo" show f.db | grep -c complete)" -eq 2 ] || fail 'a refusal changed the store'
exit "$failed"
