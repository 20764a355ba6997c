# Checking runs against plans and against each other: what agrees, what departs and why, what is
# undecided, and what is refused. All runs are of the nominal clock, which no machine's load changes.
# usage: check.sh DYNMO, in tests/
. cli/expect.sh

cat >study.json <<'END'
{"schema":"dynmo-study/1","name":"gpt","model":"gpt-dynmo","hardware":"h100-dynmo",
 "cluster":{"links":{"intra":{"latency_ns":20000,"bytes_per_s":100000000000}}},
 "training":{"iterations":40,"sequence_length":2048,"microbatches":16,"layers":24},
 "pipeline":{"stages":4,"schedule":"zb-h1"},
 "balancing":[{"balancer":"partition"}]}
END

# run_into STORE STUDY WORD...: executes a study into a store
run_into() {
    store=$1
    shift
    rm -f "$store"
    "$dynmo" run "$@" --store "$store" >out 2>err || fail "run $*: $(cat err)"
}

# finds CODE CAUSE WORD...: a check exits so, for this cause
finds() {
    code=$1 cause=$2
    shift 2
    "$dynmo" check "$@" --json >found.json 2>err
    found=$?
    [ "$found" -eq "$code" ] || fail "check $*: exit $found instead of $code: $(cat err)"
    grep -q "\"cause\":{\"kind\":\"$cause\"" found.json ||
        fail "check $*: not $cause: $(sed 's/.*"cause"://; s/"notes".*//' found.json)"
}

# says PATTERN: the check before says so
says() {
    grep -q -- "$1" found.json || fail "the check does not say $1: $(cut -c 1-1500 found.json)"
}

"$dynmo" simulate study.json --store plan.db >/dev/null || fail simulate
run_into run.db study.json

# Plan against run, run against run, a prediction against either, and plan against plan.
finds 0 none --plan plan.db --measured run.db
says '"verdict":"agrees"'
finds 0 none --plan run.db --measured run.db
finds 0 none --plan study.json --measured run.db
finds 0 none --plan study.json --measured plan.db:1

# A slow rank; also one that becomes slow later.
sed 's/"cluster":{/"cluster":{"slow_ranks":[{"rank":1,"speed":0.8}],/' study.json >slow.json
run_into slow.db slow.json
finds 4 straggler-rank --plan plan.db --measured slow.db
says '"rank":1,"factor":1.25'
says '"first":{"group":"op","name":"F of stage 1 (rank 1)"'
finds 4 straggler-rank --plan slow.db --measured run.db
finds 0 none --plan slow.db --measured run.db --only-slower
sed 's/"speed":0.8}/"speed":0.8,"from":20}/' slow.json >late.json
run_into late.db late.json
finds 4 straggler-rank --plan plan.db --measured late.db
says '"since":20,'

# All links slow.
sed 's/"latency_ns":20000/"latency_ns":2000000/' study.json >links.json
run_into links.db links.json
finds 4 slow-link --plan plan.db --measured links.db

# What is written for people and for machines.
"$dynmo" check --plan plan.db --measured slow.db --junit report.xml >words
[ $? -eq 4 ] || fail 'exit code with words'
grep -q '^most likely cause (straggler-rank): rank 1 is a straggler' words || fail "$(cat words)"
python3 -c 'import sys, xml.dom.minidom as m
suite = m.parse("report.xml").getElementsByTagName("testsuite")[0]
cases = suite.getElementsByTagName("testcase")
failures = suite.getElementsByTagName("failure")
sys.exit(int(suite.getAttribute("tests")) != len(cases) or not failures
         or int(suite.getAttribute("failures")) != len(failures))' || fail 'the JUnit report'

# Too few iterations.
sed 's/"iterations":40/"iterations":5/' study.json >few.json
run_into few.db few.json
finds 2 none --plan plan.db --measured few.db
says '"verdict":"undecided"'
grep -q 'undecided' err || fail "no word about what is undecided: $(cat err)"

# What cannot be compared.
subject=check
sed 's/"layers":24/"layers":20/' study.json >other.json
"$dynmo" check --plan other.json --measured run.db >out 2>err
[ $? -eq 2 ] || fail 'other layers'
grep -q 'not the same training: .* layers in other.json' err || fail "other layers: $(cat err)"
refuse 2 'dynmo check: --plan is needed' --measured run.db
refuse 2 'dynmo check: --measured is needed' --plan plan.db
refuse 1 '--plan none.db: No such file' --plan none.db --measured run.db
refuse 2 '--tolerance 0 is outside (0 %, 100 %); 5% and 0.05 are the same' \
    --plan plan.db --measured run.db --tolerance 0
refuse 2 '--tolerance -1 is outside (0 %, 100 %); 5% and 0.05 are the same' \
    --plan plan.db --measured run.db --tolerance -1
refuse 2 '--tolerance 1000% is outside (0 %, 100 %); 5% and 0.05 are the same' \
    --plan plan.db --measured run.db --tolerance 1000%
"$dynmo" check --plan plan.db --measured run.db --tolerance NaN >out 2>err
[ $? -eq 2 ] || fail 'a tolerance that is no number'
grep -q -- '--tolerance' err || fail "a tolerance that is no number: $(cat err)"
refuse 2 "--ignore: unknown 'ops'; did you mean 'op'?" --plan plan.db --measured run.db --ignore ops
"$dynmo" import csv "$OLDPWD/../traces/recorded/gpt-freezing-cpu.csv.gz" -o trace.db >/dev/null 2>&1
refuse 2 'trace.db: holds no runs; dynmo simulate --store and dynmo run --store put them there' \
    --plan trace.db --measured run.db
exit $failed
