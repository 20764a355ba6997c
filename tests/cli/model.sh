# dynmo model: exact stdout, stderr and exit code.
# usage: model.sh DYNMO
. cli/expect.sh

subject=model

# prints_wanted ARGUMENT...: dynmo model prints what wanted holds.
prints_wanted() {
    prints "$(cat wanted)" "$@"
}

cat >config.json <<'END'
{"model_type":"mixtral","num_hidden_layers":2,"hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":8,"num_experts_per_tok":2,"max_position_embeddings":256,"vocab_size":1000}
END
cat >toy.json <<'END'
{"schema":"dynmo-hardware/1","name":"toy","flop_per_s":{"bfloat16":1000000000000},"efficiency":{"gemm":0.5,"attention":0.25,"memory":1},"memory_bytes":1000000000,"memory_bytes_per_s":100000000000,"gpus_per_node":4,"links":{"intra":{"latency_ns":1000,"bytes_per_s":10000000000},"inter":{"latency_ns":5000,"bytes_per_s":1000000000}},"source":{"efficiency":{"kind":"measured","text":"on the bench"}}}
END

# 1024 tokens of 64 numbers: the embedding moves 262144 bytes at 100 GB/s, W of the head is
# 2 * 1024 * 64 * 1000 FLOP at 0.5 TFLOP/s.
cat >wanted <<'END'
config.json on toy: sequence length 256, microbatch size 4, bfloat16, flash attention
448832 parameters, 227648 of them met by a token

layer                         F         B         W      parameters     state    F to B    B to W   message
0         embedding     2.62 us      0 ns   11.6 us           64000  1.10 MiB  8.00 KiB   136 KiB   128 KiB
1-2       experts        374 us    598 us    203 us          160384  2.75 MiB  2.50 MiB  2.39 MiB   128 KiB
3         head           367 us    328 us    262 us           64064  1.10 MiB  4.16 MiB  2.08 MiB
total                   1.12 ms   1.52 ms    681 us          448832  7.70 MiB  9.16 MiB  6.99 MiB

Inputs
given     model                          mixtral, 2 layers, hidden 64, 4/2 heads (config.json)
given     dropout                        none (config.json)
assumed   routing                        2 of 8 experts per token, all experts alike, none dropped (no trace of the router)
assumed   sequence_length                256 (the positions of the model)
given     microbatch_size                4
assumed   dtype                          bfloat16 (default, whatever the checkpoint is kept in)
assumed   attention                      flash, skips what the causal mask hides (default)
assumed   state_bytes_per_parameter      18 (Adam: weight, gradient, 32-bit moments, and a 32-bit copy of a 16-bit weight)
assumed   gradient_bytes_per_parameter   4 (default)
assumed   parallelism                    data 1, tensor 1, context 1, expert 1 (default)
assumed   recompute                      none (default)
assumed   sharding                       none (default)
given     hardware                       toy (toy.json)
given     flop_per_s                     1 TFLOP/s (toy.json)
measured  efficiency.gemm                0.5 (on the bench)
measured  efficiency.attention           0.25 (on the bench)
measured  efficiency.memory              1 (on the bench)
given     memory_bytes_per_s             100 GB/s (toy.json)
assumed   overhead                       0 ns (the hardware says none: small layers take longer than is said here)
END
prints_wanted --model config.json --hardware toy.json --microbatch-size 4
cat >wanted <<'END'
{"model":"config.json","hardware":"toy","sequence_length":256,"microbatch_size":4,"dtype":"bfloat16","attention":"flash","total_parameters":448832,"active_parameters":227648,"loads":{"forward_ns":[2621,374342,374342,367165],"backward_input_ns":[0,597950,597950,327516],"backward_weight_ns":[11612,203424,203424,262144],"parameters":[64000,160384,160384,64064],"state_bytes":[1152000,2886912,2886912,1153152],"activation_bytes":[8192,2621440,2621440,4358144],"embedding":true,"head":true},"gradient_bytes":[139264,2506752,2506752,2179072],"message_bytes":[131072,131072,131072,0],"reduction_ns":[0,0,0,0],"working_bytes":0,"part_ns":{"forward":{"projection":[0,50332,50332,262144],"attention":[0,134218,134218,0],"mlp":[0,153092,153092,0],"elementwise":[2621,36700,36700,105021],"tensor":[0,0,0,0],"context":[0,0,0,0],"expert":[0,0,0,0],"host":[0,0,0,0],"sharding":[0,0,0,0]},"backward_input":{"projection":[0,50332,50332,262144],"attention":[0,335544,335544,0],"mlp":[0,153092,153092,0],"elementwise":[0,58982,58982,65372],"tensor":[0,0,0,0],"context":[0,0,0,0],"expert":[0,0,0,0],"host":[0,0,0,0],"sharding":[0,0,0,0]},"backward_weight":{"projection":[0,50332,50332,262144],"attention":[0,0,0,0],"mlp":[0,153092,153092,0],"elementwise":[11612,0,0,0],"tensor":[0,0,0,0],"context":[0,0,0,0],"expert":[0,0,0,0],"host":[0,0,0,0],"sharding":[0,0,0,0]}},"forward_flop":[0,135266304,135266304,131072000],"backward_input_flop":[0,185597952,185597952,131072000],"backward_weight_flop":[0,101711872,101711872,131072000],"assumptions":[{"name":"model","value":"mixtral, 2 layers, hidden 64, 4/2 heads","kind":"given","source":"config.json"},{"name":"dropout","value":"none","kind":"given","source":"config.json"},{"name":"routing","value":"2 of 8 experts per token, all experts alike, none dropped","kind":"assumed","source":"no trace of the router"},{"name":"sequence_length","value":"256","kind":"assumed","source":"the positions of the model"},{"name":"microbatch_size","value":"4","kind":"given","source":""},{"name":"dtype","value":"bfloat16","kind":"assumed","source":"default, whatever the checkpoint is kept in"},{"name":"attention","value":"flash, skips what the causal mask hides","kind":"assumed","source":"default"},{"name":"state_bytes_per_parameter","value":"18","kind":"assumed","source":"Adam: weight, gradient, 32-bit moments, and a 32-bit copy of a 16-bit weight"},{"name":"gradient_bytes_per_parameter","value":"4","kind":"assumed","source":"default"},{"name":"parallelism","value":"data 1, tensor 1, context 1, expert 1","kind":"assumed","source":"default"},{"name":"recompute","value":"none","kind":"assumed","source":"default"},{"name":"sharding","value":"none","kind":"assumed","source":"default"},{"name":"hardware","value":"toy","kind":"given","source":"toy.json"},{"name":"flop_per_s","value":"1 TFLOP/s","kind":"given","source":"toy.json"},{"name":"efficiency.gemm","value":"0.5","kind":"measured","source":"on the bench"},{"name":"efficiency.attention","value":"0.25","kind":"measured","source":"on the bench"},{"name":"efficiency.memory","value":"1","kind":"measured","source":"on the bench"},{"name":"memory_bytes_per_s","value":"100 GB/s","kind":"given","source":"toy.json"},{"name":"overhead","value":"0 ns","kind":"assumed","source":"the hardware says none: small layers take longer than is said here"}]}
END
prints_wanted --model config.json --hardware toy.json --microbatch-size 4 --json

# One of the 2 x 2 x 4 GPUs of a stage: half of the heads and of every matrix, a quarter of the experts, half of
# the tokens. The embedding's 512 tokens of 64 numbers are summed and scattered over 2 GPUs: 1 us and 32768 bytes
# at 10 GB/s.
"$dynmo" model --model config.json --hardware toy.json --microbatch-size 4 --tensor 2 --sequence-parallel --data 4 --expert 4 --context 2 \
    --recompute full --sharding gradients --rank-order pipeline-first --layers 1 --gradient-bytes-per-parameter 2 >out || fail 'a stage of 16 GPUs'
for line in '0         embedding     5.59 us   4.28 us   43.2 us           32000   117 KiB  4.00 KiB  68.0 KiB  32.0 KiB' \
    '1         experts        179 us    412 us   50.9 us           25216   187 KiB  32.0 KiB   772 KiB  32.0 KiB' \
    'Beside state and what is kept, recomputation and sharding hold up to 721 KiB at a time.' \
    'given     rank_order                     pipeline-first' \
    'given     parallelism                    data 4, tensor 2 with sequence, context 2, expert 4'; do
    grep -qxF "$line" out || fail "no $line"
done

# The model of the DynMo paper has the figures that it is published with.
"$dynmo" model --model gpt-dynmo --hardware h100-sxm --microbatch-size 2 --attention unfused --json \
    >out || failed=1
for figure in '"forward_flop":[0,137438953472,' '"backward_input_flop":[0,171798691840,' \
    '"backward_weight_flop":[0,103079215104,' '"message_bytes":[8388608,' \
    '"total_parameters":355871744' ',1484783616,' '"gradient_bytes":[12615680,134217728,'; do
    grep -qF "$figure" out || fail "no $figure"
done

# Every shipped model runs on every shipped preset.
for model in gpt-bytes gpt-dynmo gpt-dynmo-body gpt2 gpt2-medium gpt2-xl llama-2-7b llama-3-8b llama-moe-3.5b mixtral-8x22b mixtral-8x7b gpt-megatron llama-3-70b llama-3.1-405b qwen3-30b-a3b qwen3-235b-a22b deepseek-v2 deepseek-v3 gpt-oss-20b gpt-oss-120b nemotron-3-nano nemotron-3-super; do
    for hardware in a100-sxm-80gb b200 b300 gb200-nvl72 gb300-nvl72 gh200 h100-dynmo h100-sxm h200-sxm h800-sxm; do
        if ! "$dynmo" model --model $model --hardware $hardware --json >out 2>err || [ -s err ]; then
            fail "$model on $hardware"
        fi
    done
done

refuse 2 'dynmo model: --model is needed' --hardware h100-sxm
refuse 2 'dynmo model: --hardware is needed' --model gpt2
refuse 2 'sequence_length 2048 exceeds the 1024 positions of the model' \
    --model gpt2 --hardware h100-sxm --sequence-length 2048
refuse 2 "--sequence-length: 0 is outside [1, 2147483647]" \
    --model gpt2 --hardware h100-sxm --sequence-length 0
refuse 2 "--microbatch-size: -1 is outside [1, 2147483647]" \
    --model gpt2 --hardware h100-sxm --microbatch-size -1
refuse 2 "--dtype 'int8' is not bfloat16, float16, float32, float8, tfloat32, mxfloat8 or nvfloat4" \
    --model gpt2 --hardware h100-sxm --dtype int8
refuse 2 "--recompute: unknown 'some'; known: none, selective, full, norms, activation, latent, mlp, offload, operators, early-stop" \
    --model gpt2 --hardware h100-sxm --recompute some
refuse 2 'recompute operators: of dense models with plain attention alone; take mlp for experts, latent attention and state-space mixers' \
    --model mixtral-8x7b --hardware h100-sxm --recompute operators
refuse 2 "--sharding: unknown 'zero'; known: none, optimizer, gradients, parameters" \
    --model gpt2 --hardware h100-sxm --sharding zero
refuse 2 "--rank-order: unknown 'tp-pp-dp'; known: data-first, pipeline-first" \
    --model gpt2 --hardware h100-sxm --rank-order tp-pp-dp
refuse 2 "--tensor: 0 is outside [1, 65536]" --model gpt2 --hardware h100-sxm --tensor 0
refuse 2 'tensor 5 does not divide the 12 attention heads' \
    --model gpt2 --hardware h100-sxm --tensor 5
refuse 2 'layer_count 16385 is outside [1, 16384]' --model gpt2 --hardware h100-sxm --layers 16385
refuse 1 "gpt3: No such file or directory; and no shipped model is named 'gpt3'; did you mean 'gpt2'?" \
    --model gpt3 --hardware h100-sxm
refuse 1 "h100-sx: No such file or directory; and no shipped hardware is named 'h100-sx'; did you mean 'h100-sxm'?" \
    --model gpt2 --hardware h100-sx
sed 's/1000000000000}/1979000000000000}/' toy.json >sparse.json
refuse 2 'sparse.json: flop_per_s.bfloat16: 1979000000000000 is what H100, H200 does with sparse matrices; dense ones, which training multiplies, reach 989 TFLOP/s' \
    --model gpt2 --hardware sparse.json

# A hybrid's layers, by letters and by words.
hybrid='{"model_type":"nemotron_h","num_hidden_layers":4,"hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,"mamba_num_heads":4,"mamba_head_dim":16,"ssm_state_size":16,"n_groups":2,"n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":96,"n_shared_experts":1,"moe_latent_size":16,"vocab_size":1000'
echo "$hybrid,\"hybrid_override_pattern\":\"M*-E\"}" >letters.json
echo "$hybrid,\"layers_block_type\":[\"mamba\",\"attention\",\"mlp\",\"moe\"]}" >words.json
for form in letters words; do
    "$dynmo" model --model $form.json --hardware h100-sxm --sequence-length 64 --json | sed "s/$form//g" >$form
done
{ [ -s letters ] && cmp -s letters words; } || fail 'a hybrid by words'
sed 's/"moe"\]/"xlstm"]/' words.json >word.json
refuse 2 "word.json: layers_block_type[3]: 'xlstm' is none of mamba, attention, mlp and moe" \
    --model word.json --hardware h100-sxm
sed 's/"mlp",//' words.json >few.json
refuse 2 'few.json: layers_block_type: has 3 entries, needs one for each of 4 layers' \
    --model few.json --hardware h100-sxm
sed 's/M\*-E/M*-X/' letters.json >letter.json
refuse 2 "letter.json: hybrid_override_pattern: 'X' is none of M, *, - and E" \
    --model letter.json --hardware h100-sxm
sed 's/M\*-E/M*E/' letters.json >row.json
refuse 2 'row.json: hybrid_override_pattern: has 3 letters, needs one for each of 4 layers' \
    --model row.json --hardware h100-sxm

exit "$failed"
