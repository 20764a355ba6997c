# show: what is in a store, and the loads of a trace in the form that other programs read.
# Usage: show.sh DYNMO
. cli/expect.sh

# Two samples of two microbatches. Layer 1 loses its W and half of its F.
cat >split.csv <<'END'
# dynmo-trace/1
# device=cuda
# embedding=1
# head=1
iteration,microbatch,layer,phase,busy_ns,communication_ns
0,0,0,F,1000,3
0,1,0,F,1001,
0,0,0,W,2000,
0,1,0,W,2000,
0,0,1,F,40000,
0,1,1,F,40000,
0,0,1,B,40000,
0,1,1,B,40000,
0,0,1,W,40000,
0,1,1,W,40000,
0,0,2,F,10000,
0,1,2,F,10000,
0,0,2,B,10000,
0,1,2,B,10000,
0,0,2,W,10000,
0,1,2,W,10000,
5,0,0,F,1000,
5,1,0,F,1000,
5,0,1,F,20000,
5,1,1,F,20000,
5,0,1,B,40000,
5,1,1,B,40000,
5,0,2,F,15000,
5,1,2,F,15000,
5,0,2,B,15000,
5,1,2,B,15000,
5,0,2,W,15000,
5,1,2,W,15000,
END
printf '# dynmo-trace/1\n# embedding=1\niteration,layer,phase,busy_ns\n0,0,F,10\n0,0,BW,21\n0,1,F,10\n0,1,BW,21\n0,1,R,4\n' >full.csv
"$dynmo" import csv split.csv -o s.db >out
"$dynmo" import csv full.csv -o s.db >out
"$dynmo" import csv full.csv -o s.db --name assumed --backward-split 0.5 >out

prints 'traces: 3
     1  split    complete     csv          3 layers        2 microbatches         2 samples of 0:5
     2  full     complete     csv          2 layers        - microbatches         1 samples of 0:0
     3  assumed  complete     csv          2 layers        - microbatches         1 samples of 0:0
runs: 0' show s.db
prints '{"iterations":[0,5],"layers":[{"layer":0,"forward_ns":1000,"backward_input_ns":0,"backward_weight_ns":1000,"communication_ns":1},{"layer":1,"forward_ns":30000,"backward_input_ns":40000,"backward_weight_ns":20000,"communication_ns":0},{"layer":2,"forward_ns":12500,"backward_input_ns":12500,"backward_weight_ns":12500,"communication_ns":0}]}' \
    show s.db --loads --trace split --json
prints '{"iterations":[5],"layers":[{"layer":0,"forward_ns":1000,"backward_input_ns":0,"backward_weight_ns":0,"communication_ns":0},{"layer":1,"forward_ns":20000,"backward_input_ns":40000,"backward_weight_ns":0,"communication_ns":0},{"layer":2,"forward_ns":15000,"backward_input_ns":15000,"backward_weight_ns":15000,"communication_ns":0}]}' \
    show s.db --loads --trace 1 --iterations 1:5 --json
prints '{"iterations":[0],"layers":[{"layer":0,"forward_ns":10,"backward_input_ns":null,"backward_weight_ns":null,"backward_ns":21,"communication_ns":0},{"layer":1,"forward_ns":10,"backward_input_ns":null,"backward_weight_ns":null,"backward_ns":25,"communication_ns":0}]}' \
    show s.db --loads --trace full --json
# The newest trace. The embedding has no B; of the other layer's 21 ns half, rounded up, and the
# recompute are B.
prints '{"iterations":[0],"layers":[{"layer":0,"forward_ns":10,"backward_input_ns":0,"backward_weight_ns":21,"communication_ns":0},{"layer":1,"forward_ns":10,"backward_input_ns":15,"backward_weight_ns":10,"communication_ns":0}]}' \
    show s.db --loads --json
prints "trace 'split', 2 samples of iterations 0:5; busy time of one microbatch
  layer           F           B           W  communication  F + B + W                  drift
      0     1.00 us        0 ns     1.00 us           1 ns  #                           -67%  embedding
      1     30.0 us     40.0 us     20.0 us           0 ns  ########################    -50%
      2     12.5 us     12.5 us     12.5 us           0 ns  ##########                  +50%  head
drift: F + B + W of iteration 5 against iteration 0" show s.db --loads --trace split

# Imbalance: one transformer layer between embedding and head, on two workers.
prints "imbalance of trace 'split', 2 workers under the even split
  iteration           C     max L_j     min L_j  dL workers
          0      153 us      123 us     30.0 us       1.216
          5      106 us     61.0 us     45.0 us       0.302
C: sum of the layers' c_l. L_j: load of worker j. dL: (max - min) / mean, as the DynMo paper has it." \
    show s.db --imbalance --trace split --stages 2
prints "imbalance of trace 'split', 2 workers under the even split
  iteration           C     max L_j     min L_j  dL workers
          5      106 us     61.0 us     45.0 us       0.302

  worker         L_j  layers
       0     61.0 us  0-1
       1     45.0 us  2-2

   layer         c_l
       0     1.00 us
       1     60.0 us
       2     45.0 us
C: sum of the layers' c_l. L_j: load of worker j. dL: (max - min) / mean, as the DynMo paper has it." \
    show s.db --imbalance --trace split --stages 2 --iterations 1:9
prints '{"iterations":[{"iteration":5,"layer_ns":[1000,60000,45000],"total_ns":106000,"worker_ns":[61000,45000],"load_spread_ratio":0.3018867924528302,"experts":null}]}' \
    show s.db --imbalance --trace split --stages 2 --iterations 5 --json
printf '{"schema":"dynmo-study/1","name":"two","trace":{"store":"s.db","name":"split"},"pipeline":{"stages":2},"balancing":[{"balancer":"even"}]}' >two.json
prints '{"iterations":[{"iteration":0,"layer_ns":[3000,120000,30000],"total_ns":153000,"worker_ns":[123000,30000],"load_spread_ratio":1.2156862745098038,"experts":null}]}' \
    show two.json --imbalance --iterations 0 --json
"$dynmo" simulate two.json --store s.db >out
prints "imbalance of 'even', workers as they worked in an iteration
  iteration           C     max L_j     min L_j  dL workers
          5      212 us      122 us     90.0 us       0.302

  worker         L_j  layers
       0      122 us
       1     90.0 us
C: sum of the layers' c_l. L_j: load of worker j. dL: (max - min) / mean, as the DynMo paper has it." \
    show s.db --imbalance --row even --iterations 5
# Over experts: one layer gives one of its 8 experts twice the mean and another none.
mkdir -p sub
printf '{"schema":"dynmo-study/1","name":"experts","model":"mixtral-8x7b","hardware":"h100-sxm","pipeline":{"stages":2},"training":{"iterations":3,"microbatches":2,"layers":2},"dynamism":{"case":"moe"},"balancing":[{"balancer":"even"}]}' >sub/moe.json
printf 'iteration,layer,microbatch,expert_0,expert_1,expert_2,expert_3,expert_4,expert_5,expert_6,expert_7\n0,0,0,512,512,512,512,512,512,512,512\n0,1,0,1024,0,512,512,512,512,512,512\n' >counts.csv
printf '{"iter":0,"block":"decoder","layer":0,"tpe":[[512,512,512,512,512,512,512,512],[512,512,512,512,512,512,512,512]]}\n{"iter":0,"block":"decoder","layer":1,"tpe":[[1024,0,512,512,512,512,512,512],[1024,0,512,512,512,512,512,512]]}\n' >rank0.jsonl
"$dynmo" show sub/moe.json --imbalance --experts counts.csv --json --iterations 0 >csv.json || fail 'counts in a CSV'
grep -q '"experts":{"load_spread_ratio_mean":1,"load_spread_ratio_max":2,"load_spread_ratio":\[null,0,2,null\]}' csv.json ||
    fail 'dL over experts'
"$dynmo" show sub/moe.json --imbalance --experts rank0.jsonl --json --iterations 0 | cmp -s - csv.json ||
    fail "Megatron's counts are others"
cp counts.csv sub/own.csv # a path in a study is meant from the study's folder
sed 's/"case":"moe"/"case":"moe","counts":"own.csv"/' sub/moe.json >sub/own.json
"$dynmo" show sub/own.json --imbalance --json --iterations 0 | cmp -s - csv.json ||
    fail 'counts that the study names'
"$dynmo" show sub/moe.json --imbalance --iterations 2 | grep -q 'dL of its experts' || fail 'experts of one iteration'
refuse 1 'none.csv: No such file or directory' show sub/moe.json --imbalance --experts none.csv
refuse 2 'dynmo show: --experts needs a study, whose model says how many there are' \
    show s.db --imbalance --experts counts.csv --stages 2
refuse 2 '--experts: one CSV file holds all experts' \
    show sub/moe.json --imbalance --experts counts.csv --experts counts.csv
refuse 2 'dynmo show: --row needs a store, not a study' show sub/moe.json --imbalance --row even
refuse 2 'dynmo show: --experts needs --imbalance' show sub/moe.json --experts counts.csv

refuse 2 "s.db: no row 'evn' in run 1; there are 'even'" show s.db --imbalance --row evn
refuse 2 "dynmo show: --imbalance of a store needs --stages (of a trace) or --row (of a recorded run)" show s.db --imbalance --trace split
refuse 2 "s.db: trace 'split' has no sample in iterations 7:9; it has them from 0 to 5" \
    show s.db --imbalance --trace split --stages 2 --iterations 7:9
refuse 2 "two.json: has iterations 0 to 5, not 6" show two.json --imbalance --iterations 6:9
refuse 2 "dynmo show: one of --loads, --timeline and --imbalance, not several" \
    show s.db --imbalance --loads
refuse 2 "dynmo show: --stages needs --imbalance" show s.db --loads --stages 2
refuse 2 "dynmo show: --run needs --row, a row of the run" show s.db --imbalance --run 1
refuse 2 "dynmo show: --row or --stages, not both: a row has the stages of its run" \
    show s.db --imbalance --row even --stages 2
"$dynmo" show s.db --imbalance --trace split --stages 4 >out 2>err && fail 'more workers than layers'
[ ! -s out ] || fail 'more workers than layers: output'

refuse 2 "s.db: no trace 'splt'; did you mean 'split'?" show s.db --loads --trace splt
refuse 2 "s.db: trace 'split' has no sample in iterations 1:4; it has them from 0 to 5" \
    show s.db --loads --trace split --iterations 1:4
refuse 2 "--iterations: 5:1 ends before it begins" show s.db --loads --iterations 5:1
refuse 2 "--iterations: 'x' is not an integer" show s.db --loads --iterations x
refuse 2 "dynmo show: --trace needs --loads, --timeline or --imbalance" show s.db --trace split
refuse 1 "absent.db: No such file or directory" show absent.db
refuse 2 "split.csv: not a SQLite file" show split.csv
exit "$failed"
