//! The recorded answers, by API. Each is the whole body of one answer.

/// One recorded answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixture {
    /// The API that gave it.
    pub(crate) api: &'static str,
    /// What it shows.
    pub(crate) name: &'static str,
    /// The body.
    pub(crate) body: &'static [u8],
}

macro_rules! fixtures {
    ($($api:literal in $folder:literal: $($name:literal)*;)*) => {
        &[$($(Fixture {
            api: $api,
            name: $name,
            body: include_bytes!(concat!("../fixtures/", $folder, "/", $name, ".sse")),
        },)*)*]
    };
}

/// All of them.
pub(crate) const FIXTURES: &[Fixture] = fixtures! {
    "anthropic" in "anthropic":
        "bad_json"
        "call_left_open"
        "context_exceeded"
        "gateway"
        "index_twice"
        "no_last_line"
        "out_of_order"
        "overloaded"
        "piece_without_block"
        "server_tools"
        "text"
        "thinking_and_calls"
        "truncated"
        "whole_input";
    "openai-chat" in "openai_chat":
        "error"
        "interleaved_calls"
        "late_name"
        "length"
        "null_fields"
        "one_index_for_all"
        "reasoning"
        "refusal"
        "text"
        "truncated"
        "whole_calls";
    "openai-responses" in "openai_responses":
        "error"
        "failed"
        "incomplete"
        "no_deltas"
        "odd_events"
        "only_completed"
        "reasoning_and_calls"
        "refusal"
        "text"
        "truncated";
};
