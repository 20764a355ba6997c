# Links that nccl-tests measured in a study: what is listed, drawn, simulated and refused.
# Usage: study_links.sh DYNMO
seeds=$(cd fuzz/seeds/fuzz_measured_link && pwd)
. cli/expect.sh
subject=study
mkdir measured
cp "$seeds/sendrecv.json" measured/inter.json

# study NAME LINKS MORE: a study of two sizes of microbatches.
study() {
    cat >"$1.json" <<END
{"schema":"dynmo-study/1","name":"links","model":"gpt2","hardware":"h100-sxm",
 "cluster":{"gpus":16,"links":{$2}},
 "training":{"global_batch":64,"sequence_length":1024,"microbatch_size":1,"data_parallel":"fill",
             "tokens":1000000000},
 "pipeline":{"stages":4,"schedule":"1f1b"},
 "balancing":[{"balancer":"tuned"}],
 "vary":{"training.microbatch_size":[1,2]}$3}
END
}

# has TEXT WORD...: dynmo succeeds, and a line of its output has the text.
has() {
    wanted=$1
    shift
    "$dynmo" "$@" >out 2>err || { fail "dynmo $*" && cat err; }
    grep -q -- "$wanted" out || { fail "dynmo $*: no '$wanted'" && cat out; }
}

study measured '"inter":{"measured":"measured/inter.json"}' ''

# single NAME LINKS: the study without its matrix, as `dynmo simulate` takes it.
single() {
    study "$1" "$2" ''
    sed -i '/"vary"/d; s/"balancer":"tuned"}],/"balancer":"tuned"}]}/' "$1.json"
}
single single '"inter":{"measured":"measured/inter.json"}'
has 'fitted *cluster.links.inter.latency_ns  *11990 +- 71.7 ns, of 19 sizes in measured/inter.json' \
    simulate single.json
has 'fitted *cluster.links.inter.bytes_per_s  *20070597700 +- 8e+07 B/s, of 19 sizes in measured/inter.json' \
    simulate single.json

# Its interval is drawn, by the name of the file; the other link stays as the hardware has it.
has 'cluster.links.inter.latency_ns of measured/inter.json' study measured.json
has ', normal; fitted: least squares' study measured.json
has '"origin":"fitted"' study measured.json --json
has 'cluster.links.intra.latency_ns of h100-sxm' study measured.json
has '^What to measure next' study measured.json

# The fit plays like its numbers, given.
latency=$("$dynmo" simulate single.json | sed -n 's/.*inter.latency_ns  *\([0-9]*\) .*/\1/p')
rate=$("$dynmo" simulate single.json | sed -n 's/.*inter.bytes_per_s  *\([0-9]*\) .*/\1/p')
study given "\"inter\":{\"latency_ns\":$latency,\"bytes_per_s\":$rate}" ''
"$dynmo" study measured.json --draws 0 --csv measured.csv >page
"$dynmo" study given.json --draws 0 --csv given.csv >page
[ -s given.csv ] || fail 'no table'
cmp -s measured.csv given.csv || fail 'a measured link does not play like its numbers'

# A declared range stands before the fitted one; files may be an axis.
study declared '"inter":{"measured":"measured/inter.json"}' \
    ',"uncertainty":{"draws":30,"ranges":{"cluster.links.inter.latency_ns":[5000,50000]}}'
has '5000 .. 5e+04 ns, uniform; declared' study declared.json
cp "$seeds/slow.json" other.json
study axis '"inter":{"measured":"measured/inter.json"}' ''
sed -i 's|"vary":{|"vary":{"cluster.links.inter.measured":["measured/inter.json","other.json"],|' axis.json
has '^20 draws of 15 uncertain inputs' study axis.json --draws 20
has '^20 draws of 13 uncertain inputs' study measured.json --draws 20

# refuse_link CODE MESSAGE LINK
subject=simulate
refuse_link() {
    single refused "$3"
    refuse "$1" "$2" refused.json
}
refuse_link 2 'refused.json: cluster.links.inter.measured: stands beside latency_ns, which it gives' \
    '"inter":{"measured":"other.json","latency_ns":3}'
single half '"inter":{"latency_ns":3}'
has 'given  *cluster.links.inter.latency_ns  *3 ns' simulate half.json
has 'preset  *cluster.links.inter.bytes_per_s' simulate half.json
refuse_link 1 'none.json: No such file or directory' '"intra":{"measured":"none.json"}'
exit $failed
