# Copies the bundles whose manifests a list pins, and compares the manifests of the copies with the list; the server
# compares the other files with their manifest. sh copy-bundles.sh LIST FROM TO; LIST is an absolute path.
set -eu
while read -r _ manifest; do
    bundle=$(dirname "$manifest")
    mkdir -p "$3/$bundle"
    cp -RL "$2/$bundle/." "$3/$bundle/"
done <"$1"
cd "$3"
sha256sum --strict --check "$1"
