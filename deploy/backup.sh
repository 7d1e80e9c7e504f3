#!/bin/sh
# Writes one backup of the database into a folder and deletes the oldest: backup.sh FOLDER
#
# Takes the database from the environment of the server: CHAMBER_DATABASE, and its password from the URL or from
# CHAMBER_DATABASE_PASSWORD or the file that CHAMBER_DATABASE_PASSWORD_FILE names. CHAMBER_BACKUPS_KEPT of them are kept
# (14). A backup is whole once it has its name: until then the file ends in .part, and where it fails, it is removed.
set -eu
folder=$1
kept=${CHAMBER_BACKUPS_KEPT:-14}
if [ -n "${CHAMBER_DATABASE_PASSWORD_FILE:-}" ]; then
    PGPASSWORD=$(cat "$CHAMBER_DATABASE_PASSWORD_FILE")
    export PGPASSWORD
elif [ -n "${CHAMBER_DATABASE_PASSWORD:-}" ]; then
    export PGPASSWORD="$CHAMBER_DATABASE_PASSWORD"
fi
umask 077
file=$folder/chamber-$(date --utc +%Y%m%dT%H%M%SZ).dump
trap 'rm -f "$file.part"' EXIT
pg_dump --no-password --format=custom --file "$file.part" "$CHAMBER_DATABASE"
# Its list of contents can be read: it was not cut off.
pg_restore --list "$file.part" >/dev/null
mv "$file.part" "$file"
echo "Wrote $file."
# By name, which is by time; the newest stay.
ls -1 "$folder"/chamber-*.dump | sort --reverse | tail --lines "+$((kept + 1))" | while read -r old; do
    rm "$old"
    echo "Deleted $old, the $kept newest are kept."
done
