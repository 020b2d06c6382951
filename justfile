# The front door for developers. Everything here also works without `just`: see `cargo xtask`.

# List the recipes.
default:
    @just --list

# Format, lints, tidy, docs, tests.
check:
    cargo xtask ci

# Run all tests, or those whose names contain a filter.
test *filters:
    cargo xtask test {{ filters }}

# Run all benchmarks, or one with its arguments.
bench *arguments:
    cargo xtask bench {{ arguments }}

# Rewind random histories of a project, also with processes killed on the way; the suite runs 200.
histories count="10000" first="0":
    cargo run --release -p ostler-control --example checkpoint_histories -- {{ count }} {{ first }}

# Kill the binary at random moments of its work and go on with the session; the suite kills 20 times.
crash rounds="500" first="1":
    OSTLER_CRASH_ROUNDS={{ rounds }} OSTLER_CRASH_SEED={{ first }} cargo test -p ostler-cli --test it crash::kill -- --nocapture

# Show a whole turn on the built-in scripted model.
demo:
    cargo run --release -- demo

# Accept new snapshots; read the diff before committing it.
bless *filters:
    INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo xtask test {{ filters }}

# Record the kept sessions again, after the loop was changed on purpose; read what differs first (docs/replay.md).
bless-recordings:
    OSTLER_BLESS=1 cargo test -p ostler-cli --test it replay::kept

# What runs on the server, from a clean clone.
ci:
    .ci/run
