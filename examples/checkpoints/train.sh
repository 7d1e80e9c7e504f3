#!/bin/sh
# Counts to STEPS in a way that survives a preemption: saves every EVERY steps and when it is told to stop, says so by
# lines that Chamber reads (`read_notes: true`), and goes on where the last attempt saved.
set -eu

STEPS=${STEPS:-1000}
EVERY=${EVERY:-100}
FOLDER=${CHECKPOINT_DIR:-checkpoints}
NOTICE=${NOTICE:-/run/chamber/notice}

say() {
    # One process of a gang speaks for all.
    if [ "${RANK:-0}" = 0 ]; then echo "::chamber $1::"; fi
}

save() {
    # Whole or not at all: a checkpoint that is cut off by the end of the pod must not look like one.
    echo "$step" >"$FOLDER/new-${RANK:-0}"
    mv "$FOLDER/new-${RANK:-0}" "$FOLDER/state-${RANK:-0}"
    saved=$step
    say "checkpoint step=$step attempt=${CHAMBER_ATTEMPT:-1}"
}

stopping=
trap 'stopping=yes' TERM

mkdir -p "$FOLDER"
step=0
if [ -s "$FOLDER/state-${RANK:-0}" ]; then
    step=$(cat "$FOLDER/state-${RANK:-0}")
    echo "Going on from step $step; Chamber knows of step ${CHAMBER_RESUMED_FROM:-none}."
fi
saved=$step
noticed=

while [ "$step" -lt "$STEPS" ]; do
    sleep "${STEP_SECONDS:-1}" & # in the background, so that the signal is heard at once
    wait $! || true
    step=$((step + 1))
    if [ $((step % EVERY)) = 0 ]; then
        save
        say "progress $(awk "BEGIN { print $step / $STEPS }")"
    fi
    if [ -z "$noticed" ] && [ -s "$NOTICE" ]; then
        echo "About to be stopped: $(cat "$NOTICE")"
        noticed=yes
        save
    fi
    if [ -n "$stopping" ]; then
        if [ "$saved" != "$step" ]; then save; fi
        exit 143 # not 0: it was stopped, and is not done
    fi
done
if [ "$saved" != "$step" ]; then save; fi
say "progress 1"
