#!/bin/sh
# Publishes the extension for VS Code, one file, in both registries: the Visual Studio Marketplace and Open VSX.
#
#   sh packaging/vscode/publish.sh FOLDER
#
# FOLDER holds one .vsix, as `cargo xtask dist` makes it. VSCE_PAT and OVSX_PAT hold the tokens. A version that a registry has
# is left as it is, so that the script can run again after an error.
set -eu

vsix=
for file in "${1:?the folder with the .vsix}"/*.vsix; do
  [ -e "$file" ] || continue
  [ -z "$vsix" ] || { echo "$1 holds more than one .vsix" >&2; exit 1; }
  vsix=$file
done
[ -n "$vsix" ] || { echo "$1 holds no .vsix" >&2; exit 1; }

# Both are tried before an error ends the script: one registry must not delay the other.
failed=0
publish() { # REGISTRY TOKEN-NAME TOKEN COMMAND…
  registry=$1 name=$2 token=$3
  shift 3
  if [ -z "$token" ]; then
    echo "$registry: not published: $name is not set" >&2
    failed=1
  elif "$@"; then
    echo "$registry: $(basename "$vsix") is there"
  else
    echo "$registry: not published" >&2
    failed=1
  fi
}

publish "Visual Studio Marketplace" VSCE_PAT "${VSCE_PAT:-}" npx --yes @vscode/vsce@3.9.2 publish --skip-duplicate --packagePath "$vsix"
publish "Open VSX" OVSX_PAT "${OVSX_PAT:-}" npx --yes ovsx@1.4.0 publish --skip-duplicate "$vsix"
exit "$failed"
