# What a study's "dynamism" may say: every case plays, twice with the same bytes; what does not fit is
# refused in one line, and nothing is written.
# usage: dynamism.sh DYNMO
. cli/expect.sh

over_model() { # over_model TEXT: 40 iterations of a model on 6 stages under a case
    printf '{"schema":"dynmo-study/1","model":"gpt-dynmo","hardware":"h100-sxm","pipeline":{"stages":6},"training":{"iterations":40,"microbatches":8,"data_parallel":2},"balancing":[{"balancer":"even"},{"balancer":"partition","policy":"on-change"}],"dynamism":{%s}}' \
        "$1" >s.json
}

plays() { # plays TEXT: succeeds, says which case it is, prints the same twice
    over_model "$1"
    "$dynmo" simulate s.json --json >first 2>err || fail "$1: $(cat err)"
    "$dynmo" simulate s.json --json >second 2>err || fail "$1: again"
    cmp -s first second || fail "$1: other bytes"
    grep -q '"dynamism.case"' first || fail "$1: not among the inputs"
}
plays '"case":"pruning","start_iteration":10,"end_iteration":30,"interval":10,"load_model":"published"'
plays '"case":"pruning","start_iteration":10,"end_iteration":30,"interval":10,"kernels":"sparse","kernel_density":[0.1,0.5],"kernel_time_ratio":[0.4,1.5]'
plays '"case":"freezing","interval":5'
plays '"case":"freezing","schedule":"list","freeze_at":[4,4,9,20],"cached_prefix":true'
plays '"case":"sparse-attention","per_microbatch":true'
plays '"case":"early-exit","interval":10'
plays '"case":"early-exit","exits":[5,11],"classifier":"head","attention_keys":"survivors"'
plays '"case":"mod","predictor_error_ratio":0.1'

# A case that begins after the end of the run says so, and only then.
still='The case pruning did not change the model in these 40 iterations.'
over_model '"case":"pruning"'
"$dynmo" simulate s.json | grep -qxF "$still" || fail 'nothing tells that pruning never begins'
over_model '"case":"pruning","start_iteration":10,"end_iteration":30,"interval":10'
"$dynmo" simulate s.json | grep -F "$still" && fail 'pruning that begins is said not to'

refuses() { # refuses TEXT MESSAGE
    over_model "$1"
    refuse 2 "s.json: $2" simulate s.json --store run.db
}
refuses '"case":"pruning","start_iteration":30,"end_iteration":10,"interval":10' \
    "dynamism: case 'pruning': the schedule ends before it starts: end_iteration 10 is not after start_iteration 30"
refuses '"case":"pruning","start_iteration":10,"end_iteration":35,"interval":10' \
    "dynamism: case 'pruning': the schedule lasts 25 iterations, which is no multiple of interval 10"
refuses '"case":"pruning","kernel_density":[0.1,0.5],"kernel_time_ratio":[0.9,0.5]' \
    "dynamism: case 'pruning': kernel_time_ratio: point 1 of the curve: ratio 0.5 is below 0.9, the one before: a denser matrix cannot be faster"
refuses '"case":"freezing","max_frozen":25' 'dynamism.max_frozen: 25 is outside [0, 24]'
refuses '"case":"freezing","schedule":"list","freeze_at":[9,4]' \
    'dynamism.freeze_at[1]: 4 is before 9, when the layer in front of it freezes: layers freeze front to back'
refuses '"case":"sparse-attention","kept":[1.5]' 'dynamism.kept[0]: 1.5 is outside [0, 1]'
refuses '"case":"early-exit","keep_final":-0.1' 'dynamism.keep_final: -0.1 is outside [0, 1]'
refuses '"case":"early-exit","exits":[24]' 'dynamism.exits[0]: 24 is outside [0, 23]'
[ ! -e run.db ] || fail 'something was written'
exit $failed
