# Whatever happens to one rank, all end, and one process says what it was: the rank and its op.
# Usage: mpi_faults.sh PROGRAM (mpi_faults) TRANSPORT
#
# A rank that dies is named by mpirun, which then interrupts the others; over tcp by those that it was
# connected to, who also see only that they wait for one that is stopped.
set -eu
program=$1
transport=$2
before='' # a script that starts it
launch=$(dirname "$0")/launch
[ "$transport" = mpi ] || launch=${launch}_$transport
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect RANKS FAULT RANK MESSAGE: no more than patience limits how long it takes. All of them begin at once, as
# their ranks do little but wait; `ended` says how.
count=0
begun=''
expect() {
    count=$((count + 1))
    tell "$folder/$count" "$@" &
    begun="$begun $!"
}

ended() {
    for each in $begun; do
        code=0
        wait "$each" || code=$?
        [ "$code" -eq 0 ] || exit "$code"
    done
    begun=''
}

tell() { # tell OUT RANKS FAULT RANK MESSAGE
    out=$1
    shift
    code=0
    timeout -k 10 240 "$launch" "$1" ${before:+sh "$before"} "$program" "$transport" "$1" "$2" "$3" >"$out" 2>&1 || code=$?
    if [ "$code" -eq 77 ]; then
        cat "$out"
        exit 77
    fi
    said=$(grep '^mpi_faults: ' "$out" || true)
    if printf '%s\n' "$said" | grep -qx "mpi_faults: $4" && [ "$code" -gt 0 ] && [ "$code" -ne 124 ]; then return; fi
    case $2 in
    dies | leaves)
        { [ -z "$said" ] || [ "$said" = 'mpi_faults: interrupted' ]; } &&
            grep -q "process rank $3 with PID" "$out" && return 0
        ;;
    interrupts | terminates) [ -n "$said" ] || [ "$code" -eq 124 ] || return 0 ;;
    esac
    printf '%s\n' "$2, $1 ranks, at rank $3: exit status $code" "wanted: $4" "said:   $said"
    cat "$out"
    exit 1
}

op='iteration 12, F5 of stage'
expect 4 fails 2 "rank 2, $op 3: out of memory for 99 bytes"
expect 4 fails 0 "rank 0, $op 1: out of memory for 99 bytes"
expect 4 hangs 3 "rank 3, $op 4: hangs: no rank has moved for 2 s"
expect 4 hangs 0 "rank 0, $op 1: hangs: no rank has moved for 2 s"
expect 4 ignores 2 "rank 2, $op 3: hangs: no rank has moved for 2 s"
expect 4 interrupts 1 interrupted
expect 4 terminates 1 interrupted
if [ "$transport" = tcp ]; then
    expect 4 dies 2 'rank 2 is lost: its connection was closed'
    expect 4 dies 0 'rank 0 is lost: its connection was closed'
    expect 4 leaves 1 'rank 1 is lost: its connection was closed'
    expect 4 stops 1 "rank [0-3], $op [1-4] waits for rank 1"
    expect 2 waits 0 "rank [01], $op [12] waits for rank [01]"
    ended
    exit 0
fi
expect 4 dies 2 'named by mpirun'
expect 4 dies 0 'named by mpirun'
expect 4 leaves 1 'named by mpirun'
expect 4 stops 1 "rank 1, $op 2: hangs: no rank has moved for 2 s"
expect 2 waits 0 "rank 0, $op 1 waits for rank 1; rank 1, $op 2 waits for rank 0"
ended

# One rank does not get as far as the others: it cannot share memory.
cat >"$folder/lame" <<'END'
# Usage: lame PROGRAM [ARGUMENT]...
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export OMPI_MCA_osc=^sm
exec "$@"
END
before=$folder/lame
expect 2 starts 1 'rank 1: MPI_Win_allocate_shared.* failed in .*'
ended
before=''

# As if every two ranks had a machine of their own.
export DYNMO_NODE_RANKS=2
expect 4 fails 2 "rank 2, $op 3: out of memory for 99 bytes"
expect 4 dies 3 'named by mpirun'
expect 4 hangs 3 "rank 3, $op 4: hangs: no rank has moved for 2 s"
expect 4 interrupts 1 interrupted
ended
