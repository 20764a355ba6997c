# dynmo report of a study: the page says what the study answered, with its figures, and nothing that could
# be taken for HTML.
# Usage: study_report.sh DYNMO
. cli/expect.sh

cat >study.json <<'STUDY'
{"schema":"dynmo-study/1","name":"stages & <schedules>","model":"gpt2","hardware":"h100-sxm",
 "cluster":{"gpus":16,"price_per_gpu_hour":2.5,"price_date":"2026-11-22"},
 "training":{"iterations":2,"global_batch":64,"sequence_length":512,"microbatch_size":1,"data_parallel":"fill","tokens":1000000000},
 "pipeline":{"stages":2},
 "vary":{"pipeline.stages":[2,4,16],"pipeline.schedule":["1f1b","zb-h1"]}}
STUDY
"$dynmo" study study.json --store s.db --draws 20 >out 2>err || fail "study: $(cat err)"
"$dynmo" report s.db -o page.html >out 2>err || fail "report: $(cat err)"

# has TEXT...: the page has each
has() {
    for text in "$@"; do
        grep -qF -- "$text" page.html || fail "the page lacks: $text"
    done
}
has '<title>stages &amp; &lt;schedules&gt;</title>' '<p class="lead">Fastest: point ' \
    '6 points on 2 axes' 'rank  point  stages  schedule' 'more stages than layers; point 4' \
    'What to measure next' 'How sure' 'given     training.global_batch' \
    '<td>command</td>' 'study.json ('
grep -q '<script\|http://[^w]\|https://' page.html && fail 'the page fetches something'
if command -v gnuplot >/dev/null; then
    [ "$(grep -c '<svg' page.html)" -eq 1 ] || fail 'the page has not one figure'
    has 'Pareto set' 'hours of the whole training'
fi

# The page of a study without draws has no error bars, and says nothing of them.
"$dynmo" study study.json --store s.db --draws 0 >out 2>err || fail "study: $(cat err)"
"$dynmo" report s.db --run 2 -o page.html >out 2>err || fail "report: $(cat err)"
grep -q 'What to measure next' page.html && fail 'without draws there is something to measure'

subject=report
refuse 2 "the run holds nothing to draw as 'bubble'" s.db --figure bubble
refuse 2 "s.db: no run '7'" s.db --run 7
exit "$failed"
