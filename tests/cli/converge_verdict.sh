# dynmo converge --verdict: what other programs rely on, what people see, and every
# way to be wrong. usage: converge_verdict.sh DYNMO
. cli/expect.sh
subject=converge

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

prints '[{"name":"guarantee","claim":"Where Algorithm 3 ends, the largest load is at most 2 - 2/(P+1) times that of the best assignment.","source":"derived here","answer":"holds under conditions","reason":"A rank with two layers that gives none away has its lightest >= max - min and <= max/2, so every rank carries max/2 or more. A lightest layer that weighs nothing lowers no variance, one that fits nowhere is offered again and again: either blocks its rank for good, and the ratio then comes as close to P as one likes: without a bound.","cases":[{"condition":"weights > 0, no caps","holds":true,"searched":"2 to 4 stages, 1 to 6 layers of weight 1 to 4, every start","examined":589012,"violations":0,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":1},"smallest_violation":null,"counterexample":null},{"condition":"weights > 0, no caps, random layers","holds":true,"searched":"4 to 14 layers of weight 1 to 2^1 up to 2^12 on 2 to 5 ranks, any start; those whose best assignment was found","examined":100,"violations":0,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":0.9375},"smallest_violation":null,"counterexample":null},{"condition":"layers without weight","holds":false,"searched":"2 to 3 stages, 1 to 5 layers of weight 0 to 3, every start","examined":33828,"violations":9821,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":2},"smallest_violation":"ends after 0 transfers with a largest load of 2; an assignment with 1 exists: 2 times, above 1.333","counterexample":{"stages":2,"weights":[0,1,1],"first_layer":[0,0,3]}},{"condition":"memory caps","holds":false,"searched":"2 to 3 stages, 1 to 5 layers of weight 1 to 2 and 1 to 2 bytes, caps of 1 to 4, every start","examined":5698,"violations":3,"worst":{"name":"(load / best) / (2 - 2/(P+1))","value":1.33333333},"smallest_violation":"ends after 0 transfers with a largest load of 4; an assignment with 2 exists: 2 times, above 1.5","counterexample":{"stages":3,"weights":[1,1,2,2],"first_layer":[0,1,2,4],"bytes":[2,1,2,1],"cap_bytes":[4,4,4]}}]}]' \
    --verdict --claim guarantee --instances 100 --seed 7 --json

"$dynmo" converge --verdict --json >all.json || fail 'all claims'
for claim in lemma-1 lemma-2-potential lemma-2-rounds termination guarantee released-code theorem-r; do
    grep -qF "{\"name\":\"$claim\"," all.json || fail "no $claim"
done

# Wrong words and numbers.
refuse 2 '--nodes does not belong to --verdict' --verdict --nodes 4
refuse 2 '--claim: unknown '\''lemma'\''; known: lemma-1, lemma-2-potential, lemma-2-rounds, termination, guarantee, released-code, theorem-r' --verdict --claim lemma
refuse 2 '--instances: 0 is outside [1, 1000000]' --verdict --instances 0
refuse 2 '--claim needs --verdict' --claim lemma-1

exit $failed
