# show: what is in a store, and the loads of a trace in the form that other programs read.
# Usage: show.sh DYNMO
studies=$(cd ../models/studies && pwd)
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
  layer           F           B           W  communication
      0     1.00 us        0 ns     1.00 us           1 ns  embedding
      1     30.0 us     40.0 us     20.0 us           0 ns
      2     12.5 us     12.5 us     12.5 us           0 ns  head" show s.db --loads --trace split

refuse 2 "s.db: no trace 'splt'; did you mean 'split'?" show s.db --loads --trace splt
refuse 2 "s.db: trace 'split' has no sample in iterations 1:4; it has them from 0 to 5" \
    show s.db --loads --trace split --iterations 1:4
refuse 2 "--iterations: 5:1 ends before it begins" show s.db --loads --iterations 5:1
refuse 2 "--iterations: 'x' is not an integer" show s.db --loads --iterations x
refuse 2 "dynmo show: --trace needs --loads" show s.db --trace split
refuse 1 "absent.db: No such file or directory" show absent.db
refuse 2 "split.csv: not a SQLite file" show split.csv
# What a case multiplies c_l by: nothing of frozen layers is left in the paper's model.
"$dynmo" show "$studies/paper/freezing.json" --json >static.json || fail 'c_l of a study'
"$dynmo" show "$studies/paper/freezing.json" --iterations 5000 --json >frozen.json || fail 'c_l of a study'
python3 - <<'END' || fail 'c_l over static'
import json
static, frozen = (json.load(open(name)) for name in ('static.json', 'frozen.json'))
factors = frozen['factor']
assert set(static['factor']) == {1} and set(factors) == {0, 1} and factors == sorted(factors)
assert all(now == factor * before for now, factor, before in zip(frozen['c_l_ns'], factors, static['c_l_ns']))
END
"$dynmo" show "$studies/paper/freezing.json" | grep -qx '       0     .*  1.000' || fail 'c_l for people'
printf '{"schema":"dynmo-study/1","name":"two","trace":{"store":"s.db","name":"split"},"pipeline":{"stages":2},"balancing":[{"balancer":"even"}]}' >two.json
refuse 2 'two.json: has no case of dynamism, whose c_l is shown' show two.json
refuse 2 '--iterations: 10000 is outside [0, 9999]' show "$studies/paper/freezing.json" --iterations 10000
refuse 2 'dynmo show: --loads needs a store, not a study' show "$studies/paper/freezing.json" --loads
exit "$failed"
