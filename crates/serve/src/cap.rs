//! A frame as one line that every reader can take: compact, and never over the limit at which SDKs give up.
//! Only the frame is cut; the transcript keeps everything.

use ostler_proto::Json;
use serde_json::json;

/// Below 1 MiB, which readers count in characters and we in bytes.
const LONGEST_LINE: usize = 1_048_576 - 1_024;

/// How much of each part may stay, tried from generous to strict.
struct Limits {
    text: usize,
    items: usize,
    depth: usize,
}

const STEPS: [Limits; 5] = [
    Limits { text: 256 * 1024, items: 8_192, depth: 64 },
    Limits { text: 64 * 1024, items: 2_048, depth: 64 },
    Limits { text: 8 * 1024, items: 256, depth: 32 },
    Limits { text: 1024, items: 32, depth: 16 },
    Limits { text: 128, items: 4, depth: 8 },
];

/// Frame, message, list of blocks, block: to this depth every key stays, for programs route by them.
const FRAME_DEPTH: usize = 3;

/// The frame as a line without its newline, cut where it would be too long.
pub(crate) fn line(frame: &Json) -> String {
    if let Some(line) = whole_line(frame) {
        return line;
    }
    let fitting = STEPS.iter().find_map(|limits| {
        let mut cut = cut(frame, limits, 0);
        cut["ostler_truncated"] = json!(true);
        whole_line(&cut)
    });
    fitting.unwrap_or_else(|| json!({"type": frame["type"], "ostler_truncated": true}).to_string())
}

/// The frame as a line, if it fits uncut.
pub(crate) fn whole_line(frame: &Json) -> Option<String> {
    // Line readers of some runtimes also split at these two, which JSON allows bare in strings.
    let line = frame.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    (line.len() <= LONGEST_LINE).then_some(line)
}

fn cut(value: &Json, limits: &Limits, depth: usize) -> Json {
    if depth > limits.depth {
        return json!("[left out of this frame]");
    }
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        Json::String(text) => Json::String(cut_text(text, limits.text)),
        Json::Array(items) => {
            items.iter().take(limits.items).map(|item| cut(item, limits, depth + 1)).collect()
        }
        Json::Object(fields) => match bytes_of_attachment(value) {
            Some(bytes) if bytes > limits.text => {
                json!({"type": "text", "text": format!("[attachment of {bytes} base64 characters left out of this frame]")})
            }
            _ => {
                let most = if depth <= FRAME_DEPTH { usize::MAX } else { limits.items };
                let kept = fields.iter().take(most).map(|(key, value)| {
                    // What tools return and take is data at any depth.
                    let is_data = matches!(key.as_str(), "tool_use_result" | "input" | "tool_input");
                    let depth = if is_data { depth.max(FRAME_DEPTH) } else { depth };
                    (cut_text(key, limits.text), cut(value, limits, depth + 1))
                });
                Json::Object(kept.collect())
            }
        },
    }
}

/// Half an image is no image, so an attachment goes as a whole.
fn bytes_of_attachment(block: &Json) -> Option<usize> {
    matches!(block["type"].as_str()?, "image" | "document").then_some(())?;
    Some(block["source"]["data"].as_str()?.len())
}

fn cut_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit);
    let left_out = text[end..].chars().count();
    format!("{}\n… [{left_out} characters left out of this frame; the transcript has them]", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_fits(frame: &Json) -> Json {
        let line = line(frame);
        assert!(line.len() < 1_048_576 && !line.contains('\n'));
        let read: Json = serde_json::from_str(&line).unwrap();
        assert_eq!(read["type"], frame["type"]);
        read
    }

    #[test]
    fn a_short_frame_is_untouched() {
        let frame = json!({"type": "user", "text": "a\u{2028}b"});
        assert_eq!(line(&frame), r#"{"type":"user","text":"a\u2028b"}"#);
    }

    #[test]
    fn long_strings_lists_and_trees_are_cut_to_fit() {
        let long = "ä\u{1}".repeat(200_000);
        let read = check_fits(
            &json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "c", "content": long}]}}),
        );
        assert_eq!(read["ostler_truncated"], true);
        assert_eq!(read["message"]["content"][0]["tool_use_id"], "c");
        check_fits(&json!({"type": "user", "tool_use_result": vec!["/some/file/name"; 100_000]}));
        let many: serde_json::Map<String, Json> =
            (0..100_000).map(|n| (format!("key {n}"), json!(n))).collect();
        check_fits(&json!({"type": "user", "tool_use_result": many}));
        let mut deep = json!(["x".repeat(4_000), "y".repeat(4_000), "z".repeat(4_000)]);
        for _ in 0..5 {
            deep = json!([deep.clone(), deep.clone(), deep]);
        }
        check_fits(&json!({"type": "user", "tool_use_result": deep}));
    }

    #[test]
    fn an_attachment_is_replaced_as_a_whole() {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A".repeat(2_000_000)}});
        let read = check_fits(&json!({"type": "user", "message": {"content": [image]}}));
        assert_eq!(read["message"]["content"][0]["type"], "text");
    }
}
