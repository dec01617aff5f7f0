#!/bin/sh
# Answers a file of prompts by an array of Slurm: each job takes its part of the lines.
#
#   sbatch --array=1-8 slurm_batch.sh MODEL PROMPTS ANSWERS     ANSWERS: a folder that all see
#   cat ANSWERS/*.jsonl                                         when all jobs have ended
#
# A job whose machine was taken back, or whose mica was killed, goes back into the queue, and goes
# on where it ended. To repeat some jobs of an array, name the parts: --array=3,5, and below
# --shard "$SLURM_ARRAY_TASK_ID/8".
#SBATCH --requeue
#SBATCH --signal=B:TERM@30
set -u
mkdir -p "$3"

# Slurm tells this script, not mica, that its time is over.
mica batch --quiet --output "$3/$SLURM_ARRAY_TASK_ID.jsonl" "$1" "$2" &
trap 'kill -TERM $!' TERM
wait $!
code=$?
[ $code -lt 128 ] || { wait $!; code=$?; } # the trap has run, or mica was killed

# 0: all is answered. 1: some lines are wrong, and their answers say so. 2: it was called wrongly.
case $code in
  0 | 1 | 2) exit $code ;;
  *) scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" ;;
esac
