#!/usr/bin/env bash
# kill_resume.sh PROGRAM [KILLS [DATA [ARGS...]]] - a fit that is killed at random moments and resumed must end with the same
# results as one that ran through: examples/ratings is killed (SIGKILL) KILLS times while it runs, taken up from its
# checkpoint each time, and its JSON compared, apart from times and memory. Without DATA: small ratings made up here.
# A kill in the pilot that finds the priors, before the first checkpoint, means a new beginning.
set -euo pipefail
program=$(realpath "$1")
kills=${2:-12} data=${3:-}
shift $(($# < 3 ? $# : 3))
if [[ $data ]]; then data=$(realpath "$data"); fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
export OMP_WAIT_POLICY=passive

if [[ ! $data ]]; then
    data=made_up.tsv
    awk 'BEGIN { srand(1); for (u = 1; u <= 150; u++) for (i = 1; i <= 60; i++) if (rand() < 0.4)
             print u "\t" i "\t" 1 + int(5 * (0.5 * rand() + 0.25 + 0.25 * sin(u * 0.7 + i * 1.3))) }' >$data
    set -- --factors 20 --epochs 40 --batch 10 --accumulate 2 --rate 0.01 --validate 20 --keep-every 3 --train-nll
fi
fit() { exec "$program" --data "$data" --quiet "$@"; }
results() { grep -vE '"([a-z_]*seconds[a-z_]*|peak_mb)"' "$1"; }

begin=$(date +%s%N)
(fit "$@" --json whole.json)
length=$((($(date +%s%N) - begin) / 1000000))
echo "without interruption: $length ms"

landed=0 resumed=0 compared=0 attempts=0
compare()
{
    if ! diff <(results whole.json) <(results broken.json); then echo "FAIL  results differ"; exit 1; fi
    compared=$((compared + 1))
    rm -f state broken.json
}
while ((landed < kills && attempts < 20 * kills)) || [[ -f state ]]; do
    attempts=$((attempts + 1)) from=(--checkpoint state)
    if [[ -f state ]]; then from=(--resume state) resumed=$((resumed + 1)); fi
    fit "$@" "${from[@]}" --json broken.json &
    pid=$!
    if ((landed < kills)); then
        wait=$((length * RANDOM / 32768))
        sleep "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
        if kill -9 $pid 2>/dev/null; then landed=$((landed + 1)); fi
    fi
    status=0
    wait $pid 2>/dev/null || status=$?
    case $status in
        0) compare ;;
        137) ;;
        *) echo "FAIL  the program ended with code $status"; exit 1 ;;
    esac
done
echo "$landed kills, $resumed times taken up from a checkpoint, $compared complete runs compared"
((landed >= kills && resumed > 0 && compared > 0)) || { echo "FAIL  the kills came too early or too late"; exit 1; }
echo "1 passed, 0 failed"
