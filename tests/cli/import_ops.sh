# import ops and stragglers: what they say of a small run, what they refuse, and the published jobs
# against what the tool published with them says, where they are at hand.
# Usage: import_ops.sh DYNMO
seeds=$(cd "$(dirname "$0")/../fuzz/seeds/fuzz_ops" && pwd)
real=$(cd "$(dirname "$0")/../../../shared/data/real" 2>/dev/null && pwd)
. cli/expect.sh

cp "$seeds/run.csv" "$seeds/run.csv.gz" "$seeds/run.json" .
prints "trace 'run' in r.db: 2 steps (3 to 4) of 2 replicas x 2 stages, 2 microbatches, 88 ops of 7 kinds
a step took 111 ms; replayed as recorded 111 ms, off by 0.00 % in the median, 0.00 % at most; without launch delays 111 ms" \
    import ops run.csv.gz -o r.db
"$dynmo" import ops run.csv --name plain -o r.db >/dev/null || fail 'plain CSV'
"$dynmo" import ops run.json --name json -o r.db >/dev/null || fail 'JSON'
"$dynmo" stragglers r.db --trace run --json >one
"$dynmo" stragglers r.db --trace plain --json >two
cmp one two || fail 'gzip and plain differ'
"$dynmo" show r.db --loads --trace json >/dev/null || fail 'show of a run of ops'
"$dynmo" show r.db --loads --trace run >/dev/null || fail 'loads of a run of ops'

"$dynmo" stragglers r.db --trace run --timeline steps.json --step 4 --heat-map workers.svg >/dev/null || fail 'pictures'
"$dynmo" stragglers r.db --trace run --timeline steps.json --step 4 >/dev/null || fail 'pictures again'
[ "$(grep -c '"name":"step 4, ' steps.json)" -eq 2 ] || fail 'the timelines are not recorded and ideal'
grep -q 'stage 1</text>' workers.svg || fail 'the heat map has no stages'
"$dynmo" report r.db -o page.html || fail 'report of a run of ops'
[ "$(grep -c '>step [34], recorded: \|>step [34], ideal: \|>slowdown by each worker\|^slowdown [0-9.]*: 2 steps' page.html)" -ge 3 ] ||
    fail 'the report has no timelines or heat map'
"$dynmo" report r.db --figure timeline 2>&1 | grep -q "holds no complete run" || fail "a figure of a run of ops"
# A first step of which all takes twice as long is warm-up; of steps that do not follow each other that is not known.
awk -F, -v OFS=, '$4 == 3 { $6 *= 2; $7 *= 2 } { print }' "$seeds/run.csv" >cold.csv
sed 's/^\([^,]*,[^,]*,[^,]*\),4,/\1,9,/' cold.csv >apart.csv
for name in cold apart; do
    "$dynmo" import ops $name.csv --name $name -o r.db >/dev/null || fail "import of $name.csv"
    "$dynmo" stragglers r.db --trace $name >$name.txt || fail "stragglers of $name.csv"
done
grep -qx 'note: most ops of step 3 take 2.00 times as long as those of step 4: it is left out as warm-up' cold.txt || fail "cold: $(cat cold.txt)"
grep -q '^slowdown [0-9.]*: 1 step of' cold.txt || fail 'a cold step counts'
grep -qx 'note: most ops of step 3 take 2.00 times as long as those of step 9: warm-up, or a model that changed' apart.txt || fail "apart: $(cat apart.txt)"
grep -q '^slowdown [0-9.]*: 2 steps of' apart.txt || fail 'a step of another model is left out'
"$dynmo" stragglers r.db --trace cold --json | grep -q '^{"cold_step":3,"cold_factor":2,' || fail 'JSON of a cold step'
grep -q '^note' one && fail 'a run without warm-up has some'
refuse 2 "--step: 5 is none of the 2 steps, 3 to 4" stragglers r.db --trace run --timeline x.json --step 5
refuse 2 "--layers: 3 numbers, the run has 2 stages" stragglers r.db --trace run --layers 1,2,3
[ ! -e x.json ] || fail 'a refusal left a timeline'

sed 's/forward-send,0.011000,0.001000/forward-sent,0.011000,0.001000/' run.csv >bad.csv
refuse 2 "bad.csv: step 3, replica 0, stage 0: 1 sends beside 2 ops that make a message: they cannot be matched" \
    import ops bad.csv -o new.db
head -c 300 run.csv.gz >cut.csv.gz
refuse 2 "cut.csv.gz: gzip data ends early: the file is truncated" import ops cut.csv.gz -o new.db
printf 'step,stage,kind,start_s,duration_s\n0,0,forward,0,x\n' >text.csv
refuse 2 "text.csv:2: duration: 'x' is no number or too large" import ops text.csv -o new.db
refuse 2 "columns: unknown 'stepp'; did you mean 'step'?" \
    import ops run.csv -o new.db --columns stepp=x
refuse 2 "dynmo import ops: --output is needed" import ops run.csv
[ ! -e new.db ] || fail 'a refusal left a store'

# diagnose names what is neither data nor layers: of three replicas one has a first stage that takes 1.4 times as long.
awk 'function put(kind, m, begin) { printf "%d,%d,%d,%s,%d,%.6f,%.6f\n", step, replica, stage, kind, m, at + begin, long }
    function later(a, b) { return a > b ? a : b }
    BEGIN {
        print "step,dp_rank,stage,optype,mb_id,start_ts,duration"
        for (step = 0; step < 24; step++) for (replica = 0; replica < 3; replica++) {
            at = step
            for (m = 0; m < 4; m++) {
                stage = 0; long = 0.01 * (1 + 0.4 * (replica == 1)); begin = m * long; put("forward-compute", m, begin)
                stage = 1; end = later(end * (m > 0), begin + long); long = 0.01; put("forward-compute", m, end); end += long
            }
            for (m = 0; m < 4; m++) {
                stage = 1; long = 0.02; put("backward-compute", m, end); end += long
                stage = 0; first = later(first * (m > 0), end); long = 0.02 * (1 + 0.4 * (replica == 1))
                put("backward-compute", m, first); first += long
            }
            for (stage = 0; stage < 2; stage++) { long = 0.001; put("grads-reduce-scatter", 0, 0.3) }
        }
    }' >slow.csv
"$dynmo" import ops slow.csv -o slow.db >/dev/null || fail 'ops of a slow worker'
"$dynmo" diagnose slow.db --json >slow.json || fail 'diagnose of a slow worker'
grep -q '"causes":\[{"cause":"slow worker","evidence":"1 of 6 workers .*replica 1, stage 0 takes 1.40 times.*"mend_first":"worker"' slow.json ||
    fail "diagnose does not name the slow worker: $(cat slow.json)"
"$dynmo" diagnose slow.db | grep -q '^  mend first  *the slow worker$' || fail 'diagnose does not mend it first'

# Ops say which name is theirs by its number.
"$dynmo" import ops run.csv -o gap.db >/dev/null || fail 'a store to be damaged'
python3 -c "import sqlite3; s = sqlite3.connect('gap.db'); s.execute('DELETE FROM op_name WHERE name=1'); s.commit()"
refuse 2 "gap.db: column text holds 'nothing', not what it should" stragglers gap.db
refuse 2 "gap.db: column text holds 'nothing', not what it should" diagnose gap.db

[ -n "$real" ] || exit "$failed"
for job in ST SE; do
    "$dynmo" import ops "$real/stragglers_$job.csv.gz" -o real.db --json >$job.import || fail "import $job"
    "$dynmo" stragglers real.db --trace stragglers_$job --json >$job.json || fail "stragglers $job"
    mended=layers
    [ $job = ST ] || mended=data # the mean over the replicas, which are 32, hides it
    "$dynmo" diagnose real.db --trace stragglers_$job --json | grep -q "\"mend_first\":\"$mended\"" ||
        fail "diagnose of $job mends no $mended"
    python3 - "$job" "$real/stragglers_$job.expected.json" <<'EOF' || fail "$job is not as published"
import json
import sys

job, path = sys.argv[1:]
found = json.load(open(job + ".json"))
wanted = json.load(open(path))
bad = []


def close(what, a, b, tolerance=0.01):
    if abs(a / b - 1) > tolerance:
        bad.append((what, a, b))


for step in found["steps"]:
    name = str(step["step"])
    close(("recorded", name), step["recorded_ns"] / 1e9, wanted["step_t_base"][name], 1e-6)
    close(("replayed", name), step["replayed_ns"] / 1e9, wanted["step_t_nodelay"][name], 1e-5)
    close(("ideal", name), step["ideal_ns"] / 1e9, wanted["step_t_noblk"][name])
    for key, of in (("by_stage", "stage"), ("by_replica", "dp_rank"), ("by_kind", "optype")):
        for part, value in wanted[f"blocking_decompose_by_{of}_per_step"][name].items():
            mine = step[key][part if key == "by_kind" else int(part)]
            close((key, part, name), mine, value)
cause = {"ST": "last stage too long", "SE": "sequence lengths"}[job]
if [each["cause"] for each in found["causes"]] != [cause]:
    bad.append(("causes", found["causes"]))
if job == "ST":
    close("slowdown", found["slowdown"], wanted["blocking_slowdown"], 1e-5)
    close("worker_share", found["worker_share"], wanted["M_W"]["Mw"], 1e-3)
    close("stage_share", found["stage_share"], wanted["M_S"]["Ms"], 1e-4)
replay = json.load(open(job + ".import"))
if replay["error_median"] > 0.005 or len(found["steps"]) != len(wanted["steps"]):
    bad.append(("replay", replay["error_median"]))
print(bad[:5])
sys.exit(bool(bad))
EOF
done
exit "$failed"
