# `dynmo probe`: the file that it writes is one that the other commands read, and says where its
# numbers come from; and every way to ask wrongly. How fast anything is, nobody asks here.
# usage: probe.sh DYNMO, in tests/
. cli/expect.sh
subject=probe
quick='--model gpt-bytes --tokens 16 --seconds 0.001 --bytes 16777216'

# shellcheck disable=SC2086 # words of their own
"$dynmo" probe $quick -o hardware.json --name mine >page || fail 'probe'
grep -q '^cpu: cpu, products of gpt-bytes with 16 tokens$' page || fail 'page without its head'
grep -q '^  query, key, value, F *16 x *192 x *64 ' page || fail 'page without its products'
grep -q '^  head, W *64 x *256 x *16 ' page || fail 'page without the head'
grep -qF "$(cat hardware.json)" page || fail 'page without the file'
for word in '"schema":"dynmo-hardware/1"' '"name":"mine"' '"flop_per_s":{"float32":' '"gemm":' \
    '"kind":"measured","text":"the fastest of' 'probe --model gpt-bytes' \
    'intra measured over local, 9 sizes and pairs, within' 'inter as intra'; do
    grep -qF -- "$word" hardware.json || fail "no $word in the file"
done

# Whoever takes hardware takes it.
"$dynmo" model --model gpt-bytes --hardware hardware.json --dtype float32 >modelled || fail 'model'
grep -q '^gpt-bytes on mine: ' modelled || fail 'model does not name it'
printf '{"schema":"dynmo-study/1","model":"gpt-bytes","hardware":"hardware.json","training":
{"iterations":2,"microbatches":4,"dtype":"float32"},"pipeline":{"stages":2}}' >study.json
"$dynmo" simulate study.json >simulated || fail 'simulate'
grep -q '^  measured *cluster.links.intra.latency_ns' simulated || fail 'a link that is not called measured'

# Three ranks have three links; what is not measured is the preset's.
# shellcheck disable=SC2086
"$dynmo" probe $quick --ranks 3 --json >three || fail 'three ranks'
[ "$(grep -o '"from":' three | wc -l)" -eq 27 ] || fail 'not 3 pairs x 9 sizes'
grep -q '^{"schema":"dynmo-probe/1","device":"cpu","backend":"cpu","transport":"local",' three || fail 'JSON'
# shellcheck disable=SC2086
"$dynmo" probe $quick --ranks 1 --hardware h100-sxm -o alone.json >page || fail 'one rank'
grep -q '"intra":{"latency_ns":[0-9]*,"bytes_per_s":450000000000}' page || fail 'not the links of the preset'
grep -q '"links":{"kind":"preset","text":"[^"]*intra as h100-sxm; inter as h100-sxm"}' alone.json ||
    fail 'links of a preset that are called measured'
grep -q '"gpus_per_node":8,' alone.json || fail 'not the node of the preset'

# Experts: one of them, with its part of the rows.
cat >moe.json <<'END'
{"model_type":"mixtral","hidden_size":32,"intermediate_size":48,"num_attention_heads":4,
 "num_hidden_layers":3,"num_key_value_heads":2,"num_local_experts":4,"num_experts_per_tok":2,
 "max_position_embeddings":64,"vocab_size":50,"sliding_window":null,"tie_word_embeddings":false}
END
"$dynmo" probe --model moe.json --tokens 16 --seconds 0.001 --bytes 16777216 --json >experts ||
    fail 'a model with experts'
for product in '"MLP in, F","rows":8,"columns":96,"inner":32,"repeat":12,"flop":49152' \
    '"MLP out, W","rows":48,"columns":32,"inner":8,"repeat":12' \
    '"query, key, value, B","rows":16,"columns":32,"inner":64,"repeat":3' \
    '"head, F","rows":16,"columns":50,"inner":32,"repeat":1'; do
    grep -qF -- "{\"name\":$product," experts || fail "no $product"
done

refuse 2 'links are between ranks: one rank has none, and --hardware names none to take instead' --ranks 1
refuse 2 "--device: unknown 'x'; known: cpu, cuda" --device x
refuse 2 "--transport: unknown 'udp'; known: local, mpi, tcp, nccl" --transport udp
refuse 2 '--precision: device cpu computes in fp32' --precision fp32
refuse 2 '--transport nccl: moves the memory of GPUs; device cpu has none' --transport nccl
refuse 2 '--hardware is needed on cuda: efficiency is told as a share of its dense peak, which no product reaches' \
    --device cuda
refuse 2 '--ranks: 65 is outside [1, 64]' --ranks 65
refuse 2 "--seconds: 0 is outside [0.001, 60]" --seconds 0
refuse 2 '--bytes: 100 is outside [4096, 68719476736]' --bytes 100
refuse 1 'missing/hardware.json: No such file or directory' -o missing/hardware.json
OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 "$dynmo" probe >out 2>err
grep -q '^dynmo: OMPI_COMM_WORLD_SIZE=3: a launcher has started several processes' err || fail 'a launcher unseen'
exit $failed
