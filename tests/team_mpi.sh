#!/usr/bin/env bash
# team_mpi.sh DIRECTORY [KILLS] - fits by several processes with MPI, of the programs noisy_ar_mpi, mixed_mpi, ratings_mpi and
# ratings_double_mpi, and of the first three without MPI, in the directory: the same bits of theta and checkpoint at any number
# of processes and threads; what is wrong with one process ends all, with the same words; and processes that are killed, KILLS
# (3) of them: the others end by themselves with a status within PU_TEAM_SECONDS and LATE seconds, and a resumed fit ends as if
# nothing had happened. With more than 3 kills the rest is done with more threads, too.
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
SECONDS_OF_TEAM=5 LATE=20 # the second: of a busy machine, and of mpirun
passed=0 failed=0

check()     # SENTENCE CONDITION..: a test
{
    local sentence=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL  $sentence"; fi
}
hash_of() { sed -n 's/.*"theta_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }
same_hash() { [[ -s $1 && $(hash_of "$1") && $(hash_of "$1") == "$(hash_of "$2")" ]]; }
other_hash() { [[ -s $1 && $(hash_of "$1") && $(hash_of "$1") != "$(hash_of "$2")" ]]; }
says() { [[ $(sed -n "s/.*\"$2\": \([^,]*\).*/\1/p" "$1") == "$3" ]]; }
run()       # PROCESSES PROGRAM ARGS..
{
    local processes=$1
    shift
    if ! timeout 300 mpirun -n "$processes" "$@" >log 2>&1; then echo "failed, or took too long: $*" && cat log; return 1; fi
}
# odd RANK ODD.. -- EVEN..: a command for mpirun, which is ODD.. on that process and EVEN.. on the others
odd()
{
    local rank=$1
    shift
    {
        # shellcheck disable=SC2016 # the other shell's
        printf '#!/bin/sh\nif [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = %s ]; then ' "$rank"
        while [[ $1 != -- ]]; do printf '%s ' "$1" && shift; done
        shift
        printf '; else exec '
        printf '%q ' "$@"
        printf '; fi\n'
    } >odd
    chmod +x odd
}
# all_say PROCESSES WORDS RANK: `odd` is refused on all of them, with these words about that process; nobody goes on or waits.
# Where mpirun does not end the others when one ends, all of them say it by themselves.
all_say()
{
    local began=$SECONDS code=0
    PU_TEAM_SECONDS=30 timeout 120 mpirun "${survive[@]}" -n "$1" ./odd >log 2>&1 || code=$?
    code=$((code ? $1 : 0))
    if [[ ${#survive[@]} -gt 0 ]]; then code=$(grep -c "pu_fit: .*$2.*, rank $3\b" log || true); fi
    if ((code == $1 && SECONDS - began < 30)) && grep -q "$2" log; then return; fi
    cat log
    return 1
}
# Does mpirun let the others live when one has gone? (Open MPI)
survive=(--enable-recovery)
if ! mpirun "${survive[@]}" -n 1 true >log 2>&1; then survive=(); fi

awk 'BEGIN { srand(1); for (u = 1; u <= 150; u++) for (i = 1; i <= 60; i++) if (rand() < 0.4)
         print u "\t" i "\t" 1 + int(5 * (0.5 * rand() + 0.25 + 0.25 * sin(u * 0.7 + i * 1.3))) }' >made_up.tsv
sed '77s/[0-9]$/nan/' made_up.tsv >broken.tsv
series=(--length 200 --series 13 --quiet)
effects=(--simulate-rows 3000 --simulate-levels "90,60" --engine iterative --quiet)
films=(--data made_up.tsv --factors 12 --epochs 12 --batch 10 --rate 0.01 --keep-every 3 --quiet)
# steps of all rows, for there are priors; of those that they touch, of which there are few; of all of the same
awk 'BEGIN { srand(2); for (u = 1; u <= 150; u++) for (i = 1; i <= 2000; i++) if (rand() < 0.01)
         print u "\t" i "\t" 1 + int(5 * rand()) }' >sparse.tsv
ways=(ratings touched dense)
flags_of() # WAY
{
    if [[ $1 != ratings ]]; then echo "--data sparse.tsv --paper --epochs 5 --batch 8 --accumulate 1"; fi
    if [[ $1 == dense ]]; then echo --dense; fi
}

# fits PROCESSES THREADS: all of them, in files NAME.PROCESSES.THREADS and state.NAME.PROCESSES.THREADS
fits()
{
    local at=$1.$2 way
    run "$1" "$programs/noisy_ar_mpi" "${series[@]}" --threads "$2" --checkpoint "state.ar.$at" --json "ar.$at" || true
    run "$1" "$programs/mixed_mpi" "${effects[@]}" --threads "$2" --checkpoint "state.mixed.$at" --json "mixed.$at" || true
    for way in "${ways[@]}"; do
        # shellcheck disable=SC2046 # nothing, or flags
        run "$1" "$programs/ratings_mpi" "${films[@]}" $(flags_of "$way") --threads "$2" \
            --checkpoint "state.$way.$at" --json "$way.$at" || true
    done
    for way in ar mixed "${ways[@]}"; do
        check "$way: $1 processes of $2 threads have the bits of one" same_hash "$way.$at" "$way.1.1"
        check "$way: the checkpoint of $1 processes of $2 threads is that of one" cmp -s "state.$way.$at" "state.$way.1.1"
        check "$way: \"ranks\" is $1" says "$way.$at" ranks "$1"
    done
}

fits 1 1
for n in 2 3 4 8; do fits $n 1; done
if ((kills > 3)); then for n in 1 2 3 4 8; do fits $n 2; done; else fits 2 2; fi

# without MPI, the parts of one process
"$programs/noisy_ar" "${series[@]}" --threads 1 --parts 8 --json ar.alone
"$programs/mixed" "${effects[@]}" --threads 1 --parts 8 --json mixed.alone
"$programs/ratings" "${films[@]}" --threads 1 --parts 8 --json ratings.alone
for what in ar mixed ratings; do check "$what: without MPI, with 8 parts, the same bits" same_hash $what.alone $what.1.1; done
# other parts; fewer of them than processes: some have no data
"$programs/ratings" "${films[@]}" --threads 1 --parts 1 --json ratings.parts.1.1
"$programs/ratings" "${films[@]}" --threads 1 --parts 5 --json ratings.parts.5.1
check "ratings: other parts, other bits" other_hash ratings.parts.5.1 ratings.1.1
for parts in 1 5; do
    run 7 "$programs/ratings_mpi" "${films[@]}" --threads 1 --parts $parts --json ratings.parts.$parts.7 || true
    check "ratings: $parts parts on 7 processes" same_hash ratings.parts.$parts.7 ratings.parts.$parts.1
done
run 5 "$programs/noisy_ar_mpi" "${series[@]}" --threads 1 --json ar.5 || true
check "ar: 5 processes have the bits of one" same_hash ar.5 ar.1.1

# one is not as the others
ratings=("$programs/ratings_mpi" "${films[@]}" --threads 1 --epochs 3)
odd 1 "${ratings[@]}" --rate 0.02 -- "${ratings[@]}"
check "another rate of one" all_say 3 "options (not as on the first process: fit.rate)" 1
odd 2 "${ratings[@]}" --seed 5 -- "${ratings[@]}"
check "another seed of one" all_say 3 "theta or model (not as on the first process" 2
odd 2 "$programs/ratings_double_mpi" "${ratings[@]:1}" -- "${ratings[@]}"
check "another precision of one" all_say 3 "theta or model (not as on the first process" 2
odd 1 "$programs/noisy_ar_mpi" "${series[@]}" --start zero -- "$programs/noisy_ar_mpi" "${series[@]}"
check "another theta of one" all_say 3 "theta or model (not as on the first process" 1
# one that ends by itself before the fit: the others do not wait for longer than they were told to
ends()      # WORDS: at least one of `odd` says these, and all end in time
{
    local began=$SECONDS
    PU_TEAM_SECONDS=$SECONDS_OF_TEAM timeout 120 mpirun "${survive[@]}" -n 3 ./odd >log 2>&1 || true
    if ((SECONDS - began <= SECONDS_OF_TEAM + LATE)) && grep -q "$1" log; then return; fi
    cat log
    return 1
}
odd 1 "${ratings[@]}" --data broken.tsv -- "${ratings[@]}" --data broken.tsv
check "a NaN in the file, which one of them reads" ends "broken.tsv"
odd 2 "${ratings[@]}" --data sparse.tsv -- "${ratings[@]}"
check "another file of one" ends "process 2 has another file under this name than the first one"
odd 1 "${ratings[@]}" --data nowhere.tsv -- "${ratings[@]}"
check "no file of one" ends "No such file"

# a program under a name of its own, so that its processes are found
cp "$programs/ratings_mpi" "kill$$"
# one that has memory for theta and the model, and not for the fit: what a small one takes, and 60 MB
mpirun -n 2 "./kill$$" "${films[@]}" --threads 1 --epochs 300 >log 2>&1 &
mpirun=$! most=0
while kill -0 $mpirun 2>/dev/null; do
    for pid in $(pgrep -x "kill$$"); do
        kb=$(sed -n 's/VmPeak:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null || true)
        if ((kb > most)); then most=$kb; fi
    done
    sleep 0.1
done
wait $mpirun || true
if ((most > 0)); then
    large=("./kill$$" "${films[@]}" --threads 1 --factors 40000 --steps 1 --no-validation --prior-loadings 5 --prior-means 1)
    large+=(--prior-noise 1)
    odd 1 ulimit -v $((most + 60000)) \; exec "${large[@]}" -- "${large[@]}"
    check "little memory of one" all_say 3 "out of memory: workspace" 1
fi
# no pilot: checkpoints from the first steps on
films+=(--factors 30 --epochs 120 --prior-loadings 5 --prior-means 1 --prior-noise 1)
run 1 "./kill$$" "${films[@]}" --json ratings.whole || true
landed=0 longest=0 attempts=0 taken_up=0 told=0 owed=0 left=0
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
while (((landed < kills || taken_up == 0) && attempts < 10 * kills)); do
    attempts=$((attempts + 1))
    n=$((2 + attempts % 3))
    from=(--checkpoint state) how=("${survive[@]}")
    # now and then as it is done: mpirun ends the others
    if ((attempts % 4 == 0)); then how=(); fi
    if [[ -f state ]]; then from=(--resume state) taken_up=$((taken_up + 1)); fi
    touch stamp
    PU_TEAM_SECONDS=$SECONDS_OF_TEAM timeout 120 mpirun "${how[@]}" -n $n "./kill$$" "${films[@]}" "${from[@]}" --json broken \
        >log 2>&1 &
    mpirun=$!
    # when the fit is on its way, and a while later: in MPI_Init nobody but mpirun would end the others
    while [[ ${#how[@]} -gt 0 && ! state -nt stamp ]] && kill -0 $mpirun 2>/dev/null; do sleep 0.05; done
    sleep "$((RANDOM % 2)).$((RANDOM % 9 + 1))"
    victim=$(pgrep -x "kill$$" | sort -R | head -n 1 || true)
    began=$(milliseconds)
    if [[ $victim ]] && kill -9 "$victim" 2>/dev/null; then landed=$((landed + 1)); else victim=; fi
    wait $mpirun 2>/dev/null || true
    took=$(($(milliseconds) - began))
    # an mpirun that ends the others may be gone before they are: they are not to be the next run's victims
    for ((wait = 0; wait < 100; wait++)); do if pgrep -x "kill$$" >/dev/null; then sleep 0.1; else break; fi; done
    left=$((left + $(pgrep -c -x "kill$$" || true)))
    if [[ $victim ]] && ((took > longest)); then longest=$took; fi
    if [[ $victim && ${#how[@]} -gt 0 ]]; then
        # all but those who were at their end already
        owed=$((owed + (n - 1) * (1 - $(test -f broken && echo 1 || echo 0))))
        told=$((told + $(grep -c "a process of the team has gone" log || true)))
    fi
    # it came to its end before that: once more
    if [[ -f broken ]]; then
        check "a fit that was killed ends as one that was not" same_hash broken ratings.whole
        rm -f broken state
    fi
done
check "some were taken up from a checkpoint" test "$taken_up" -gt 0
check "$kills processes were killed" test "$landed" -ge "$kills"
check "the others ended within $((SECONDS_OF_TEAM + LATE)) seconds (the longest took $longest ms)" \
    test "$longest" -le $((1000 * (SECONDS_OF_TEAM + LATE)))
check "the others told that a process has gone, $told of $owed" test "$told" == "$owed"
check "nobody is left" test "$left" == 0
from=()
if [[ -f state ]]; then from=(--resume state); fi
run 1 "./kill$$" "${films[@]}" "${from[@]}" --json broken || true
check "a fit that was killed $landed times, on 2 to 4 processes, ends on one as one that was not" same_hash broken ratings.whole
echo "$landed kills, $taken_up times taken up, at most $longest ms until all had ended; $told of $owed others told it"
echo "$passed passed, $failed failed"
exit $((failed > 0))
