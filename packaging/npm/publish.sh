#!/bin/sh
# Publishes the npm packages of a release: the binaries; once each of them can be fetched, the launcher that names them;
# the client library. Runs the launcher at last, from an empty home. A version that is there is skipped, so that it can
# run again after an error.
#
# publish.sh FOLDER [OPTION OF npm publish…]
# NPM_WAIT: seconds between two looks for a package (10); NPM_LOOKS: how often it looks (60).
set -eu

folder=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The NAME@VERSION of a package's file.
named() {
    tar -xzOf "$1" package/package.json |
        node -p 'const it = JSON.parse(require("node:fs").readFileSync(0, "utf8")); `${it.name}@${it.version}`'
}

is_there() {
    npm view --prefer-online "$1" version 2>/dev/null | grep -q .
}

# Publishes a file with the options that follow it.
publish() {
    file=$1
    shift
    name=$(named "$file")
    # A version that was published a moment ago is refused before it is shown.
    if is_there "$name" || refused_as_published "$file" "$@"; then
        echo "$name is there already"
    fi
}

# Publishes a file; whether the registry refuses it because it has this version. Another error ends the script.
refused_as_published() {
    if npm publish --access public "$@" 2>"$scratch/said"; then
        return 1
    fi
    if grep -q 'previously published' "$scratch/said"; then
        return 0
    fi
    cat "$scratch/said" >&2
    exit 1
}

# Waits until a package can be fetched: a registry may show it some minutes after it was published.
wait_for() {
    looks=${NPM_LOOKS:-60}
    until npm pack --prefer-online --silent --pack-destination "$scratch" "$1" >/dev/null 2>&1; do
        looks=$((looks - 1))
        if [ "$looks" -le 0 ]; then
            echo "$1 cannot be fetched" >&2
            exit 1
        fi
        sleep "${NPM_WAIT:-10}"
    done
    echo "$1 can be fetched"
}

for file in "$folder"/subscope-linux-*.tgz "$folder"/subscope-darwin-*.tgz; do
    publish "$file" "$@"
done
for file in "$folder"/subscope-linux-*.tgz "$folder"/subscope-darwin-*.tgz; do
    wait_for "$(named "$file")"
done
launcher=$(echo "$folder"/subscope-[0-9]*.tgz)
publish "$launcher" "$@"
publish "$(echo "$folder"/subscope-client-*.tgz)" "$@"
launcher=$(named "$launcher")
wait_for "$launcher"

# What a person gets who has nothing of it.
mkdir "$scratch/home"
cd "$scratch/home"
HOME=$scratch/home npm_config_cache=$scratch/cache npx --yes "$launcher" demo --plain --speed 10000
