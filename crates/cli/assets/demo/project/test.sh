#!/bin/sh
# Runs every case and fails if one does.
failed=0
check() {
    expected=$1
    shift
    actual=$(sh cart.sh "$@")
    if [ "$actual" = "$expected" ]; then
        echo "ok   cart $*"
    else
        echo "FAIL cart $*: expected $expected, got $actual"
        failed=1
    fi
}

check 2500 1250 2
check 2250 1250 2 ring-ten
check 99 199 1 half
exit $failed
