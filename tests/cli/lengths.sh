# Sequences of unlike length: the case `lengths` in simulate, study and run; packings as rows and as an
# axis; what is refused.
root=$(cd .. && pwd)
. cli/expect.sh

study() { # EXTRA OF DYNAMISM, REST
    printf '{"schema":"dynmo-study/1","model":"gpt2-xl","hardware":"a100-sxm-80gb","cluster":{"nodes":1},"training":{"iterations":6,"sequence_length":1024,"microbatches":6,"data_parallel":2},"pipeline":{"stages":4,"schedule":"1f1b"},"dynamism":{"case":"lengths","mean_tokens":300%s}%s}' "$1" "$2"
}
rows='"balancing":[{"balancer":"even"},{"balancer":"even","packing":"cost"},{"balancer":"tuned","packing":"tokens"},{"balancer":"partition","policy":"every:2","packing":"karmarkar-karp"}]'

# Rows beside each other; the same tokens in every row, so that shares of time compare.
study '' ",$rows" >rows.json
"$dynmo" simulate rows.json --json >rows.out || fail 'simulate'
grep -q '"balancer":"even packing cost"\|"label":"even packing cost"' rows.out || fail 'no row of its own packing'
"$dynmo" simulate rows.json >table || fail 'simulate as a table'
awk '/^even packing cost/ { if ($5 + 0 <= 1.02) exit 1; found = 1 } END { exit !found }' table ||
    fail "packing by cost gains nothing: $(cat table)"
# What each packing changes stands per row, its share of the speed-up in a column of its own.
[ "$(grep -c '^  assumed   balancing\[[123]\].effect  *every step has the sequences it had: ' table)" -eq 3 ] ||
    fail 'rows with a packing of their own do not say what it changes'
grep -q '^  assumed   dynamism.effect  *none: sequences in the order of arrival$' table || fail 'arrival has an effect'
grep -q 'did not change the model' table && fail 'lengths that differ in every step are said to change nothing'
awk '/^Where the speed-up comes from/ { titled = $8 == "packing" && $9 == "dynamic"; next }
    /^partition every:2 packing karmarkar-karp .*=/ { if ($9 <= 1.02 || $11 > 1.01) exit 1; found = 1 } END { exit !(titled && found) }' table ||
    fail "the share of packing: $(cat table)"

# Both players, to the nanosecond, under each packing.
for row in even 'even packing cost' 'partition every:2 packing karmarkar-karp'; do
    "$dynmo" run rows.json --device timed --clock nominal --row "$row" >run.out 2>run.err ||
        fail "run of '$row': $(cat run.err)"
    grep -q 'begin and end at the nanosecond' run.out || fail "run and simulate differ under '$row'"
done

# Training on packed sequences: the same bits under every plan; under every packing of a step the same loss but for the
# order of sums.
cp "$root/README.md" .
cat >train.json <<'END'
{"schema":"dynmo-study/1","name":"packed","hardware":"cpu-core",
 "model":{"base":"gpt-bytes","n_layer":4,"n_embd":16,"n_head":2},
 "training":{"iterations":5,"sequence_length":64,"microbatches":4,"data_parallel":2,"dtype":"float32"},
 "pipeline":{"stages":2,"schedule":"zb-h1"},"dynamism":{"case":"lengths","mean_tokens":20},
 "balancing":[{"balancer":"even"},{"balancer":"partition","policy":"every:2"},
              {"balancer":"even","packing":"cost"},{"balancer":"even","packing":"sorted"}],
 "execution":{"text":"README.md"}}
END
trained() { # ROW OUT
    "$dynmo" run train.json --device cpu --clock nominal --row "$1" --json >"$2" 2>run.err || fail "training of '$1': $(cat run.err)"
}
value() { # FILE KEY
    sed -n "s/.*\"$2\":[\"\[]*\([^,\"}]*\).*/\1/p" "$1"
}
trained even arrival.out
trained 'partition every:2' moved.out
trained 'even packing cost' cost.out
trained 'even packing sorted' sorted.out
[ "$(value arrival.out different_ops)" = 0 ] || fail 'ops of packed training differ from the simulated ones'
[ "$(value arrival.out state_hash)" = "$(value moved.out state_hash)" ] || fail 'a plan changes what packed sequences teach'
[ "$(value arrival.out loss_hash)" = "$(value moved.out loss_hash)" ] || fail 'a plan changes the loss of packed sequences'
[ -n "$(value arrival.out loss)" ] || fail 'no losses'
for packing in cost sorted; do
    [ "$(value arrival.out state_hash)" != "$(value $packing.out state_hash)" ] || fail "packing $packing packs nothing"
    [ "$(value arrival.out loss | cut -c 1-7)" = "$(value $packing.out loss | cut -c 1-7)" ] || fail "packing $packing trains on other sequences"
done

# Packings as an axis; within a step they change the order of sums only.
study '' ',"balancing":{"balancer":"tuned"},"vary":{"dynamism.packing":["arrival","sorted","cost"],"dynamism.window":[1,2]}' >axes.json
"$dynmo" study axes.json --draws 0 >study.out || fail 'study'
sed '/^Other training/,$d' study.out >same
[ "$(grep -cE '^ +[0-9]+ +(written|[0-9]+) ' same)" -eq 3 ] || fail "not three points of one training: $(cat study.out)"
[ "$(sed '1,/^Other training/d' study.out | grep -cE '^ +[0-9]+ +[0-9]+ +[a-z]+ +2 ')" -eq 3 ] ||
    fail 'a window of two steps trains the same'

# How a context group shares sequences, as models/DYNAMISM.md shows it; nobody trains otherwise.
shipped=$root/models/studies/llama-context.json
"$dynmo" study "$shipped" --draws 0 >context.txt || fail 'study of contexts'
grep -q '^Other training' context.txt && fail 'a context that trains otherwise'
for rate in 'equal 50000000000 240k' 'sequence 50000000000 217k' 'document 50000000000 239k' 'hybrid 50000000000 239k' \
    'equal 5000000000 143k' 'sequence 5000000000 133k' 'document 5000000000 143k' 'hybrid 5000000000 168k'; do
    awk '{ print $3, $4, $5 }' context.txt | grep -qx "$rate" || fail "not $rate: $(cat context.txt)"
done
sed '/"vary"/,$d; s/"spread": 1.5/&, "context": "sequence"/; s/"packing": "cost"},/"packing": "cost"}}/' "$shipped" >one.json
"$dynmo" simulate one.json | grep -q 'context_imbalance *1\.[0-9]* of an even share has the slowest of 4 ranks' ||
    fail 'no imbalance'

study '' ',"balancing":{"balancer":"even"}' >plain.json
study ',"context":"sequence"' ',"balancing":{"balancer":"even"}' >alone.json
for name in plain alone; do
    "$dynmo" simulate $name.json | sed '1d; /^Inputs/,$d' >$name.out
done
cmp -s plain.out alone.out || fail 'a rank alone waits for others'

# Lengths from a file beside the study, in three forms with the same answer.
printf '100 900\n300 700 1024 5\n' >plain.txt
printf '[0,100,1000,1300]\n[0,700,1724,1729]' >offsets.json
printf '{"length":100}\n{"cu_seqlens":[0,900]}\n{"length":300}\n{"length":700}\n{"length":1024}\n{"length":5}\n' >lines.jsonl
for file in plain.txt offsets.json lines.jsonl; do
    study ",\"file\":\"$file\"" ',"balancing":{"balancer":"even"}' | sed 's/"mean_tokens":300,//' >file.json
    "$dynmo" simulate file.json | grep -v "^  given     dynamism.file" >"$file.out" || fail "lengths of $file"
    cmp -s "$file.out" plain.txt.out || fail "$file gives another answer"
done

# A long run asked twice is the same, and a sequence above the budget is cut.
printf '5000\n' >long.txt
study ',"file":"long.txt","budget_tokens":1000' ',"balancing":{"balancer":"even"}' | sed 's/"mean_tokens":300,//' >file.json
"$dynmo" simulate file.json >first || fail 'a long sequence'
"$dynmo" simulate file.json | cmp -s first - || fail 'a long sequence, asked twice'

refuse_study() { # MESSAGE EXTRA REST
    study "$2" "$3" >bad.json
    refuse 2 "bad.json: $1" simulate bad.json
}
study ',"file":"none.txt"' '' | sed 's/"mean_tokens":300,//' >bad.json
refuse 1 'bad.json: dynamism.file: none.txt: No such file or directory' simulate bad.json
refuse_study "dynamism.packing: unknown packing 'lpt'; known: arrival, sorted, tokens, cost, karmarkar-karp, exact" ',"packing":"lpt"' ''
refuse_study "dynamism.context: unknown context 'ring'; known: equal, sequence, document, adaptive, hybrid" ',"context":"ring"' ''
refuse_study "dynamism.window: 0 is outside [1, 1024]" ',"window":0' ''
refuse_study "dynamism: packing 'exact' takes at most 20 sequences at once, there are 28" ',"packing":"exact"' ''
study ',"file":"plain.txt"' '' >bad.json
"$dynmo" simulate bad.json 2>&1 | grep -q "dynamism: unknown key 'mean_tokens'" || fail 'a mean beside a file of lengths'
sed 's/"dynamism":{[^}]*},//' rows.json >bad.json
refuse 2 "bad.json: balancing: 'even packing cost': a packing needs the case 'lengths'" simulate bad.json
sed 's/"case":"lengths","mean_tokens":300/"case":"mod"/' rows.json >bad.json
refuse 2 "bad.json: balancing: 'even packing cost': a packing needs the case 'lengths'" simulate bad.json

for change in 's/"mean_tokens":20/&,"mask":"causal"/; =bad.json: mask .causal.: only sequences that attend to themselves can be told apart' \
    's/"mean_tokens":20/"mean_tokens":200,"budget_tokens":100/=bad.json: a sequence of 100 tokens to be packed, but training.sequence_length is 64' \
    's/README.md"/&,"mechanism":{"name":"moe"}/=bad.json: dynamism.case lengths, but execution trains moe: '; do
    sed "${change%%=*}" train.json >bad.json
    "$dynmo" run bad.json --device cpu >/dev/null 2>err && fail "not refused: $change"
    grep -q "^dynmo: ${change#*=}" err || fail "refused otherwise: $(cat err)"
done
"$dynmo" run train.json --device cuda >/dev/null 2>err && fail 'cuda packs'
grep -q '^dynmo: train.json: dynamism.case lengths is simulated only; or trained on device cpu' err || fail "cuda: $(cat err)"

# Costs of sequences fitted to a trace: F = 1000 n + 40 n^2 of a block and so on, packed here as they arrive, every tenth
# microbatch three times too long where there is noise.
traced() { # NOISE ALIKE: fit.db of 20 iterations of 4 microbatches, its lengths in fit.txt
    awk -v noise="$1" -v alike="$2" '
        function draw() { x = (x * 16807) % 2147483647; return x / 2147483647 }
        function row(l, phase, t) { print int(k / 4) "," l "," k % 4 "," phase "," int(f * t) ",1000" }
        function flush(l, at) {
            f = 1 + noise * (draw() - 0.5) + 2 * (noise > 0 && k % 10 == 9)
            for (l = 0; l < 6; l++) {
                at = l == 0 || l == 5 ? 0 : 40
                row(l, "F", 1000 * t + at * p); row(l, "B", 900 * t + 2 * at * p); row(l, "W", 1100 * t)
            }
            k++; t = p = 0
        }
        BEGIN { x = 4711
            print "# dynmo-trace/1\n# microbatches=4\n# embedding=1\n# head=1\niteration,layer,microbatch,phase,busy_ns,parameters"
            while (k < 80) {
                n = alike ? 16 : 1 + int(64 * draw() * draw())
                if (t + n > 64) flush()
                if (k < 80) { t += n; p += n * n; print n >"fit.txt"; of_t += n; of_p += n * n }
            }
            printf "%.3f\n", 120 * of_p / (3000 * of_t + 120 * of_p) >"fit.share"
        }' >fit.csv
    rm -f fit.db
    "$dynmo" import csv fit.csv -o fit.db >/dev/null || fail 'import of packed sequences'
}
fitted() { # EXTRA OF THE TRACE, REST
    printf '{"schema":"dynmo-study/1","trace":{"store":"fit.db","model":"four.json"%s},"hardware":"cpu-core","training":{"dtype":"float32"},"pipeline":{"stages":2},"balancing":{"balancer":"even"}%s}' "$1" "$2"
}
echo '{"model_type":"gpt2","n_layer":4,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":256}' >four.json
packed=',"dynamism":{"case":"lengths","file":"fit.txt"'
traced 0 0
fitted ',"packing":"arrival"' "$packed}" >fit.json
fitted '' '' | sed 's/,"model":"four.json"//; s/"dtype":"float32"//' >replay.json
"$dynmo" simulate fit.json >fit.out || fail 'costs of sequences are not fitted'
grep -q "trace.attention *$(cat fit.share) +- 0.000 of a block's F + B + W over 80 microbatches" fit.out || fail "not $(cat fit.share): $(cat fit.out)"
[ "$(awk '/^even / { print $2, $5; exit }' fit.out)" = "$("$dynmo" simulate replay.json | awk '/^even / { print $2, $5; exit }')" ] ||
    fail 'fitted costs do not give the recorded iterations'
traced 0.2 0
"$dynmo" simulate fit.json >fit.out || fail 'noisy costs of sequences are not fitted'
awk -v wanted="$(cat fit.share)" '/trace.attention/ { off = $3 - wanted; found = off * off < $5 * $5 && $5 < 0.1 } END { exit !found }' fit.out ||
    fail "attention outside the interval: $(grep attention fit.out)"
traced 0 1
refuse 2 "fit.json: dynamism: trace.packing: 80 recorded microbatches, whose sequences have 16 to 16 tokens (means over tokens), leave attention's share of a block uncertain by +- inf, at most 0.1 is taken" simulate fit.json
fitted ',"packing":"arrival"' '' >bad.json
refuse 2 "bad.json: trace.packing: 'arrival' needs the case 'lengths', which says what is packed" simulate bad.json
fitted ',"packing":"arrival"' "$packed}" | sed 's/"dtype"/"microbatches":8,&/' >bad.json
refuse 2 'bad.json: dynamism: trace.packing: the trace has times of 4 microbatches, the training 8; each must have been recorded by itself' simulate bad.json
fitted ',"packing":"arrival"' "$packed}" | sed 's/"dtype"/"context_parallel":2,&/' >bad.json
refuse 2 "bad.json: dynamism: trace.packing: training.context_parallel is 2; which of a group's ranks was recorded is known for 1 only" simulate bad.json

exit "$failed"
