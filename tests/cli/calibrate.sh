# dynmo calibrate: exact stdout, stderr and exit code; every way to name rows and to be wrong.
# usage: calibrate.sh DYNMO
here=$(pwd)/cli
example=$(cd ../analysis/calibration && pwd)/example.csv
. cli/expect.sh
subject=calibrate

# What other programs rely on: the same numbers however the rows are named.
wanted=$("$dynmo" calibrate "$example" --fit pp=1 --predict pp=2,4 --json)
for named in 'pipeline parallelism=2,pipeline parallelism=4' 'pp=2|4' ' PP = 4 , 2 ' \
    'pipeline=2.0|4e0'; do
    prints "$wanted" "$example" --fit 'pipeline parallelism=1' --predict "$named" --json
done
prints "$wanted" "$example" --json --fit pp=1 --predict pp=2 --predict pp=4
case $wanted in
'{"fitted":108,"predicted":108,"mape":0.'*',"median":0.'*',"p90":0.'*',"interval_coverage":'*) ;;
*) fail "keys: $wanted" ;;
esac

expect 0 '108 rows fitted, 108 predicted
no column vocabulary: 51200 assumed

terms of an iteration       value     within
  layer                        0.861 x/ 1.17    ms per layer and microbatch  fitted
  matrix products               4.12 x/ 1.72    ms per TFLOP                 fitted
  attention                     5.06 x/ 2.14    ms per TFLOP                 fitted
  attention scores              3.65 x/ 1.83    ms per GB                    fitted
  activations                    1.4 x/ 2.5     ms per GB                    fitted
  tensor messages            0.00401 x/ 3.07    ms per ring step             fitted
  tensor bytes                   6.7 x/ 1.97    ms per GB                    fitted
  tensor bytes between nodes    63.2 x/ 6.32    ms per GB                    not measured
  microbatch                    2.12 x/ 1.29    ms per microbatch            fitted
  head                          6.55 x/ 1.56    ms per TFLOP                 fitted
  logits                        3.44 x/ 3.13    ms per GB                    fitted
  iteration                    0.729 x/ 2.16    ms                           fitted
  update                        25.3 x/ 1.27    ms per 1e9 parameters        fitted
  reduction steps             0.0193 x/ 4.03    ms per ring step             fitted
  reduction bytes               7.83 x/ 1.21    ms per GB                    fitted
  reduction between nodes       63.2 x/ 6.32    ms per GB                    not measured
  tied embedding                7.07 x/ 14.1    ms per GB                    not measured
  transfer                      17.3 x/ 5.77    ms per GB                    not measured
  transfer between nodes        63.2 x/ 6.32    ms per GB                    not measured
deviation between shapes  layers 8.2 %, head 12.2 %, update 12.2 %, reduction 16.3 %
residual of a run         0.39 %, 111.0 degrees of freedom

beyond what was fitted    pipeline parallelism (108 rows)
error                     mean 1.01 %, median 0.91 %, 90th percentile 1.83 %, worst 3.59 %, signed -0.99 %
error of fitted rows      mean 0.34 %
90 % intervals            cover 95.4 %, mean width 7.76 % of the time' '' "$example" --fit pp=1 --predict pp=2,4

# What is written are the rows that were fitted, as a table.
"$dynmo" calibrate "$example" --fit pp=1 --predict pp=2 -o one.csv >/dev/null || fail 'first -o'
grep -vE ',[24],[0-9.]+$' "$example" >rows
cmp one.csv rows || fail 'the file is not the fitted rows'
# The fit alone, for the file.
"$dynmo" calibrate "$example" --fit pp=1 -o alone.csv >alone || fail 'a fit alone'
cmp -s one.csv alone.csv || fail 'the file depends on whether something is predicted'
[ "$(head -n 1 alone)" = '108 rows fitted' ] || fail "a fit alone begins: $(head -n 1 alone)"
[ "$(tail -n 1 alone)" = 'error of fitted rows      mean 0.34 %' ] ||
    fail "a fit alone ends: $(tail -n 1 alone)"
grep -q 'intervals\|choice\|predicted' alone && fail 'a fit alone speaks of predictions'
case $("$dynmo" calibrate "$example" --fit pp=1 -o alone.csv --json) in
'{"fitted":108,"predicted":0,"fitted_mape":0.'*',"terms":['*) ;;
*) fail 'a fit alone --json' ;;
esac
refuse 2 'dynmo calibrate: --predict is needed' "$example" --fit pp=1 --rows -o alone.csv
refuse 2 'dynmo calibrate: --predict is needed' "$example" --fit pp=1 --level 0.8 -o alone.csv

refuse 2 'dynmo calibrate: --fit is needed' "$example" --predict pp=2
refuse 2 'dynmo calibrate: --predict is needed' "$example" --fit pp=1
refuse 1 'none.csv: No such file or directory' none.csv --fit pp=1 --predict pp=2
refuse 2 "--fit: $example has no column 'pipline parallelism'; did you mean 'pipeline parallelism'?" \
    "$example" --fit 'pipline parallelism=1' --predict pp=2
refuse 2 "--predict: no row has 'pipeline parallelism' = 3" \
    "$example" --fit pp=1 --predict pp=3
refuse 2 '--predict: no row fulfils all conditions at once' \
    "$example" --fit pp=1 --predict pp=4,tp=4
refuse 2 "--fit: 'one' is not COLUMN=VALUE" "$example" --fit one --predict pp=2
refuse 2 "--fit: no value for column 'pipeline parallelism'" "$example" --fit pp= --predict pp=2
refuse 2 '2 runs to fit: at least 4 are needed' \
    "$example" --fit pp=1,tp=4,dp=2,layers=12,mbs=1 --predict pp=2
refuse 2 '--level: 1 is outside [0.01, 0.999]' "$example" --fit pp=1 --predict pp=2 --level 1

# Files that are no measured runs.
names='gpus,gbs,mbs,hidden,layers,seq,tp,dp,pp,time'
run='2,8,1,64,2,64,1,2,1,1.5'
file_refused() {
    printf '%s\n' "$1" "$run" "$2" >bad.csv
    refuse 2 "bad.csv$3" bad.csv --fit pp=1 --predict pp=1
}
file_refused "$names" '2,8,1,64,2,64,1,2,1' ':3: 9 cells, but 10 columns are named'
file_refused "$names" '2,8,1,64,2,64,1,2,1,nan' ":3: time: 'nan' is not a number"
file_refused "$names" '2,8,1,64,2,64,1,2,1,-4' ':3: time: -4 is outside [1e-06, 1e+09]'
file_refused "$names" '2,8,1,64,2,64,1,2,10000000000000000000,1' \
    ':3: pp: 10000000000000000000 is outside [1, 1e+07]'
file_refused "$names" '2,8,1,64.5,2,64,1,2,1,4' ':3: hidden: 64.5 is not a whole number'
file_refused "$names" '2,8,1,64,2,64,2,2,1,4' \
    ':3: 2 GPUs are not tensor * data * pipeline parallelism, 4'
file_refused "$names" '2,9,1,64,2,64,1,2,1,4' \
    ':3: global batch 9 is no multiple of micro batch * data parallelism, 2'
file_refused "$names" '4,8,1,64,2,64,1,1,4,4' ':3: 2 layers are fewer than pipeline parallelism 4'
file_refused 'gpus,gbs,mbs,hidden,layers,seq,tp,dp,pp,secs' "$run" \
    ": no column 'iteration time (ms)' (or 'time'); known: gpus, gbs, mbs, hidden, layers, seq, tp, dp, pp, secs"
printf '%s\n' "$names" "$run" >bad.csv
refuse 2 '1 run to fit: at least 4 are needed' bad.csv --fit pp=1 --predict pp=1

# Runs measured elsewhere, where they are: dense GPT training on one node of 8 A100, published with
# vTrain. Runs without a pipeline tell those with one; a third of them is enough, as long as every
# kernel shape is seen.
vtrain=$here/../../../shared/data/vtrain_8xA100_hidden1024.csv
for fit in pp=1 'pp=1,layers=12|24' 'pp=1,layers=16|20' 'pp=1,layers=12|16|20' 'pp=1,dp=1|2'; do
    [ -e "$vtrain" ] || break
    "$dynmo" calibrate "$vtrain" --fit "$fit" --predict 'pp=2|4' --json >measured || fail "vTrain from $fit"
    sed 's/[{}":]/ /g; s/,/\n/g' measured | awk -v all="$fit" '
        $1 == "mape" { mean = $2 } $1 == "p90" { late = $2 } $1 == "interval_coverage" { held = $2 }
        $1 == "interval_mean_width" { width = $2 }
        END { exit !(mean > 0 && mean <= 0.0175 &&
                     (all != "pp=1" || (late <= 0.045 && held >= 0.88 && width <= 0.06))) }' ||
        fail "vTrain from $fit: $(cut -c 1-200 measured)"
done
exit $failed
