#!/bin/sh
# Publishes the crates of the workspace, but for those whose version crates.io has already: it can run again after an
# error. Cargo orders them, and waits until each can be used by the next.
#
# publish.sh [OPTION OF cargo publish…]
# CRATES_INDEX: where the index is (https://index.crates.io).
set -eu

index=${CRATES_INDEX:-https://index.crates.io}

# The file of a crate in the index.
place() {
    case ${#1} in
    1) echo "1/$1" ;;
    2) echo "2/$1" ;;
    3) echo "3/$(echo "$1" | cut -c1)/$1" ;;
    *) echo "$(echo "$1" | cut -c1-2)/$(echo "$1" | cut -c3-4)/$1" ;;
    esac
}

# Whether the index has a version of a crate. An index that cannot be reached is an error, not a no.
is_there() {
    answer=$(mktemp)
    status=$(curl --silent --show-error --location --retry 3 --output "$answer" --write-out '%{http_code}' "$index/$(place "$1")")
    case $status in
    200) grep -q "\"vers\":\"$2\"" "$answer" ;;
    404 | 410 | 451) false ;;
    *)
        echo "$index answers $status for $1" >&2
        exit 1
        ;;
    esac
}

crates=$(cargo metadata --no-deps --format-version 1 |
    jq -r '.packages[] | select(.publish != []) | "\(.name) \(.version)"')
excluded=
missing=0
while read -r name version; do
    if is_there "$name" "$version"; then
        echo "$name $version is there already"
        excluded="$excluded --exclude $name"
    else
        missing=$((missing + 1))
    fi
done <<EOF
$crates
EOF
if [ "$missing" -eq 0 ]; then
    exit 0
fi
# shellcheck disable=SC2086
cargo publish --locked --workspace $excluded "$@"
