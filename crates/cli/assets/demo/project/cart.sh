#!/bin/sh
# Usage: cart.sh PRICE QUANTITY [VOUCHER]  - prints the amount to pay, in cents.

# Percent a voucher takes off.
percent_off() {
    case "$1" in
        ring-ten) echo 10 ;;
        half) echo 50 ;;
        *) echo 0 ;;
    esac
}

# Takes PERCENT off AMOUNT, rounded down to whole cents.
discount() {
    amount=$1
    percent=$2
    echo $((amount - percent))
}

total=$(($1 * $2))
discount "$total" "$(percent_off "$3")"
