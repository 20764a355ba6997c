# dynmo validate: shipped tables and a table of one's own; what it prints, what it refuses.
# usage: validate.sh DYNMO
root=$(cd .. && pwd)
real=$root/../shared/data/real
. cli/expect.sh
subject=validate

cat >runs.csv <<'END'
model,hardware,gpus,gbs,mbs,seq,tp,measured_ms,measured_peak_bytes,remark
llama-3-8b,H100,8,16,1,4096,2,900,60000000000,first
llama-3-8b,H100,8,16,1,4096,4,1000,,second
no-such-model,H100,8,16,1,4096,4,1000,,third
END
"$dynmo" validate runs.csv --draws 20 --json >json || fail 'runs.csv --json'
for part in '"ignored_columns":"remark"' '"row":1,"line":2,"name":"llama-3-8b tp2","measured_ns":900000000,' \
    '"memory_ratio":' '"row":3,"line":4,"name":"no-such-model tp4","measured_ns":1000000000,"refused":"no-such-model' \
    '"summary":{"rows":2,"refused":1,"groups":1,"error_mean":' '"coverage":' '"regret_mean":0'; do
    grep -qF "$part" json || fail "no $part"
done
"$dynmo" validate runs.csv --draws 20 --json --threads 1 >alone || fail '--threads 1'
cmp -s json alone || fail 'answers depend on the number of threads'
"$dynmo" validate runs.csv --draws 0 >text || fail 'without draws'
grep -q '90 % bars' text && fail 'bars without draws'
grep -q '^ *line  *measured ms predicted ms  ratio measured GiB peak GiB  ratio$' text || fail 'columns that nothing fills'
grep -qE '^ +3 llama-3-8b tp4 +1000\.00 +[0-9.]+ +[0-9.]+$' text || fail 'a row without its line and name'
grep -q 'Columns that are not read: remark' text || fail 'what is not read'
[ "$("$dynmo" validate runs.csv --draws 0 --summary | head -n 1)" = \
    'runs.csv: 2 runs predicted, 1 refused' ] || fail '--summary'

# Constants stand where cells are empty, renamed columns for our own.
echo 'seen,n
12,24' >named.csv
"$dynmo" validate named.csv --columns measured_ms=seen,layers=n \
    --set hidden_size=1024,gbs=8,hardware=a100-sxm-80gb,attention=unfused --draws 0 --json >named ||
    fail 'named columns'
grep -q '"measured_ns":12000000,"recompute":"none","predicted_ns":' named || fail 'named columns: a prediction'

# fp32 is multiplied as such or as TF32: between both, the bar holds both, and the first line says so.
sed 's/gbs/precision,gbs/; s/H100,8,/H100,8,fp32,/; /no-such/d' runs.csv >fp32.csv
"$dynmo" validate fp32.csv --draws 64 --json --set sharding=none >between || fail 'fp32'
grep -q '"ambiguous":2}' between || fail 'fp32 is not said'
"$dynmo" validate fp32.csv --draws 0 | head -n 1 | grep -q '^2 rows say fp32' || fail 'fp32: the first line'
# time FILE ROW: predicted, ns
time_of() { grep -o '"predicted_ns":[0-9]*' "$1" | sed -n "$2s/.*://p"; }
sed 's/,fp32,/,tf32,/' fp32.csv >tf32.csv
"$dynmo" validate tf32.csv --draws 0 --json --set sharding=none >quick || fail 'tf32'
low=$(grep -o '"low_ns":[0-9]*' between | sed -n 's/.*://p' | head -n 1)
[ "$(time_of quick 1)" -lt "$(time_of between 1)" ] || fail 'fp32 is not between'
[ "$low" -le "$(time_of quick 1)" ] || fail 'the bar of fp32 does not hold TF32'

# A run was measured, so it fitted: with the least recomputation that fits.
echo 'model,hardware,gpus,gbs,mbs,seq,tp,measured_ms
llama-3-8b,H100,8,32,1,4096,4,900
llama-3-8b,H100,8,32,1,4096,1,900
llama-3-8b,H100,8,32,2,8192,1,900' >full.csv
"$dynmo" validate full.csv --draws 0 --json >fitted || fail 'full.csv'
grep -o '"recompute":"[a-z]*"' fitted | tr -d '\n' >chosen
grep -q '"none""recompute":"[nalm][a-z]*""recompute":"full"' chosen || fail "recomputation: $(cat chosen)"
"$dynmo" validate full.csv --draws 0 --json --set recompute=none >unfitted || fail 'recompute=none'
grep -q '"recompute":"[almf]' unfitted && fail 'what a table says is not kept'
[ "$(time_of unfitted 3)" -lt "$(time_of fitted 3)" ] || fail 'recomputation takes no time'

# A run's name gives sizes that no column does; a column beats it, and it beats a constant.
echo 'case,model,hardware,sequence,microbatch,measured_ms
l12_tp2_pp2_dp1_mbc4_cef,llama-3-70b,b200,4096,1,900' >named_case.csv
echo 'layers,tp,pp,dp,microbatches,model,hardware,sequence,microbatch,measured_ms
12,2,2,1,4,llama-3-70b,b200,4096,1,900' >plain_case.csv
"$dynmo" validate named_case.csv --draws 0 --json --set tp=8 >of_name || fail 'sizes in a name'
"$dynmo" validate plain_case.csv --draws 0 --json >of_columns || fail 'sizes in columns'
[ "$(time_of of_name 1)" = "$(time_of of_columns 1)" ] || fail 'sizes in a name differ from columns'
"$dynmo" validate plain_case.csv --draws 0 | grep -q 'nothing says' && fail 'all is said'
sed 's/hardware,sequence,/nothing,else,/' plain_case.csv >unsaid.csv
"$dynmo" validate unsaid.csv --draws 0 | head -n 1 |
    grep -q '^nothing says the hardware and the sequence' || fail 'defaults are not said first'

# Tables that are part of the program, read as anybody reads them. The help names each, and each model and machine.
"$dynmo" validate --help >help
"$dynmo" model --help >>help
for file in "$root"/models/configs/*.json "$root"/models/hardware/*.json "$root"/models/measured/*.csv; do
    name=$(basename "${file%.*}")
    grep -qE "(^| )$name([ ,.]|\$)" help || fail "the help does not name $name"
    case $file in *.json) continue ;; esac
    table=$name
    "$dynmo" validate "$table" --draws 0 --json >shipped || fail "$table"
    grep -q '"source":"' shipped || fail "$table has no source"
done

# Rows of one's own teach what the others take: a machine on which all takes 1.3 times as long.
for tp in 1 2 4 8; do
    for mbs in 1 2 4; do
        echo "llama-3-8b,H100,8,64,$mbs,4096,$tp,full,1"
    done
done | sed '1i model,hardware,gpus,gbs,mbs,seq,tp,recompute,measured_ms' >plan.csv
"$dynmo" validate plan.csv --draws 0 --json | grep -o '"predicted_ns":[0-9]*' |
    sed 's/.*://' >plan.ns
{ head -n 1 plan.csv; tail -n +2 plan.csv | paste -d, - plan.ns |
    awk -F, -v OFS=, '{ print $1, $2, $3, $4, $5, $6, $7, $8, $10 * 1.3e-6 }'; } >slow.csv
"$dynmo" validate slow.csv --fit tp=1,2 --json >taught || fail '--fit'
sed 's/[]{}":[]/ /g; s/,/\n/g' taught | awk '
    $1 == "error_mean" { mean = $2 } $1 == "coverage" { held = $2 } $2 == "rows" { rows = $3 }
    $1 == "learned" { learned = $2 } $1 == "plain_error_mean" { plain = $2 }
    END { exit !(rows == 6 && learned == 6 && mean < 0.05 && held == 1 && plain > 0.2) }' ||
    fail "--fit: $(grep -o '"summary".*' taught)"
"$dynmo" validate slow.csv --fit tp=1,2 |
    grep -q '^slow.csv: 6 runs predicted, from 6 that were measured: without them the mean error is 23.1 %$' ||
    fail '--fit: the answer'
# Fewer than five rows on either side are said to tell little, before all else.
"$dynmo" validate slow.csv --fit tp=1,2 | head -n 1 | grep -q 'fewer than' && fail 'six rows are few'
for rows in 'tp=1 3 to learn from and 9' 'tp=1,2,4 9 to learn from and 3'; do
    "$dynmo" validate slow.csv --fit "${rows%% *}" | head -n 1 |
        grep -q "^fewer than 5 rows hardly tell anything, and there are ${rows#* } to predict: " || fail "few rows: $rows"
done
awk -F, -v OFS=, 'NR > 1 { $9 /= 1000 } 1' slow.csv >seconds.csv # in a column of milliseconds
unit='seconds.csv:2: measured .* ms are predicted: not in the unit that its column says?$'
"$dynmo" validate seconds.csv --fit tp=1 2>&1 | grep -q "^dynmo: $unit" || fail '--fit: times in another unit'
"$dynmo" validate slow.csv --calibration seconds.csv 2>&1 | grep -q "^dynmo: $unit" ||
    fail '--calibration: times in another unit'
"$dynmo" validate seconds.csv --summary | grep -q "^$unit" || fail 'times in another unit'
refuse 2 '--fit: bars are those of what the runs teach: without --draws' slow.csv --fit tp=1 --draws 20
refuse 2 "--fit: no row has 'tp' = 3" slow.csv --fit tp=3
# So does another table, under the same constants; runs of it are not predicted.
awk -F, 'NR == 1 || $7 <= 2' slow.csv >learned.csv
"$dynmo" validate slow.csv --calibration learned.csv --summary >own || fail 'a table as calibration'
awk '/error of time, mean/ { exit !($(NF - 1) < 5) }' own || fail "a table as calibration: $(cat own)"
grep -q '^slow.csv: 6 runs predicted, from 6 that' own || fail "rows of the calibration: $(cat own)"
grep -qx '6 left out: the calibration has the same runs' own || fail "rows of the calibration: $(cat own)"
"$dynmo" validate slow.csv --calibration slow.csv --summary | grep -q '^slow.csv: 0 runs predicted$' ||
    fail 'a table as its own calibration'
cut -d, -f1,3- learned.csv >nowhere.csv
"$dynmo" validate slow.csv --calibration nowhere.csv --summary >elsewhere || fail 'the default of a calibration'
cmp own elsewhere || fail 'defaults do not hold for the calibration'
"$dynmo" validate slow.csv --calibration nowhere.csv --set hardware=a100-sxm-80gb --summary >another || fail '--set'
cmp -s own another && fail 'constants do not hold for the calibration'
refuse 2 '--fit: bars are those of what the runs teach: without --calibration' slow.csv --fit tp=1 --calibration slow.csv
refuse 1 'none.csv: No such file or directory' slow.csv --calibration none.csv

# What a table leaves open is found from its times, if its times say so.
for tp in 1 2 4 8; do
    for seq in 512 1024 2048 4096 8192; do
        echo "llama-3-8b,H100,8,64,1,$seq,$tp,1"
    done
done | sed '1i model,hardware,gpus,gbs,mbs,seq,tp,measured_ms' >open.csv
measure() { # SETTINGS: open.csv as measured under them
    "$dynmo" validate open.csv --set "$1" --draws 0 --json | grep -o '"predicted_ns":[0-9]*' |
        sed 's/.*://' >open.ns
    head -n 1 open.csv
    tail -n +2 open.csv | paste -d, - open.ns |
        awk -F, -v OFS=, '{ print $1, $2, $3, $4, $5, $6, $7, $9 * 1.1e-6 }'
}
measure attention=unfused >hidden.csv
"$dynmo" validate hidden.csv --draws 0 --explain --json >explained || fail '--explain'
for part in '"explanation":{"rows":20,"error_before":0\.[2-9][0-9]*,"error_after":0\.0909' \
    '"settings":\[{"column":"attention","value":"unfused"}\]}'; do
    grep -q "$part" explained || fail "--explain: no $part: $(grep -o '"explanation.*' explained)"
done
"$dynmo" validate hidden.csv --draws 0 --explain --summary >explained || fail '--explain: text'
grep -q '^The table leaves open, .* with, --set attention=unfused:$' explained || fail "--explain: $(cat explained)"
measure attention=fused >plain.csv
"$dynmo" validate plain.csv --draws 0 --explain --summary |
    grep -qx 'Nothing that the table leaves open explains its times much better (20 rows played).' ||
    fail '--explain: defaults'
measure kernels=eager >eager.csv
"$dynmo" validate eager.csv --draws 0 --explain --summary |
    grep -q '^The table leaves open, .* with, --set kernels=eager:$' || fail '--explain: eager kernels'
for rows in 8 16 32 64; do
    echo "llama-3-8b,H100,$rows,256,1,2048,2,1"
done | sed '1i model,hardware,gpus,gbs,mbs,seq,tp,measured_ms' >open.csv
measure kernels=eager | awk -F, -v OFS=, 'NR > 1 { $8 /= 1.1 } 1' >alike.csv
"$dynmo" validate alike.csv --draws 0 --explain --summary |
    grep -q '^Alone kernels=eager would bring the mean error from 1[0-9].[0-9] to 0.0 %, but' ||
    fail '--explain: what a slower machine explains as well'
cut -d, -f1,3- hidden.csv >nowhere.csv
refuse 2 'nowhere.csv: what explains times cannot be told where nothing says the hardware (--set hardware=NAME)' \
    nowhere.csv --explain

refuse 2 "--draws 5: fewer than 20 have no 5 and 95 %" runs.csv --draws 5
refuse 1 'none.csv: No such file or directory' none.csv
echo 'tp
1' >unmeasured.csv
refuse 2 'unmeasured.csv: no column says what was measured: measured_ms, measured_s or tokens_per_s_per_gpu' \
    unmeasured.csv
echo 'model;gbs;measured_ms
gpt2;8;5' >semicolons.csv
refuse 2 'semicolons.csv: no column says what was measured: measured_ms, measured_s or tokens_per_s_per_gpu; columns that are not read: model;gbs;measured_ms' \
    semicolons.csv
echo 'modle,gbs,measured_ms
gpt2,8,5' >modle.csv
refuse 2 'modle.csv:2: neither model nor layers and hidden_size; columns that are not read: modle' modle.csv
echo 'model,pp,gbs,sequence,measured_ms
gpt2,64,64,1024,5' >deep.csv
refuse 2 'deep.csv: none of its runs could be modelled; line 2: more stages than layers: pipeline.stages: 64 stages of 1 chunks need at least 64 layers, there are 14' deep.csv
refuse 1 "dgxc: no such file, and no shipped table is named so; did you mean 'dgxc-2025'?" dgxc
echo 'model,gbs,loss,measured_ms
gpt2,8,eagre,5' >loss.csv
"$dynmo" validate loss.csv --draws 0 >out 2>err
grep -qh "loss.csv:2: loss is neither fused nor eager: eagre" out err || fail 'a loss that nobody knows'
sed 's/loss/kernels/' loss.csv >kernels.csv
"$dynmo" validate kernels.csv --draws 0 >out 2>err
grep -qh "kernels.csv:2: kernels is neither fused nor eager nor fused-norms: eagre" out err || fail 'kernels that nobody knows'
# Uncompiled, with and without norms of a library: slower, and slower still.
sed 's/eagre/fused/' kernels.csv >fused.csv
sed 's/eagre/fused-norms/' kernels.csv >norms.csv
sed 's/eagre/eager/' kernels.csv >eager.csv
for kernels in fused norms eager; do
    sed -i 's/gpt2/llama-3-8b/' $kernels.csv
    "$dynmo" validate $kernels.csv --draws 0 --json | tr ',' '\n' | grep predicted_ns | cut -d : -f 2
done >lasted
[ "$(sort -n -u lasted)" = "$(cat lasted)" ] || fail "kernels: $(cat lasted)"
[ "$(wc -l <lasted)" = 3 ] || fail "kernels: $(cat lasted)"
# What fits is chosen where nothing says it, and told.
printf 'model,hardware,gpus,global_batch,sequence,pp,kernels,measured_ms\nllama-3-8b,h100-sxm,8,128,8192,2,,9\nllama-3-8b,h100-sxm,8,128,8192,2,eager,9\n' >fits.csv
"$dynmo" validate fits.csv --draws 0 >out || fail 'rows that do not fit'
grep -qx 'Rows that say no recomputation, played with the least that fits: mlp 1 (line 3)' out ||
    fail "$(grep Rows out)"
printf 'model,gpus,global_batch,cuda_graphs,measured_s\nllama-3-8b,8,64,2,10\n' >graphs.csv
"$dynmo" validate graphs.csv >out 2>err && fail 'a flag of 2'
grep -qh "graphs.csv:2: cuda_graphs is none of 0, 1, false and true: 2" out err || fail 'a flag of 2'
echo 'model,gbs,measured_ms
gpt2,-1,5' >negative.csv
refuse 2 'negative.csv:2: global_batch: -1 is outside [1, 16777216]' negative.csv

# Measured runs of others, where they are.
if [ -d "$real" ]; then
    "$dynmo" validate "$real/vtrain_multi_node_a100.csv" --draws 0 --json \
        --set hardware=a100,attention=unfused,recompute=full >vtrain || fail 'vTrain'
    grep -q '"summary":{"rows":55,"refused":0,' vtrain || fail 'vTrain: every row is read'
fi
exit $failed
