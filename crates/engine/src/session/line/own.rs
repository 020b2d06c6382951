//! The lines of ours that come with every answer and every call, read in one go: the general way reads an event
//! twice, once to see which it is. Whatever is not of the plainest shape is left to that.

use ostler_proto::{
    Access, CallId, Decision, Entry, EntryId, Fingerprint, Intent, Preview, Reason, SessionEvent, StopReason,
    Usage,
};
use serde::Deserialize;
use std::borrow::Cow;

/// How such lines begin.
const BEGINNING: &str = r#"{"type":"ostler","v":1,"data":{"event":""#;

#[derive(Deserialize)]
struct Line<D> {
    data: D,
    uuid: EntryId,
    timestamp: String,
}

#[derive(Deserialize)]
struct Sampled {
    message: String,
    model: String,
    stop: Option<StopReason>,
    usage: Usage,
    cost_usd: f64,
    duration_ms: u64,
    request: Option<Fingerprint>,
}

#[derive(Deserialize)]
struct Decided<'a> {
    call: CallId,
    intent: Purpose,
    #[serde(borrow)]
    decision: Allowed<'a>,
}

/// An intent without what an approval prompt showed, which may be long and is no part of the fold.
#[derive(Deserialize)]
struct Purpose {
    title: String,
    access: Access,
}

/// Most decisions.
#[derive(Deserialize)]
struct Allowed<'a> {
    #[serde(borrow)]
    behavior: Cow<'a, str>,
    because: Reason,
}

/// The event of a line, if it is one of these.
pub(super) fn quick(line: &str) -> Option<Entry> {
    let event = line.strip_prefix(BEGINNING)?;
    // What cannot be read this way is read the other way, which says what is wrong.
    if event.starts_with("sampled\"") {
        let Line { data, uuid, timestamp } = serde_json::from_str::<Line<Sampled>>(line).ok()?;
        let Sampled { message, model, stop, usage, cost_usd, duration_ms, request } = data;
        let event = SessionEvent::Sampled { message, model, stop, usage, cost_usd, duration_ms, request };
        return Some(Entry { id: uuid, parent: None, timestamp, event });
    }
    if event.starts_with("decided\"") {
        let Line { data, uuid, timestamp } = serde_json::from_str::<Line<Decided<'_>>>(line).ok()?;
        let Decided { call, intent: Purpose { title, access }, decision: Allowed { behavior, because } } =
            data;
        if behavior != "allow" {
            return None;
        }
        let intent = Intent { title, access, preview: Preview::None };
        let event = SessionEvent::Decided { call, intent, decision: Decision::Allow { because } };
        return Some(Entry { id: uuid, parent: None, timestamp, event });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Keep, Stamp, understand, write},
        *,
    };
    use ostler_proto::{PathFact, SessionId};

    fn line(event: SessionEvent) -> (Entry, String) {
        let entry = Entry { id: "e1".into(), parent: None, timestamp: "2026-01-01T00:00:00Z".into(), event };
        let line = write(&entry, &SessionId::from("s"), &Stamp::default());
        (entry, line)
    }

    #[track_caller]
    fn check(event: SessionEvent) {
        let (entry, line) = line(event);
        assert_eq!(quick(&line).as_ref(), Some(&entry), "{line}");
        for keep in [Keep::Everything, Keep::Conversation] {
            assert_eq!(understand(&line, keep).unwrap().entries, std::slice::from_ref(&entry), "{line}");
        }
    }

    fn decided(preview: Preview, decision: Decision) -> SessionEvent {
        let fact = PathFact {
            requested: "/p/a".into(),
            hops: vec!["/p/l".into()],
            target: "/q/a".into(),
            exists: true,
        };
        let intent =
            Intent { title: "Read a".to_owned(), access: Access::Read { paths: vec![fact] }, preview };
        SessionEvent::Decided { call: "c1".into(), intent, decision }
    }

    #[test]
    fn what_comes_often_is_read_as_the_general_way_reads_it() {
        let usage = Usage { input: 1, output: 2, cache_read: 3, ..Usage::default() };
        let sampled = |stop, request| SessionEvent::Sampled {
            message: "m".to_owned(),
            model: "x".to_owned(),
            stop,
            usage,
            cost_usd: 0.25,
            duration_ms: 7,
            request,
        };
        let request = serde_json::json!({"model": "x", "manner": "a", "tools": "b", "system": "c",
            "conversation": "d", "blocks": 3, "bytes": 9, "tokens": 5});
        check(sampled(Some(StopReason::EndTurn), serde_json::from_value(request).unwrap()));
        check(sampled(None, None));
        check(decided(Preview::None, Decision::Allow { because: Reason::User }));
    }

    #[test]
    fn what_is_not_plain_goes_the_general_way() {
        let deny = Decision::Deny { because: Reason::User, tell_model: "no".to_owned() };
        let (entry, denied) = line(decided(Preview::None, deny));
        assert_eq!(quick(&denied), None);
        assert_eq!(understand(&denied, Keep::Conversation).unwrap().entries, [entry]);
        let (_, allowed) = line(decided(Preview::None, Decision::Allow { because: Reason::User }));
        let torn = &allowed[..allowed.len() - 30];
        assert!(quick(torn).is_none() && understand(torn, Keep::Conversation).is_err());
    }
}
