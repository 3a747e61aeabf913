#!/bin/sh
# Installs subscope @VERSION@ for this user, or below a prefix: downloads the archive of this machine, checks its sum,
# and copies programs, manual pages and completions. Asks nothing, needs no root, changes no settings.
#
#   sh install.sh                      into ~/.local
#   PREFIX=/usr/local sh install.sh    into /usr/local
#   SUBSCOPE_URL=… sh install.sh       from another folder of a release: https://, http:// or file://
#
# Remove it: rm PREFIX/bin/subscope PREFIX/bin/subscope-team PREFIX/share/man/man1/subscope*.1, and the completions that it names.
set -eu

version=@VERSION@
url=${SUBSCOPE_URL:-https://github.com/subscope/subscope/releases/download/v$version}
prefix=${PREFIX:-${HOME:?set HOME or PREFIX}/.local}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

case $(uname -s) in
  Linux) system=unknown-linux-musl ;;
  Darwin) system=apple-darwin ;;
  *) fail "there is no build for $(uname -s): cargo install subscope" ;;
esac
case $(uname -m) in
  x86_64 | amd64) processor=x86_64 ;;
  aarch64 | arm64) processor=aarch64 ;;
  *) fail "there is no build for $(uname -m): cargo install subscope" ;;
esac
name=subscope-$version-$processor-$system
archive=$name.tar.gz

download() {
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --output "$2" "$1" || fail "cannot download $1"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document="$2" "$1" || fail "cannot download $1"
  else
    fail "needs curl or wget"
  fi
}

sum() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null 2>&1; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  else
    fail "needs sha256sum or shasum"
  fi
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

echo "subscope $version for $processor-$system, from $url"
download "$url/SHA256SUMS" "$folder/SHA256SUMS"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$folder/SHA256SUMS")
[ -n "$wanted" ] || fail "$url/SHA256SUMS has no sum of $archive"
download "$url/$archive" "$folder/$archive"
found=$(sum "$folder/$archive")
[ "$found" = "$wanted" ] || fail "$archive is not what the release lists: its sum is $found, not $wanted"
tar -xzf "$folder/$archive" -C "$folder"

# copy MODE FROM TO: replaces the file at once, so that a running subscope goes on.
copy() {
  mkdir -p "$(dirname "$3")"
  cp "$2" "$3.new"
  chmod "$1" "$3.new"
  mv -f "$3.new" "$3"
}
contents=$folder/$name
for program in subscope subscope-team; do
  copy 755 "$contents/$program" "$prefix/bin/$program"
done
for page in "$contents"/man/*.1; do
  copy 644 "$page" "$prefix/share/man/man1/$(basename "$page")"
done
copy 644 "$contents/completions/subscope.bash" "$prefix/share/bash-completion/completions/subscope"
copy 644 "$contents/completions/_subscope" "$prefix/share/zsh/site-functions/_subscope"
copy 644 "$contents/completions/subscope.fish" "$prefix/share/fish/vendor_completions.d/subscope.fish"

echo "installed $prefix/bin/subscope, $prefix/bin/subscope-team, their manual pages, and completions for bash, zsh and fish below $prefix/share"
case ":${PATH:-}:" in
  *":$prefix/bin:"*) echo "try: subscope demo" ;;
  *) echo "$prefix/bin is not in PATH; try: $prefix/bin/subscope demo" ;;
esac
