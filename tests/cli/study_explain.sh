# study --explain: a chain that can be added up by hand, which points can be named, and the refusals.
# Usage: study_explain.sh DYNMO
. cli/expect.sh
subject=study

cat >two.csv <<'END'
# dynmo-trace/1
# device=cuda
iteration,microbatch,layer,phase,busy_ns,communication_ns
0,0,0,F,10000,
0,0,0,B,20000,
0,0,0,W,5000,
0,0,1,F,10000,
0,0,1,B,20000,
0,0,1,W,5000,
END
"$dynmo" import csv two.csv -o two.db 2>/dev/null >/dev/null || fail 'import csv two.csv'
cat >study.json <<'END'
{"schema": "dynmo-study/1", "name": "two layers", "trace": "two.db",
 "cluster": {"gpus_per_node": 2, "links": {"intra": {"latency_ns": 1000, "bytes_per_s": 1000000000000}, "inter": {"latency_ns": 1000, "bytes_per_s": 1000000000000}}},
 "training": {"microbatches": 1},
 "pipeline": {"stages": 2, "schedule": "zb-h1"},
 "vary": {"pipeline.stages": [2, 1, 3], "pipeline.schedule": ["zb-h1", "1f1b"]}}
END

# F 10, message 1, F 10, B 20, message 1, B 20, W 5: 67 us, in which both ranks work 35.
"$dynmo" study study.json --explain 0 --json >out 2>err || fail 'explain 0'
for word in '"iteration_ns":6.7e+04' '"communication":0.02985' '"iteration":0' \
    '"stages":[{"first_layer":0,"end_layer":1,"work_ns":35000},{"first_layer":1,"end_layer":2,"work_ns":35000}]'; do
    grep -qF "$word" out || fail "no $word in $(cat out)"
done

for word in best reference; do
    "$dynmo" study study.json --explain $word >out 2>err || fail "explain $word"
    head -n 1 out | grep -q '^point 0 (stages 2, schedule zb-h1)$' || fail "$word: $(head -n 1 out)"
    grep -q '^  work  *52.2 %$' out || fail "$word: $(cat out)"
done

refuse 3 'pipeline.stages: 3 stages of 1 chunks need at least 3 layers, there are 2' study.json --explain 4
refuse 2 '--explain: 6 is outside [0, 5]' study.json --explain 6
refuse 2 "--explain: 'worst' is not an integer" study.json --explain worst
refuse 2 '--explain answers alone: without --csv' study.json --explain best --csv points.csv
exit $failed
