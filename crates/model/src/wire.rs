//! What the pure halves of the wires share: frames in, tolerant parsing, names of stops.
//! Nothing here touches a socket or a clock.

use crate::ModelError;
use ostler_proto::{Json, ModelEvent, StopReason};
use serde::{Deserialize, Deserializer, Serialize, de::value::StrDeserializer};

/// One step of an API's answer, before it is understood.
#[derive(Debug, Clone, Copy)]
pub enum Frame<'a> {
    /// A server-sent event.
    Event {
        /// Its name; empty when it has none.
        name: &'a str,
        /// Its text, usually JSON.
        data: &'a str,
    },
    /// Nothing more comes. Gives an error if the answer is not whole.
    End,
}

/// Turns frames of one answer into events, in order. Nothing may follow `Done`.
pub type Decode = Box<dyn FnMut(Frame<'_>, &mut Vec<ModelEvent>) -> Result<(), ModelError> + Send>;

/// Reads the JSON of one event. The nesting is limited by the parser, so hostile depth is an error.
pub(crate) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data).map_err(|error| {
        if error.is_eof() {
            return ModelError::broke_off();
        }
        ModelError::broken(format!("the answer holds an event that is no sound JSON: {error}"))
    })
}

/// Writes the body of a request.
#[expect(clippy::expect_used, reason = "bodies hold nothing that cannot be JSON, and memory does not fail")]
pub(crate) fn to_bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("strings, numbers and JSON values always serialise")
}

/// A token count as servers write it: an integer, a float, `null` or nonsense.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Json::deserialize(deserializer)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
    let rounded = value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
    Ok(value.as_u64().or(rounded))
}

/// The stop reason of that name in the Messages API.
pub(crate) fn stop_reason(name: &str) -> StopReason {
    let deserializer: StrDeserializer<'_, serde::de::value::Error> = StrDeserializer::new(name);
    StopReason::deserialize(deserializer).unwrap_or_else(|_| StopReason::Other(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Counts {
        #[serde(deserialize_with = "count")]
        tokens: Option<u64>,
    }

    #[track_caller]
    fn check_count(json: &str, expected: Option<u64>) {
        assert_eq!(parse::<Counts>(json).unwrap().tokens, expected);
    }

    #[test]
    fn counts_are_read_whatever_their_form() {
        check_count(r#"{"tokens": 12}"#, Some(12));
        check_count(r#"{"tokens": 12.0}"#, Some(12));
        check_count(r#"{"tokens": -1}"#, None);
        check_count(r#"{"tokens": null}"#, None);
        check_count(r#"{"tokens": "many"}"#, None);
        check_count("{}", None);
    }

    #[test]
    fn stop_reasons_have_names() {
        assert_eq!(stop_reason("end_turn"), StopReason::EndTurn);
        assert_eq!(stop_reason("model_context_window_exceeded"), StopReason::ContextExceeded);
        assert_eq!(stop_reason("tired"), StopReason::Other("tired".to_owned()));
    }

    #[test]
    fn hostile_depth_is_an_error() {
        let deep = "[".repeat(200_000);
        assert!(parse::<Json>(&deep).is_err());
        assert!(parse::<Counts>(&format!("{{\"tokens\": {deep}}}")).is_err());
        assert!(parse::<Counts>(&format!("{{\"other\": {deep}}}")).is_err());
    }
}
