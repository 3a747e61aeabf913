#!/bin/sh
# An agent that publishes what its subagent does, with the command `subscope publish`.
#
#     CPE_SUBAGENT_LOGGING_ADDRESS=http://127.0.0.1:7337 sh publish.sh FILE...
#
# What cannot be delivered ends it (-e), with the event and the cause on stderr. Where a user asks that the run stop
# (`subscope stop`), the command prints so: a line of JSON.
set -eu

say() { subscope publish --name counter --run-id "$run" "$@"; }

for path in "$@"; do
  run="counter-$$-$path"
  say --type subagent_start --payload "Count the lines of $path."
  stop=$(say --type tool_call --tool wc --call-id "$run-1" --payload "$path")
  if [ -n "$stop" ]; then
    say --type subagent_end --stopped
    continue
  fi
  if lines=$(wc -l <"$path"); then
    say --type tool_result --tool wc --call-id "$run-1" --payload "$lines lines"
    say --type subagent_end --result "$lines lines"
  else
    say --type tool_result --tool wc --call-id "$run-1" --payload "cannot read it" --is-error
    say --type subagent_end --payload "cannot read $path"
  fi
done
