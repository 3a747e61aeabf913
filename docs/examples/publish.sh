#!/bin/sh
# An agent that publishes what its subagent does, with the command `subscope publish`.
#
#     CPE_SUBAGENT_LOGGING_ADDRESS=http://127.0.0.1:7337 sh publish.sh FILE...
#
# What cannot be delivered ends it (-e), with the event and the cause on stderr.
set -eu

say() { subscope publish --name counter --run-id "$run" "$@"; }

for path in "$@"; do
  run="counter-$$-$path"
  say --type subagent_start --payload "Count the lines of $path."
  say --type tool_call --tool wc --call-id "$run-1" --payload "$path"
  if lines=$(wc -l <"$path"); then
    say --type tool_result --tool wc --call-id "$run-1" --payload "$lines lines"
    say --type subagent_end
  else
    say --type tool_result --tool wc --call-id "$run-1" --payload "cannot read it" --is-error
    say --type subagent_end --payload "cannot read $path"
  fi
done
