# What the README and the folders' pages show under `$ dynmo ...` is what the command prints: every line of the block, in its
# order; "..." stands for lines that are left out, and ends a run of lines that follow each other.
# Commands whose answer depends on the machine are held by their own tests.
# Usage: pages.sh DYNMO
root=$(cd .. && pwd)
. cli/expect.sh
ln -s "$root/analysis" "$root/models" "$root/traces" .

# block COMMAND: the lines below "$ COMMAND" in the pages, up to the next command or the block's end.
block() {
    awk -v command="\$ $1" '
        $0 == command { inside = 1; next }
        inside && (/^```/ || /^\$ /) { exit }
        inside { print }' "$root"/README.md "$root"/*/*.md "$root"/*/*/*.md
}

# follows WANTED FOUND: every wanted line is found, in this order; without "..." between them, at once.
follows() {
    awk 'FNR == NR { wanted[++count] = $0; next }
        BEGIN { next_line = 1; may_skip = 1 }
        { while (wanted[next_line] == "..." && next_line <= count) { may_skip = 1; next_line++ }
          if (next_line > count) exit
          if ($0 == wanted[next_line]) { next_line++; may_skip = 0; next }
          if (!may_skip) { print "found:  " $0; exit } }
        END { while (wanted[next_line] == "..." && next_line <= count) next_line++
              if (next_line <= count) { print "wanted: " wanted[next_line]; exit 1 } }' "$1" "$2"
}

# shows "dynmo WORDS": runs the command as the README has it, and compares.
shows() {
    block "$1" >wanted
    [ -s wanted ] || fail "no page shows $1"
    sh -c "dynmo() { '$dynmo' \"\$@\"; }; $1" >found 2>err || fail "$1: $(cat err)"
    follows wanted found || fail "a page shows another answer of $1"
}

shows 'dynmo diagnose traces/recorded/cpu-early-exit.db.gz --stages 4'
shows 'dynmo stragglers traces/recorded/cpu-freezing.db.gz'
shows 'dynmo study --model mixtral-8x7b --gpu h100-sxm --gpus 256 --tokens 500B --price 2.5 --price-date 2026-11-01 --top 3 -o mixtral.json'
shows 'dynmo calibrate analysis/calibration/example.csv --fit pp=1 --predict pp=2,4'
shows 'dynmo converge --nodes 8:64'
shows "echo '{\"forward_ns\": [10, 10, 20, 10, 30]}' | dynmo plan --loads - --stages 2 --balancer partition"
shows 'dynmo schedule --schedule zb-h1 --stages 4 --microbatches 8'
"$dynmo" model --model llama-2-7b --hardware a100-sxm-80gb --json >loads.json
shows 'dynmo plan --loads loads.json --stages 8 --microbatches 16 --balancer makespan --schedule 1f1b | grep played'
shows 'dynmo plan --loads loads.json --stages 8 --microbatches 16 --balancer makespan --schedule zb-auto | grep played'
shows 'dynmo plan --loads loads.json --stages 8 --microbatches 16 --balancer makespan --schedule any'
shows 'dynmo model --model llama-3-8b --hardware h100-sxm --json | dynmo plan --loads - --stages 4 --balancer partition --schedule 1f1b --microbatches 32 -o plan.json'
shows 'dynmo export megatron plan.json'
exit $failed
