# The paper's experiments: what the command prints, that it is the same every time, what it refuses;
# and numbers that must not change unnoticed.
# usage: reproduce.sh DYNMO [new], in tests/; new: brings the rows that analysis/PAPER.md shows up to date
root=$(cd .. && pwd)
mode=${2:-test}
. cli/expect.sh

# rows_of TABLE PAGE: the page, each row in its block with the numbers that the table has for it.
rows_of() {
    awk '/^[a-z0-9-]+: / { experiment = $1 }
        FNR == NR { if ($0 ~ /^  [^ ]/) row[experiment, substr($0, 1, 64)] = $0; next }
        (experiment, substr($0, 1, 64)) in row { print row[experiment, substr($0, 1, 64)]; next }
        { print }' "$1" "$2"
}
if [ "$mode" = new ]; then
    "$dynmo" reproduce >table && rows_of table "$root/analysis/PAPER.md" >page && cp page "$root/analysis/PAPER.md"
    exit
fi

# The tables, which the page shows, beside the rows of which they are made.
"$dynmo" reproduce >table 2>err_of_table &
table=$!
"$dynmo" reproduce --json >rows.json 2>err || fail "reproduce: $(cat err)"
[ ! -s err ] || fail "reproduce says: $(cat err)"
[ "$(wc -l <rows.json)" -eq 1 ] || fail 'JSON on more than one line'

# A line for each row, as people and programs then find them.
sed 's/^\[//; s/\]$//; s/},{"experiment"/}\
{"experiment"/g' rows.json >rows
grep -vE '^\{"experiment":"[a-z0-9-]+","quantity":"[^"]+","published":(null|[0-9.e-]+),"simulated":(null|[0-9.e-]+),"low":(null|[0-9.e-]+),"high":(null|[0-9.e-]+),"bound":(null|[0-9.e-]+),"agreement":"(predicted|consistent|calibrated|unreachable)","outcome":"(agrees|disagrees|open)","baseline":"[^"]+","note":"[^"]*"\}$' rows &&
    fail 'rows in another form'

# What is unreachable has a bound short of the published number, and nothing else has but for mixture of
# experts, where chosen loads reach it.
awk -F'[:,]' '/"experiment":"moe"/ { if (/"agreement":"unreachable"/) wrong = 1; next }
    { published = bound = ""; for (i = 1; i < NF; i++) {
        if ($i == "\"published\"") published = $(i + 1)
        if ($i == "\"bound\"") bound = $(i + 1) } }
    /"quantity":"speed-up/ && published != "null" && bound != "null" &&
        (published > bound) != (/"agreement":"unreachable"/ ? 1 : 0) { print; wrong = 1 }
    END { exit wrong }' rows || fail 'the label unreachable is not what the bound says'

# held EXPERIMENT QUANTITY KEY VALUE: a member of a row.
held() {
    grep -F "\"experiment\":\"$1\",\"quantity\":\"$2\"," rows | grep -qF "\"$3\":$4," ||
        fail "$1, $2: $3 is not $4: $(grep -F "\"quantity\":\"$2\"," rows)"
}
held moe 'Mixtral 8x7B, bubble before' agreement '"calibrated"'
held moe 'Mixtral 8x7B, bubble after, of chosen loads' outcome '"agrees"'
held moe 'LLaMA-MoE-3.5B, bubble before' outcome '"disagrees"'
held moe 'Mixtral 8x7B, speed-up over Tutel' outcome '"disagrees"'
held overhead 'pruning, migration' outcome '"open"'
held mod 'speed-up over static, of the published bubbles' agreement '"consistent"'
held table1 '24 layers, 8 GPUs, Megatron' agreement '"calibrated"'
held table1 '56 layers, 8 GPUs, speed-up' published 1.39
held table1 '56 layers, 8 GPUs, speed-up' agreement '"predicted"'
held repack 'mean GPUs of 8, of 8, 6, 4 from 0, 4000, 5000 on' simulated 5.8
held pruning 'speed-up over static, bfloat16' agreement '"unreachable"'
held freezing 'speed-up if all of a bubble of 40 % went' agreement '"consistent"'

# What was published and does not come out says why.
grep '"outcome":"disagrees"' rows | grep -E '"note":"([^"]{0,40})"}$' && fail 'rows that disagree without a reason'

# What the paper publishes binds itself: bubbles are speed-ups, and those of Table 1 the better column's.
# The parts of an overhead are all of it, and sparser products take less.
python3 - <<'END' || fail 'published numbers, overheads or throughputs per GPU'
import json
rows = {(row['experiment'], row['quantity']): row for row in json.load(open('rows.json'))}
published = {key: row['published'] for key, row in rows.items()}
for case in (('moe', 'LLaMA-MoE-3.5B, '), ('mod', '')):
    before, after, gain = (published[case[0], case[1] + quantity]
                           for quantity in ('bubble before', 'bubble after', 'speed-up over static'))
    assert abs((1 - after) / (1 - before) - gain) < 0.005, case
idle = {quantity: row['simulated'] for (_, quantity), row in rows.items()} # depths add to what experts leave idle
assert idle['Mixtral 8x7B, both: depths of 12.5 %, spread 0.4'] > idle['Mixtral 8x7B, bubble before, spread 0.4'] + 0.03
cells = [key[1][:-len(', speed-up')] for key in rows if key[0] == 'table1' and key[1].endswith(', speed-up')]
assert len(cells) == 12
for cell in cells:
    best = max(published['table1', f'{cell}, {method}'] for method in ('Diffusion', 'Partition'))
    assert abs(best / published['table1', f'{cell}, Megatron'] - published['table1', f'{cell}, speed-up']) < 0.01, cell
parts = [key for key in rows if key[0] == 'overhead' and key[1].endswith(', overhead')]
assert len(parts) == 7
for experiment, quantity in parts:
    case = quantity[:-len(', overhead')]
    pieces = [rows[experiment, f'{case}, {part}']['simulated'] for part in ('profiling', 'algorithm', 'migration')]
    assert abs(sum(pieces) - rows[experiment, quantity]['simulated']) < 1e-9, case
    assert all(piece >= 0 for piece in pieces) and pieces[0] > 0, case
curve = [rows['kernels', f'time of Sputnik at {share} % sparsity']['simulated'] for share in (50, 75, 80, 85, 90, 95)]
assert curve == sorted(curve, reverse=True)
END

# Experiments by name, in the order of the table, each once, and the same every time; the help names
# them all.
"$dynmo" reproduce network-delay table1 network-delay --json >some.json || fail 'reproduce by name'
grep -E '"experiment":"(table1|network-delay)"' rows >wanted
sed 's/^\[//; s/\]$//; s/},{"experiment"/}\
{"experiment"/g' some.json | cmp -s - wanted || fail 'experiments by name differ from all of them'
"$dynmo" reproduce --help >help
for experiment in $(sed -n 's/^{"experiment":"\([^"]*\)".*/\1/p' rows | uniq); do
    tr -s '\n ' '  ' <help | grep -qE "[ :]${experiment}[,.]" ||
        fail "--help does not name $experiment"
done

# Every study is one that `dynmo simulate` plays.
for study in "$root"/models/studies/paper/*.json; do
    "$dynmo" simulate "$study" >out 2>err || fail "simulate $study: $(cat err)"
done

# A wrong question has one answer.
refuse 2 "unknown experiment 'prunin'; did you mean 'pruning'?" reproduce prunin
"$dynmo" reproduce nothing 2>err
grep -q "^dynmo: unknown experiment 'nothing'; known: .*pruning" err || fail 'experiments are not named'
refuse 2 "unknown experiment 'prunin'; did you mean 'pruning'?" reproduce mod prunin

wait $table || fail "reproduce: $(cat err_of_table)"
# The page shows rows of the tables as they are.
rows_of table "$root/analysis/PAPER.md" | cmp -s - "$root/analysis/PAPER.md" ||
    fail 'analysis/PAPER.md shows other numbers: sh cli/reproduce.sh DYNMO new, in tests/, brings them up to date'
[ "$(grep -cxFf table "$root/analysis/PAPER.md")" -gt 30 ] || fail 'analysis/PAPER.md shows no rows'
grep -q '^low, high: ' table || fail 'no explanation below the tables'
exit "$failed"
