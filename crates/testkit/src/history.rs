//! The strict reader: would this API take the conversation in a request?
//! Checks what the APIs check, on the JSON as it was sent, so that nothing is mended by reading it.

use crate::conversation::{Protocol, items, role, text_of};
use ostler_proto::Json;
use std::collections::BTreeSet;

type Checked = Result<(), String>;

/// Panics unless the API a request body is written for would take its conversation.
#[track_caller]
pub fn assert_valid_history(body: &Json) {
    if let Err(problem) = check_history(Protocol::of_body(body), body) {
        panic!("{problem}");
    }
}

/// Says what the API would refuse in a request's conversation.
pub fn check_history(protocol: Protocol, body: &Json) -> Checked {
    match protocol {
        Protocol::Anthropic => check_anthropic(body),
        Protocol::Chat => check_chat(items(&body["messages"])),
        Protocol::Responses => check_responses(&body["input"]),
    }
}

fn check_anthropic(body: &Json) -> Checked {
    let marks = count_cache_marks(body);
    ensure(marks <= 4, || format!("{marks} blocks carry cache_control; 4 may"))?;
    let messages = items(&body["messages"]);
    ensure(!messages.is_empty(), || "there are no messages".to_owned())?;
    let mut known = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let expected = if index % 2 == 0 { "user" } else { "assistant" };
        ensure(role(message) == expected, || {
            format!("{at} is of role {:?}; roles alternate, so {expected:?} is due", role(message))
        })?;
        check_content(&at, &message["content"])?;
        if expected == "user" {
            check_results(&at, &message["content"], &open)?;
            open.clear();
            continue;
        }
        for block in items(&message["content"]) {
            match text_of(block, "type") {
                "tool_use" => open.push(check_use(&at, block, &mut known)?),
                "tool_result" => return Err(format!("{at}: the assistant has a tool_result")),
                "thinking" => ensure(!text_of(block, "signature").is_empty(), || {
                    format!("{at}: a thinking block has no signature")
                })?,
                _ => {}
            }
        }
    }
    ensure(open.is_empty(), || format!("tool_use {open:?} have no tool_result: the conversation ends"))
}

fn check_content(at: &str, content: &Json) -> Checked {
    match content {
        Json::String(text) => ensure(!text.trim().is_empty(), || format!("{at} says nothing")),
        Json::Array(blocks) => {
            ensure(!blocks.is_empty(), || format!("{at} has no content"))?;
            for (index, block) in blocks.iter().enumerate() {
                check_block(&format!("{at}.content[{index}]"), block)?;
            }
            Ok(())
        }
        _ => Err(format!("{at} has no content")),
    }
}

fn check_block(at: &str, block: &Json) -> Checked {
    match text_of(block, "type") {
        "" => Err(format!("{at} has no type")),
        "text" => ensure(!text_of(block, "text").trim().is_empty(), || format!("{at} is an empty text")),
        "tool_result" => {
            for (index, inner) in items(&block["content"]).iter().enumerate() {
                check_block(&format!("{at}.content[{index}]"), inner)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_use<'a>(at: &str, block: &'a Json, known: &mut BTreeSet<&'a str>) -> Result<&'a str, String> {
    let id = text_of(block, "id");
    ensure(!id.is_empty(), || format!("{at}: a tool_use has no id"))?;
    ensure(known.insert(id), || format!("{at}: tool_use {id:?} is there twice"))?;
    ensure(block["input"].is_object(), || format!("{at}: the input of tool_use {id:?} is not an object"))?;
    Ok(id)
}

fn check_results(at: &str, content: &Json, open: &[&str]) -> Checked {
    let mut answered = BTreeSet::new();
    let mut results_are_over = false;
    for block in items(content) {
        match text_of(block, "type") {
            "tool_use" => return Err(format!("{at}: the user has a tool_use")),
            "tool_result" => {
                let id = text_of(block, "tool_use_id");
                ensure(open.contains(&id), || {
                    format!("{at}: tool_result {id:?} is an orphan: the message before has no such tool_use")
                })?;
                ensure(answered.insert(id), || format!("{at}: tool_use {id:?} has two results"))?;
                ensure(!results_are_over, || format!("{at}: tool_result {id:?} comes after other content"))?;
            }
            _ => results_are_over = true,
        }
    }
    match open.iter().find(|id| !answered.contains(**id)) {
        Some(id) => Err(format!("{at}: tool_use {id:?} has no tool_result")),
        None => Ok(()),
    }
}

fn check_chat(messages: &[Json]) -> Checked {
    ensure(!messages.is_empty(), || "there are no messages".to_owned())?;
    let mut known = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = role(message);
        if role == "tool" {
            close_call(&at, text_of(message, "tool_call_id"), &mut open)?;
            continue;
        }
        ensure(open.is_empty(), || format!("{at}: tool_calls {open:?} have no tool message before it"))?;
        let calls = items(&message["tool_calls"]);
        match role {
            "system" | "developer" | "user" => {
                ensure(says_something(&message["content"]), || format!("{at} says nothing"))?;
            }
            "assistant" => ensure(!calls.is_empty() || says_something(&message["content"]), || {
                format!("{at} has neither content nor tool_calls")
            })?,
            _ => return Err(format!("{at} is of role {role:?}")),
        }
        for call in calls {
            let id = text_of(call, "id");
            check_call(&at, id, text_of(&call["function"], "arguments"), &mut known)?;
            open.push(id);
        }
    }
    ensure(open.is_empty(), || format!("tool_calls {open:?} have no tool message: the conversation ends"))
}

fn check_responses(input: &Json) -> Checked {
    if let Json::String(text) = input {
        return ensure(!text.trim().is_empty(), || "the input says nothing".to_owned());
    }
    let input = items(input);
    ensure(!input.is_empty(), || "there is no input".to_owned())?;
    let mut known = BTreeSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, item) in input.iter().enumerate() {
        let at = format!("input[{index}]");
        let call_id = text_of(item, "call_id");
        match item["type"].as_str().unwrap_or("message") {
            "function_call" => {
                check_call(&at, call_id, text_of(item, "arguments"), &mut known)?;
                open.push(call_id);
            }
            "function_call_output" => {
                let output = &item["output"];
                ensure(output.is_string() || output.is_array(), || format!("{at} has no output"))?;
                close_call(&at, call_id, &mut open)?;
            }
            "message" => {
                let answered = role(item) == "assistant" || open.is_empty();
                ensure(answered, || format!("{at}: function_calls {open:?} have no output before it"))?;
                ensure(says_something(&item["content"]), || format!("{at} says nothing"))?;
            }
            "reasoning" => {
                let next = input.get(index + 1);
                let follows = next.is_some_and(|next| {
                    role(next) == "assistant"
                        || matches!(text_of(next, "type"), "function_call" | "reasoning")
                });
                ensure(follows, || format!("{at}: nothing of the model's follows the reasoning"))?;
            }
            _ => {}
        }
    }
    ensure(open.is_empty(), || format!("function_calls {open:?} have no output: the input ends"))
}

fn check_call<'a>(at: &str, id: &'a str, arguments: &str, known: &mut BTreeSet<&'a str>) -> Checked {
    ensure(!id.is_empty(), || format!("{at}: a call has no id"))?;
    ensure(known.insert(id), || format!("{at}: call {id:?} is there twice"))?;
    let arguments = serde_json::from_str::<Json>(arguments);
    ensure(arguments.is_ok_and(|arguments| arguments.is_object()), || {
        format!("{at}: the arguments of call {id:?} are not the text of an object")
    })
}

fn close_call(at: &str, id: &str, open: &mut Vec<&str>) -> Checked {
    let place = open.iter().position(|open| *open == id);
    let place =
        place.ok_or_else(|| format!("{at}: the result of {id:?} is an orphan: no such call is open"))?;
    open.remove(place);
    Ok(())
}

fn says_something(content: &Json) -> bool {
    match content {
        Json::String(text) => !text.trim().is_empty(),
        parts => {
            let empty = |part: &Json| part["text"].as_str().is_some_and(|text| text.trim().is_empty());
            !items(parts).is_empty() && !items(parts).iter().any(empty)
        }
    }
}

fn count_cache_marks(value: &Json) -> usize {
    match value {
        Json::Array(items) => items.iter().map(count_cache_marks).sum(),
        Json::Object(fields) => {
            usize::from(fields.contains_key("cache_control"))
                + fields.values().map(count_cache_marks).sum::<usize>()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 0,
    }
}

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(problem()) }
}

#[cfg(test)]
mod tests;
