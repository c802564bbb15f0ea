#!/usr/bin/env bash
# team_mpi.sh DIRECTORY [KILLS] - fits by several processes with MPI, of the programs noisy_ar_mpi, mixed_mpi and ratings_mpi in
# the directory: the same bits of theta and checkpoint at any number of processes and threads; and processes that are killed:
# the others end within 30 seconds, and a resumed fit ends as if nothing had happened.
# shellcheck disable=SC2317 # functions that `check` calls
set -euo pipefail
programs=$(realpath "$1")
kills=${2:-3}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
# as root, on fewer cores than processes, within this machine; names for Open MPI 4 and 5
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
passed=0 failed=0

check()     # SENTENCE CONDITION..: a test
{
    local sentence=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $sentence"; fi
}
hash_of() { sed -n 's/.*"theta_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }
same_hash() { [[ -s $1 && $(hash_of "$1") && $(hash_of "$1") == "$(hash_of "$2")" ]]; }
run()       # PROCESSES PROGRAM ARGS..
{
    local processes=$1
    shift
    timeout 120 mpirun -n "$processes" "$@" >log 2>&1
}

awk 'BEGIN { srand(1); for (u = 1; u <= 150; u++) for (i = 1; i <= 60; i++) if (rand() < 0.4)
         print u "\t" i "\t" 1 + int(5 * (0.5 * rand() + 0.25 + 0.25 * sin(u * 0.7 + i * 1.3))) }' >made_up.tsv
series=(--length 200 --series 13 --quiet)
effects=(--simulate-rows 3000 --simulate-levels "90,60" --engine iterative --quiet)
films=(--data made_up.tsv --factors 12 --epochs 12 --batch 10 --rate 0.01 --keep-every 3 --quiet)

for n in 1 2 3 4 8; do
    for threads in 1 2; do
        if ((threads == 2 && n > 2)); then continue; fi
        at="$n.$threads"
        run $n "$programs/noisy_ar_mpi" "${series[@]}" --threads $threads --json "ar.$at" || cat log
        run $n "$programs/mixed_mpi" "${effects[@]}" --threads $threads --json "mixed.$at" || cat log
        run $n "$programs/ratings_mpi" "${films[@]}" --threads $threads --checkpoint "state.$at" --json "ratings.$at" || cat log
        for what in ar mixed ratings; do
            check "$what: $n processes of $threads threads have the bits of one" same_hash "$what.$at" $what.1.1
        done
        check "ratings: the checkpoint of $n processes is that of one" cmp -s "state.$at" state.1.1
    done
done

run 3 "$programs/ratings_mpi" "${films[@]}" --parts 5 --json ratings.parts || cat log
other_parts() { [[ $(hash_of ratings.parts) && $(hash_of ratings.parts) != "$(hash_of ratings.1.1)" ]]; }
check "ratings: other parts, other bits" other_parts

# a program under a name of its own, so that its processes are found
cp "$programs/ratings_mpi" "kill$$"
# no pilot: checkpoints from the first steps on
films+=(--factors 30 --epochs 150 --prior-loadings 5 --prior-means 1 --prior-noise 1)
run 1 "./kill$$" "${films[@]}" --json ratings.whole || cat log
landed=0 longest=0 attempts=0 taken_up=0
while (((landed < kills || taken_up == 0) && attempts < 10 * kills)); do
    attempts=$((attempts + 1))
    n=$((2 + attempts % 3))
    from=(--checkpoint state)
    if [[ -f state ]]; then from=(--resume state) taken_up=$((taken_up + 1)); fi
    PU_TEAM_SECONDS=5 timeout 120 mpirun -n $n "./kill$$" "${films[@]}" "${from[@]}" --json broken >log 2>&1 &
    mpirun=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 9 + 1))"
    victim=$(pgrep -x "kill$$" | sort -R | head -n 1 || true)
    if [[ $victim ]] && kill -9 "$victim" 2>/dev/null; then landed=$((landed + 1)); fi
    began=$SECONDS
    wait $mpirun 2>/dev/null || true
    if ((SECONDS - began > longest)); then longest=$((SECONDS - began)); fi
done
check "some were taken up from a checkpoint" test "$taken_up" -gt 0
check "$kills processes were killed" test "$landed" -ge "$kills"
check "the others ended within 30 seconds (the longest took $longest)" test "$longest" -le 30
began=$SECONDS
while pgrep -x "kill$$" >/dev/null && ((SECONDS - began < 30)); do sleep 0.2; done
check "nobody is left $((SECONDS - began)) s later" bash -c "! pgrep -x kill$$ >/dev/null"
from=()
if [[ -f state ]]; then from=(--resume state); fi
run 3 "./kill$$" "${films[@]}" "${from[@]}" --json broken || cat log
check "a fit that was killed $landed times, on 2 to 4 processes, ends as one that was not" same_hash broken ratings.whole
echo "$landed kills, $taken_up times taken up, at most $longest s until all had ended"
echo "$passed passed, $failed failed"
exit $((failed > 0))
