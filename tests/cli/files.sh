# Files that commands are given: each may be named by its bare name, from here or from the root, in a
# study and on the command line, with a store and without; none is written by the command that reads
# it, whatever the name; and what a killed command left is taken up by the next.
# Usage: files.sh DYNMO, in tests/
root=$(cd .. && pwd)
. cli/expect.sh

mkdir in
gzip -dc "$root/traces/recorded/gpt-freezing-cpu.csv.gz" >in/t.csv
"$dynmo" import csv in/t.csv -o in/t.db >/dev/null || fail 'import'
cp "$root/analysis/calibration/example.csv" in/runs.csv
cp "$root/tests/traces/kineto/gpu.json" "$root/models/configs/gpt2.json" "$root/models/hardware/h100-sxm.json" in
echo '{"forward_ns":[3,2,2,3],"backward_input_ns":[3,2,2,3],"backward_weight_ns":[1,1,1,1]}' >in/loads.json
echo '{"forward_ns":[3,3],"backward_input_ns":[3,3],"backward_weight_ns":[1,1]}' >in/costs.json
"$dynmo" plan --loads in/loads.json --stages 2 --balancer partition --schedule 1f1b --microbatches 4 \
    -o in/plan.json >/dev/null || fail 'plan'
cp "$root/README.md" in/text
rest='"pipeline":{"stages":2},"balancing":[{"balancer":"even"},{"balancer":"partition","policy":"on-change"}]}'
# studies NAME FOLDER: in in/, naming their files below FOLDER
studies() {
    echo "{\"schema\":\"dynmo-study/1\",\"trace\":\"$2t.db\",\"training\":{\"iterations\":2},$rest" >"in/$1-trace.json"
    echo "{\"schema\":\"dynmo-study/1\",\"trace\":{\"store\":\"$2t.db\",\"model\":\"$2gpt2.json\"},
 \"hardware\":\"$2h100-sxm.json\",\"training\":{\"iterations\":2},$rest" >"in/$1-both.json"
    echo "{\"schema\":\"dynmo-study/1\",\"model\":{\"base\":\"$2gpt2.json\",\"n_layer\":4},
 \"hardware\":{\"base\":\"$2h100-sxm.json\",\"gpus_per_node\":4},
 \"training\":{\"iterations\":2,\"microbatches\":4},$rest" >"in/$1-model.json"
}
studies bare ''
studies relative ../in/
studies absolute "$work/in/"

# answers KIND NAME COMMAND STORE: of the study named from its folder, from here and from the root
answers() {
    for place in "in:$2-$1.json" ".:in/$2-$1.json" ".:$work/in/$2-$1.json"; do
        rm -f "$work/kept.db"
        # shellcheck disable=SC2086 # the option and its value
        (cd "${place%%:*}" && "$dynmo" "$3" "${place#*:}" --json $4 2>"$work/err") ||
            fail "$3 of $place $4: $(cat err)"
    done
}
for kind in trace both model; do
    for command in 'simulate' 'study' 'run'; do
        row=$([ "$command" = run ] && echo '--row even')
        for store in "$row" "$row --store $work/kept.db"; do
            for name in bare relative absolute; do
                answers $kind $name $command "$store"
            done | sed "s#,.overhead_ns.*##; s#\(\.\./in/\|$work/in/\|in/\)##g; s/\(bare\|relative\|absolute\)-//g" | sort -u >told
            [ "$(wc -l <told)" -eq 1 ] || fail "$command of $kind $store: $(wc -l <told) answers"
        done
    done
done

"$dynmo" run in/bare-model.json --row even --store in/r.db >/dev/null || fail 'run'
"$dynmo" study in/bare-model.json --shard 0/1 --store in/0.db 2>err || fail "shard: $(cat err)"
cat >in/learn.json <<'END'
{"schema":"dynmo-study/1","model":{"base":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":256},
 "hardware":"h100-sxm","training":{"iterations":2,"sequence_length":16,"microbatches":2},
 "pipeline":{"stages":2},"execution":{"text":"text","mechanism":{"name":"moe","expert_count":4}},"balancing":[{"balancer":"even"}]}
END

# Every option that names a file to make, pointed at every file that the command reads, by a link.
mkdir links hard
ln in/* hard
cp -R in before
while read -r inputs words; do
    for input in $(echo "$inputs" | tr , ' '); do
        for name in "in/$input" "links/$input" "$work/hard/$input"; do
            ln -sf "../in/$input" links
            # shellcheck disable=SC2086 # words
            "$dynmo" $words "$name" >out 2>err </dev/null
            code=$?
            if [ $code -ne 2 ] || ! grep -q 'is read here, so it cannot be written' err; then
                fail "dynmo $words $name: exit $code: $(cat err)"
            fi
            [ ! -s out ] || fail "dynmo $words $name prints $(head -c 80 out)"
        done
    done
done <<'END'
r.db report in/r.db -o
r.db export perfetto in/r.db -o
plan.json export pytorch in/plan.json -o
loads.json plan --loads in/loads.json --stages 2 --balancer partition --schedule 1f1b --microbatches 4 -o
costs.json schedule --costs in/costs.json --schedule 1f1b --stages 2 --microbatches 4 --json --timeline
bare-model.json,gpt2.json,h100-sxm.json study in/bare-model.json --csv
bare-trace.json,t.db study in/bare-trace.json --csv
runs.csv calibrate in/runs.csv -o
learn.json,text run in/learn.json --device cpu --text in/text --counts
t.csv import csv in/t.csv -o
gpu.json import kineto in/gpu.json -o
0.db merge in/0.db -o
END
# The file beside an output, and standard input, are inputs, too; one file is written by one option.
# refused NAMED COMMAND: exit 2, with these words in the message
refused() {
    named=$1
    shift
    "$dynmo" "$@" >out 2>err
    code=$?
    if [ $code -ne 2 ] || ! grep -q -e "$named" err; then fail "dynmo $*: exit $code: $(cat err)"; fi
}
for name in r.db loads.json bare-model.json; do
    ln -s "$work/in/$name" "$name.partial"
done
cp in/r.db mine.partial
refused 'mine.partial: is read here' report mine.partial -o mine
refused 'r.db.partial: is read here' report in/r.db -o r.db
loads=in/loads.json
refused 'loads.json: is read here' plan --loads - --stages 2 --balancer partition --schedule 1f1b \
    --microbatches 4 -o "$loads" <in/loads.json
for other in T ./T "$work/in/../T" T.partial; do
    refused '--csv and --store would both write T' study in/bare-model.json --csv T --store "$other"
    refused '--csv and --output\|--output and --csv' study --model gpt2 -o "$other" --csv T
done
refused '--timeline and --heat-map would both write Z' stragglers in/r.db --timeline Z --heat-map Z
for written in T T.partial Z; do
    [ ! -e "$written" ] || fail "$written is refused and written"
done
rm ./*.partial
diff -r before in >&2 || fail 'an input was changed'

# What a killed command left beside an output is gone after the next.
"$dynmo" report in/r.db -o page.html || fail 'report'
cp page.html page.html.partial
chmod 640 page.html
ln -s page.html link.html
"$dynmo" report in/r.db -o link.html || fail 'report by a link'
[ ! -e page.html.partial ] || fail 'what a killed command left stays'
[ -L link.html ] || fail 'a link is replaced'
[ "$(stat -c %a page.html)" = 640 ] || fail "an output has mode $(stat -c %a page.html)"

# A store that was killed when it had only its name.
: >born.db
"$dynmo" study in/bare-model.json --store born.db >out 2>err || fail "a store killed at its birth: $(cat err)"

# Nobody reads the answer: the command ends by SIGPIPE as others do, and closes its store.
{ "$dynmo" study in/bare-model.json --json --store piped.db 2>err; echo $? >code; } | true
case $(cat code) in 0 | 141) ;; *) fail "without a reader: exit $(cat code): $(cat err)" ;; esac
[ ! -e piped.db-wal ] || fail 'a log beside a complete store'
exit $failed
