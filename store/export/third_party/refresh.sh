#!/usr/bin/env bash
# Fetches the libraries that exported pages carry from the npm registry and
# rewrites VERSIONS. Run it by hand to move to other versions:
#
#   ./refresh.sh                          the versions in VERSIONS
#   ./refresh.sh marked@19.0.0            one of them in another version
#
# The files are kept byte for byte as published; export strips their source map
# references when it puts a page together.
set -euo pipefail
cd "$(dirname "$0")"

languages=(dart dockerfile elixir haskell nix powershell protobuf scala)

declare -A version
while read -r name v _; do version[$name]=$v; done < <(grep -v '^#' VERSIONS | awk '{print $1, $2}' | sort -u)
for arg in "$@"; do version[${arg%@*}]=${arg##*@}; done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# unpack NAME prints the directory of the package.
unpack() {
  local dir=$tmp/${1//\//_}
  mkdir -p "$dir"
  (cd "$dir" && npm pack --silent "$1@${version[$1]}" >/dev/null 2>&1 && tar xzf ./*.tgz)
  echo "$dir/package"
}

# take NAME FROM TO copies a file and notes where it came from.
take() {
  cp "$2" "$3"
  chmod 644 "$3"
  echo "$1 ${version[$1]} $3 $(sha256sum "$3" | cut -d' ' -f1)" >>"$tmp/versions"
}

p=$(unpack marked)
take marked "$p/lib/marked.umd.js" marked/marked.umd.js
take marked "$p/LICENSE" marked/LICENSE

p=$(unpack dompurify)
take dompurify "$p/dist/purify.min.js" dompurify/purify.min.js
take dompurify "$p/LICENSE" dompurify/LICENSE

p=$(unpack @highlightjs/cdn-assets)
take @highlightjs/cdn-assets "$p/highlight.min.js" highlight.js/highlight.min.js
for l in "${languages[@]}"; do
  take @highlightjs/cdn-assets "$p/languages/$l.min.js" "highlight.js/$l.min.js"
done
take @highlightjs/cdn-assets "$p/LICENSE" highlight.js/LICENSE

{
  echo "# npm package, version, file, sha256. Written by refresh.sh."
  cat "$tmp/versions"
} >VERSIONS
