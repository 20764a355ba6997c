# dynmo converge --verdict, --layers, --trace and --drift: what other programs rely on, what people see, and every
# way to be wrong. usage: converge_verdict.sh DYNMO
recorded=$(cd "$(dirname "$0")/../../traces/recorded" && pwd)
. cli/expect.sh
subject=converge

gzip -dc "$recorded/cpu-moe.db.gz" >moe.db
echo '{"forward_ns":[1000000,6000000,3000000,3000000]}' >loads.json
echo '{"forward_ns":[0,1000,1000,1000,1000,1000,0,0],"current_first_layer":[0,6,7,8]}' >zero.json
echo '{"forward_ns":[1,-2,3]}' >bad.json
echo '{"forward_ns":[0,0,0]}' >idle.json
printf '# dynmo-trace/1\niteration,layer,phase,busy_ns\n' >drift.csv
for iteration in 0 1 2 3 4 5; do # the first of four layers grows by a tenth
    printf '%s,0,F,1%s0\n' $iteration $iteration
    for layer in 1 2 3; do
        printf '%s,%s,F,100\n' $iteration $layer
    done
done >>drift.csv
"$dynmo" import csv drift.csv -o drift.db >/dev/null || fail 'import of drift.csv'

# What holds and what does not.
prints 'lemma-1: holds under conditions
  Among the contiguous plans of a pipeline, one with the smallest (max - min) of the stage loads has
  the smallest largest stage, and so the smallest bubble.
  says: DynMo, Lemma 1
  2 stages                              holds: 335916 tried, none breaks it; largest stage / the smallest possible at most 1
      tried: 2 stages, 2 to 7 layers of weight 1 to 6
  3 stages                              fails: 55944 tried, 104 break it; largest stage / the smallest possible at most 1.167
      tried: 3 stages, 3 to 6 layers of weight 1 to 6
      smallest: [1 6 | 3 | 3]: the smallest difference is 4, and every plan that has it has a stage of 7 or more; the smallest possible is 6, at a difference of 5
  4 stages                              fails: 55728 tried, 218 break it; largest stage / the smallest possible at most 1.2
      tried: 4 stages, 4 to 6 layers of weight 1 to 6
      smallest: [1 6 | 3 | 3 | 3]: the smallest difference is 4, and every plan that has it has a stage of 7 or more; the smallest possible is 6, at a difference of 5
  3 to 5 stages, random layers          fails: 200 tried, 12 break it; largest stage / the smallest possible at most 1.154
      tried: 5 to 10 layers of weight 1 to 40, drawn evenly
      smallest: [16 27 18 29 | 31 29 9 | 36 18 17]: the smallest difference is 21, and every plan that has it has a stage of 90 or more; the smallest possible is 89, at a difference of 28
  A saturated pipeline idles 1 - mean/max whatever the smallest stage does. On two stages max - min
  = 2 max - total, so both are one; on three a plan can raise its smallest stage by raising its
  largest.' \
    --verdict --claim lemma-1 --instances 200

prints '[{"name":"guarantee","claim":"Where Algorithm 3 ends, the largest load is at most 2 - 2/(P+1) times that of the best assignment.","source":"derived here","answer":"holds under conditions","reason":"A rank with two layers that gives none away has its lightest >= max - min and <= max/2, so every rank carries max/2 or more. A lightest layer that weighs nothing lowers no variance, one that fits nowhere is offered again and again: either blocks its rank for good, and the ratio then comes as close to P as one likes: without a bound.","cases":[{"condition":"weights > 0, no caps","holds":true,"searched":"2 to 4 stages, 1 to 6 layers of weight 1 to 4, every start","examined":589012,"violations":0,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":1},"smallest_violation":null,"counterexample":null},{"condition":"weights > 0, no caps, random layers","holds":true,"searched":"4 to 14 layers of weight 1 to 2^1 up to 2^12 on 2 to 5 ranks, any start; those whose best assignment was found","examined":100,"violations":0,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":0.9375},"smallest_violation":null,"counterexample":null},{"condition":"layers without weight","holds":false,"searched":"2 to 3 stages, 1 to 5 layers of weight 0 to 3, every start","examined":33828,"violations":9821,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":2},"smallest_violation":"ends after 0 transfers with a largest load of 2; an assignment with 1 exists: 2 times, above 1.333","counterexample":{"stages":2,"weights":[0,1,1],"first_layer":[0,0,3]}},{"condition":"memory caps","holds":false,"searched":"2 to 3 stages, 1 to 5 layers of weight 1 to 2 and 1 to 2 bytes, caps of 1 to 4, every start","examined":5698,"violations":3,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":1.33333333},"smallest_violation":"ends after 0 transfers with a largest load of 4; an assignment with 2 exists: 2 times, above 1.5","counterexample":{"stages":3,"weights":[1,1,2,2],"first_layer":[0,1,2,4],"bytes":[2,1,2,1],"cap_bytes":[4,4,4]}}],"growth":{"family":"largest load / best assignment, with weights > 0 of [P P | 1 x P | ...]; with [0, 1 x P | | ...]; with caps of 3 bytes and [1:2, 2:0 x 32P | 1:2 | ...]:","rows":[{"stages":2,"2 - 2/(P+1)":1.33333333,"weights > 0":1.33333333,"a zero weight":2,"memory caps":1.98461538},{"stages":3,"2 - 2/(P+1)":1.5,"weights > 0":1.5,"a zero weight":3,"memory caps":2.96923077},{"stages":4,"2 - 2/(P+1)":1.6,"weights > 0":1.6,"a zero weight":4,"memory caps":3.95384615},{"stages":8,"2 - 2/(P+1)":1.77777778,"weights > 0":1.77777778,"a zero weight":8,"memory caps":7.89230769},{"stages":16,"2 - 2/(P+1)":1.88235294,"weights > 0":1.88235294,"a zero weight":16,"memory caps":15.7692308},{"stages":32,"2 - 2/(P+1)":1.93939394,"weights > 0":1.93939394,"a zero weight":32,"memory caps":31.5230769},{"stages":64,"2 - 2/(P+1)":1.96923077,"weights > 0":1.96923077,"a zero weight":64,"memory caps":63.0307692}]}},{"name":"whole-tokens","claim":"Neighbours on a path who share whole tokens, half of the difference rounded down, come to max - min <= 1.","source":"what averaging would give if load were divisible","answer":"holds under conditions","reason":"Half of a difference of 1, rounded down, is nothing: a staircase of N - 1 steps moves no more. The odd token to either side by chance ends that; layers are no unit tokens, their floor is about the largest layer.","cases":[{"condition":"2 nodes","holds":true,"searched":"every load of 0 to 12 tokens","examined":169,"violations":0,"worst":{"name":"max - min at the end","value":1},"smallest_violation":null,"counterexample":null},{"condition":"3 nodes","holds":false,"searched":"every load of 0 to 12 tokens","examined":2197,"violations":566,"worst":{"name":"max - min at the end","value":2},"smallest_violation":"tokens (0 1 2) freeze after 0 rounds with max - min 2","counterexample":null},{"condition":"5 nodes","holds":false,"searched":"every load of 0 to 6 tokens","examined":16807,"violations":10070,"worst":{"name":"max - min at the end","value":4},"smallest_violation":"tokens (0 0 0 1 2) freeze after 0 rounds with max - min 2","counterexample":null}],"growth":{"family":"16 tokens per node, all on node 0 of a path; left: max - min where it freezes; with the odd token to either side by chance: rounds to max - min <= 3 (median of 9), and max - min after four times as many more (worst of 9):","rows":[{"nodes":8,"rounds":38,"left":6,"random: rounds":39,"random: left":0},{"nodes":16,"rounds":120,"left":14,"random: rounds":174,"random: left":0},{"nodes":32,"rounds":286,"left":30,"random: rounds":676,"random: left":0},{"nodes":64,"rounds":573,"left":44,"random: rounds":2791,"random: left":0}]}}]' \
    --verdict --claim guarantee --claim whole-tokens --instances 100 --seed 7 --json

"$dynmo" converge --verdict --json >all.json || fail 'all claims'
for claim in lemma-1 lemma-2-potential lemma-2-rounds termination guarantee released-code cut-diffusion theorem-r \
    fold-matching whole-tokens; do
    grep -qF "{\"name\":\"$claim\"," all.json || fail "no $claim"
done

# The same of given layers.
prints '4 layers of together 13.0 ms on 3 stages, from the even split
contiguous optimum 6.00 ms; no assignment in any order is below 6.00 ms (attained); gamma 4.33 ms

  balancer                 largest  / contiguous  / any order  transfers  iterations  phi / gamma
  even                     7.00 ms        1.1667       1.1667          -           -        1.846
  parameters            weighing by parameters needs parameters
  parameters-legacy     weighing by parameters needs parameters
  tuned                    6.00 ms        1.0000       1.0000          -           -        2.308
  partition                6.00 ms        1.0000       1.0000          -           -        2.308
  diffusion-published      6.00 ms        1.0000       1.0000          1           2        1.385  out of order: loads only
  diffusion-coded          6.00 ms        1.0000       1.0000          1           5        1.385  out of order: loads only
  diffusion                7.00 ms        1.1667       1.1667          -           -        1.846
  makespan              needs a schedule to play

lemma-1: fails
  the smallest (max - min) of any contiguous plan is 4000000 ns, with a largest stage of 7000000 ns;
  the smallest largest stage is 6000000 ns
lemma-2: fails
  Algorithm 3 ends at phi 6000000 ns, gamma is 4333333 ns; transfers 1, iterations 1, bound 3189
  good rounds
termination: holds
  further transfers from where Algorithm 3 ended: 0
guarantee: holds
  largest load 1 times the lower bound of any assignment, 2 - 2/(P+1) = 1.5; promised: every layer
  takes time, no caps, equal ranks' \
    --verdict --loads loads.json --stages 3

prints '{"layers":8,"stages":3,"total_ns":5000,"start":"current","zero_layers":3,"memory_caps":false,"equal_ranks":true,"contiguous_optimum_ns":2000,"assignment_lower_bound_ns":2000,"assignment_best_found_ns":2000,"gamma_ns":1e+03,"bound_paper_rounds":3684,"balancers":[{"balancer":"even","refusal":null,"executable":true,"load_max_ns":3000,"contiguous_ratio":1.5,"assignment_ratio":1.5,"transfers":null,"iterations":null,"phi_ns":6e+03,"within_gamma":false},{"balancer":"parameters","refusal":"weighing by parameters needs parameters"},{"balancer":"parameters-legacy","refusal":"weighing by parameters needs parameters"},{"balancer":"tuned","refusal":null,"executable":true,"load_max_ns":2000,"contiguous_ratio":1,"assignment_ratio":1,"transfers":null,"iterations":null,"phi_ns":2e+03,"within_gamma":false},{"balancer":"partition","refusal":null,"executable":true,"load_max_ns":2000,"contiguous_ratio":1,"assignment_ratio":1,"transfers":null,"iterations":null,"phi_ns":2e+03,"within_gamma":false},{"balancer":"diffusion-published","refusal":null,"executable":false,"load_max_ns":5000,"contiguous_ratio":2.5,"assignment_ratio":2.5,"transfers":0,"iterations":1,"phi_ns":1e+04,"within_gamma":false},{"balancer":"diffusion-coded","refusal":null,"executable":false,"load_max_ns":2000,"contiguous_ratio":1,"assignment_ratio":1,"transfers":4,"iterations":5,"phi_ns":2e+03,"within_gamma":false},{"balancer":"diffusion","refusal":null,"executable":true,"load_max_ns":2000,"contiguous_ratio":1,"assignment_ratio":1,"transfers":null,"iterations":null,"phi_ns":2e+03,"within_gamma":false},{"balancer":"makespan","refusal":"needs a schedule to play"}],"claims":[{"name":"lemma-1","answer":"holds","text":"the smallest (max - min) of any contiguous plan is 1000 ns, with a largest stage of 2000 ns; the smallest largest stage is 2000 ns"},{"name":"lemma-2","answer":"fails","text":"Algorithm 3 ends at phi 10000 ns, gamma is 1000 ns; transfers 0, iterations 0, bound 3684 good rounds"},{"name":"termination","answer":"holds","text":"further transfers from where Algorithm 3 ended: 0"},{"name":"guarantee","answer":"fails, and is not promised","text":"largest load 2.5 times the lower bound of any assignment, 2 - 2/(P+1) = 1.5; not promised: 3 layers without weight, no caps, ranks equal"}]}' \
    --verdict --loads zero.json --stages 3 --gamma 1000 --json

# Discrete balancers on drawn layers; threads change nothing, other sizes neither.
prints '60 instances each of 2 families and sizes, seed 1, from the even split; any assignment: its lower bound

all
                          load / any assignment        load / contiguous     worse than contiguous  transfers/layer
  balancer                 mean     p95     max     mean     p95     max     share (95 % interval)    mean     max
  even                   1.2008  1.4526  1.6093   1.0678  1.2675  1.3669    71.7 % ( 62.7 -  79.5)   0.000   0.000
  partition              1.1236  1.2424  1.3114   1.0000  1.0000  1.0000     0.0 % (  0.0 -   3.0)   0.000   0.000
  diffusion              1.1419  1.2818  1.3476   1.0158  1.0856  1.1575    35.8 % ( 27.3 -  45.1)   0.000   0.000
  diffusion-published    1.0936  1.1956  1.3389   0.9747  1.0247  1.1460    11.7 % (  6.5 -  18.8)   0.066   0.167
  diffusion-coded        1.0938  1.1960  1.3389   0.9748  1.0247  1.1460    10.8 % (  5.9 -  17.8)   0.100   0.208

moe, 24 layers on 4 stages: every second layer waits for its fullest expert, up to 3 times
                          load / any assignment        load / contiguous     worse than contiguous  transfers/layer
  balancer                 mean     p95     max     mean     p95     max     share (95 % interval)    mean     max
  even                   1.1166  1.2380  1.2947   1.0452  1.1196  1.2163    65.0 % ( 51.6 -  76.9)   0.000   0.000
  partition              1.0681  1.1175  1.1302   1.0000  1.0000  1.0000     0.0 % (  0.0 -   6.0)   0.000   0.000
  diffusion              1.0722  1.1292  1.1476   1.0038  1.0254  1.0454    16.7 % (  8.3 -  28.5)   0.000   0.000
  diffusion-published    1.0486  1.0784  1.0985   0.9823  1.0021  1.0053    10.0 % (  3.8 -  20.5)   0.054   0.167
  diffusion-coded        1.0479  1.0784  1.0985   0.9817  1.0021  1.0053     8.3 % (  2.8 -  18.4)   0.086   0.167

moe, 24 layers on 8 stages: every second layer waits for its fullest expert, up to 3 times
                          load / any assignment        load / contiguous     worse than contiguous  transfers/layer
  balancer                 mean     p95     max     mean     p95     max     share (95 % interval)    mean     max
  even                   1.2851  1.4918  1.6093   1.0904  1.3118  1.3669    78.3 % ( 65.8 -  87.9)   0.000   0.000
  partition              1.1792  1.2554  1.3114   1.0000  1.0000  1.0000     0.0 % (  0.0 -   6.0)   0.000   0.000
  diffusion              1.2115  1.3068  1.3476   1.0277  1.1158  1.1575    55.0 % ( 41.6 -  67.9)   0.000   0.000
  diffusion-published    1.1387  1.2319  1.3389   0.9671  1.0773  1.1460    13.3 % (  5.9 -  24.6)   0.077   0.167
  diffusion-coded        1.1397  1.2319  1.3389   0.9680  1.0773  1.1460    13.3 % (  5.9 -  24.6)   0.114   0.208' \
    --layers 24 --stages 4,8 --family moe --instances 60

# Ranks of several chunks on the same layers; the other rows stay.
"$dynmo" converge --layers 24 --stages 4,8 --family moe --instances 60 --chunks 2 >chunks || fail 'chunks'
"$dynmo" converge --layers 24 --stages 4,8 --family moe --instances 60 >one_chunk || fail 'one chunk'
sed -e '/^ranks of 2 chunks: /d' -e '/^  v-partition /d' -e '/^  interleaved-partition /d' -e 's/  */ /g' chunks >others
sed 's/  */ /g' one_chunk | cmp -s - others || fail 'chunks change the other rows'
sed -n '/^moe, 24 layers on 8/,$p' chunks | grep -E '^  (interleaved|v)-partition' >found
cat >wanted <<'EOF'
  interleaved-partition    1.0962  1.1462  1.1706   0.9310  0.9903  0.9995     0.0 % (  0.0 -   6.0)   0.000   0.000
  v-partition              1.1056  1.1471  1.1702   0.9390  0.9971  1.0300     3.3 % (  0.4 -  11.5)   0.000   0.000
EOF
diff wanted found || fail 'balancers of several chunks'
"$dynmo" converge --layers 24 --stages 6 --family moe --instances 5 --chunks 3 --json >three.json || fail 'three chunks'
[ "$(grep -o '"chunks":3\|"balancer":"[a-z-]*-partition"' three.json | sort | uniq -c | tr -s ' ' | tr '\n' ';')" = \
    ' 2 "balancer":"interleaved-partition"; 1 "chunks":3;' ] || fail 'three chunks: rows'

"$dynmo" converge --layers 12,40 --stages 3,9 --instances 70 --threads 1 --json >one.json || fail 'one thread'
"$dynmo" converge --layers 12,40 --stages 3,9 --instances 70 --threads 3 --json >three.json || fail 'three threads'
cmp one.json three.json || fail 'threads change the trials'

# Loads that drift.
prints 'trace '\''drift.db'\'': 4 layers on 2 stages, 6 samples of iterations 0 to 5; odd-even; divisible layers
loads and gaps (max - min) in units of the mean stage load

                                    gap after the rounds                  gap as executed   max load
      rounds  drift max       mean        max      bound       mean        max      bound       mean
           1    0.03449          0          0          0    0.04656    0.04878    0.04878      1.023
           2    0.03449          0          0          0    0.04656    0.04878    0.04878      1.023
       exact    0.03449          0          0          0    0.04656    0.04878    0.04878      1.023

fewest rounds per iteration that keep the gap after them within 0.05: 1 (largest gap 0)

what whole layers leave, each decided from the times that are executed
  balancer               gap mean    gap max  load mean   load max      layers moved
  even                     0.1146     0.2222      1.057      1.111                 0
  partition                0.1146     0.2222      1.057      1.111                 0
  diffusion                0.1146     0.2222      1.057      1.111                 0
  diffusion-published      0.1146     0.2222      1.057      1.111                 0' \
    --trace drift.db --stages 2 --scheme odd-even --rounds-per-iteration 1,2

prints '{"scheme":"first-order","stages":4,"trace":"drift.db","layers":4,"samples":4,"exact":{"rounds_per_iteration":6,"iterations":3,"drift_mean":0.0682927962,"drift_max":0.0751677721,"gap_after_mean":0,"gap_after_max":0,"gap_after_bound":0,"gap_executed_mean":0.0817715876,"gap_executed_max":0.0887445887,"gap_executed_bound":0.106303283,"imbalance_ratio_mean":1.05850738,"imbalance_ratio_max":1.06493506},"tolerance":0.01,"budget":{"rounds_per_iteration":7,"iterations":3,"drift_mean":0.0683892711,"drift_max":0.0751677721,"gap_after_mean":0.0062643446,"gap_after_max":0.0064911469,"gap_after_bound":0.0103069893,"gap_executed_mean":0.0859861902,"gap_executed_max":0.0887445887,"gap_executed_bound":0.116610272,"imbalance_ratio_mean":1.06069572,"imbalance_ratio_max":1.06493506},"whole_layers":[{"balancer":"even","gap_mean":0.232685824,"gap_max":0.363636364,"imbalance_ratio_mean":1.17451437,"imbalance_ratio_max":1.27272727,"layers_moved_mean":0},{"balancer":"partition","gap_mean":0.232685824,"gap_max":0.363636364,"imbalance_ratio_mean":1.17451437,"imbalance_ratio_max":1.27272727,"layers_moved_mean":0},{"balancer":"diffusion","gap_mean":0.232685824,"gap_max":0.363636364,"imbalance_ratio_mean":1.17451437,"imbalance_ratio_max":1.27272727,"layers_moved_mean":0},{"balancer":"diffusion-published","gap_mean":0.232685824,"gap_max":0.363636364,"imbalance_ratio_mean":1.17451437,"imbalance_ratio_max":1.27272727,"layers_moved_mean":0}],"points":[{"rounds_per_iteration":3,"iterations":3,"drift_mean":0.0687473401,"drift_max":0.0751677721,"gap_after_mean":0.0311767226,"gap_after_max":0.0356297348,"gap_after_bound":0.0581391959,"gap_executed_mean":0.101379025,"gap_executed_max":0.10977233,"gap_executed_bound":0.164442479,"imbalance_ratio_mean":1.06868617,"imbalance_ratio_max":1.07073643}]}' \
    --trace drift.db --stages 4 --rounds-per-iteration 3 --tolerance 0.01 --iterations 1:4 --json

prints '6 stages, second-order; drift: l2 norm of what an iteration changes
loads and gaps (max - min) in units of the mean stage load; the last 100 iterations

steady drift, along the slowest mode
                                    gap after the rounds                  gap as executed   max load
      rounds      drift       mean        max      bound       mean        max      bound       mean
           1       0.01     0.0721     0.0721    0.09142    0.08325    0.08325     0.1056      1.042
          10       0.01  0.0002824  0.0002824   0.000358    0.01144    0.01144     0.0145      1.006
           1        0.1      0.721      0.721     0.9142     0.8325     0.8325      1.056      1.416
          10        0.1   0.002824   0.002824    0.00358     0.1144     0.1144      0.145      1.057

random drift
                                    gap after the rounds                  gap as executed   max load
      rounds      drift       mean        max      bound       mean        max      bound       mean
           1       0.01    0.01312    0.03019    0.09142    0.01838    0.03331     0.1056      1.009
          10       0.01  0.0001738  0.0002821   0.000358    0.01199    0.01412     0.0145      1.006
           1        0.1     0.1312     0.3019     0.9142     0.1838     0.3331      1.056      1.092
          10        0.1   0.001738   0.002821    0.00358     0.1199     0.1412      0.145      1.061' \
    --drift 0.01,0.1 --stages 6 --scheme second-order --rounds-per-iteration 1,10

"$dynmo" converge --trace moe.db --stages 4 --scheme max-neighbor --threads 1 --json >one.json || fail 'one thread'
"$dynmo" converge --trace moe.db --stages 4 --scheme max-neighbor --threads 3 --json >three.json || fail 'three threads'
cmp one.json three.json || fail 'threads change the drift'
if command -v gnuplot >/dev/null 2>&1; then
    "$dynmo" converge --trace moe.db --stages 4 --figure trace.svg >/dev/null || fail 'figure of a trace'
    "$dynmo" converge --drift 0.01,0.1 --stages 4 --figure drift.svg >/dev/null || fail 'figure of drifts'
    for figure in trace.svg drift.svg; do
        grep -q '<svg' $figure || fail "$figure is no figure"
        grep -q 'bound' $figure || fail "$figure has no bound"
    done
fi

# Wrong words, numbers and files.
refuse 2 '--nodes does not belong to --verdict' --verdict --nodes 4
refuse 2 '--claim: unknown '\''lemma'\''; known: lemma-1, lemma-2-potential, lemma-2-rounds, termination, guarantee, released-code, cut-diffusion, theorem-r, fold-matching, whole-tokens' --verdict --claim lemma
refuse 2 '--verdict: --stages needs --loads' --verdict --stages 3
refuse 2 'dynmo converge: --stages is needed' --verdict --loads loads.json
refuse 2 '--verdict --loads draws nothing: --claim does not belong' --verdict --loads loads.json --stages 3 --claim lemma-1
refuse 2 'stage_count 5 exceeds layer_count 4 and empty stages are not allowed' --verdict --loads loads.json --stages 5
refuse 2 '--stages: 0 is outside [1, 4096]' --verdict --loads loads.json --stages 0
refuse 2 'bad.json: forward_ns[1]: -2 is outside [0, 9007199254740992]' --verdict --loads bad.json --stages 2
refuse 2 'the layers take no time at all: nothing to balance' --verdict --loads idle.json --stages 2
refuse 2 '--gamma: 0 is outside [1, 1e+18]' --verdict --loads loads.json --stages 2 --gamma 0
refuse 2 '--instances: 0 is outside [1, 1000000]' --verdict --instances 0
refuse 2 '--loads needs --verdict' --loads loads.json
refuse 2 '--claim needs --verdict' --claim lemma-1
refuse 2 '--stages needs --verdict or --layers or --trace or --drift' --stages 4
refuse 2 'every number of stages exceeds every number of layers: 8 stages, 4 layers' --layers 4,5 --stages 8
refuse 2 '2 chunks on each of 8 stages exceed every number of layers: 12' --layers 12 --stages 8 --chunks 2
refuse 2 '--chunks: 1 is outside [2, 64]' --layers 12 --stages 2 --chunks 1
refuse 2 '--stages: '\'''\'' is not an integer' --layers 24 --stages 4,
refuse 2 '--layers: more than 16 numbers' --layers 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 --stages 1
refuse 2 '--family: unknown '\''dense'\''; known: uniform, lognormal, freezing, early-exit, pruning, moe, mod, heavy-ends' --layers 24 --stages 4 --family dense
refuse 2 '8 families and sizes with 2000000 instances each make 16000000, more than 2000000' --layers 24 --stages 4 --instances 2000000
refuse 2 '--scheme does not belong to --layers' --layers 24 --stages 4 --scheme scan
refuse 2 'dynmo converge: --stages is needed' --trace drift.db
refuse 2 '--stages: 0 is outside [2, 512]' --trace drift.db --stages 0
refuse 2 '4 layers do not make 5 stages' --trace drift.db --stages 5
refuse 2 'drift.db: no trace '\''other'\''; known: drift' --trace drift.db --stages 2 --trace-name other
refuse 2 'drift.db: trace '\''drift'\'': drift needs two samples in iterations 3:3, not 1; it has them from 0 to 5' --trace drift.db --stages 2 --iterations 3:3
refuse 2 '--drift does not belong to --trace, which drifts' --trace drift.db --stages 2 --drift 1
refuse 2 '--rounds-per-iteration: 0 is outside [1, 1048576]' --trace drift.db --stages 2 --rounds-per-iteration 0
refuse 2 '--tolerance: -1 is outside [0, 1000]' --trace drift.db --stages 2 --tolerance -1
refuse 2 'loads.json: not a SQLite file' --trace loads.json --stages 2
refuse 2 '--drift: '\''nan'\'' is not a number' --drift nan --stages 4
refuse 2 '--drift: '\'''\'' is not a number' --drift 1,,2 --stages 4
refuse 2 '--tolerance needs --trace' --drift 0.1 --stages 4 --tolerance 1
refuse 2 'no bound on drift is known for dimension-exchange' --drift 0.1 --stages 4 --scheme dimension-exchange
refuse 2 '--scheme: unknown '\''odd'\''; known: max-neighbor, odd-even, first-order, second-order, chebyshev, dimension-exchange, scan' --drift 0.1 --stages 4 --scheme odd
refuse 1 'nowhere.db: No such file or directory' --trace nowhere.db --stages 2
refuse 1 'nowhere.json: No such file or directory' --verdict --loads nowhere.json --stages 2

exit $failed
