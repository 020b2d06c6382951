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

# Show a whole turn on the built-in scripted model.
demo:
    cargo run --release -- demo

# Accept new snapshots; read the diff before committing it.
bless *filters:
    INSTA_UPDATE=always INSTA_FORCE_PASS=1 cargo xtask test {{ filters }}

# What runs on the server, from a clean clone.
ci:
    .ci/run
