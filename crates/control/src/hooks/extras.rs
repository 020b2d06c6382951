//! What hooks may say at a few events only: a name for the session, words before the first prompt, files to watch, and
//! that a denied call may be tried again. Read and merged here; what is made of it is for whoever fired.

use ostler_proto::{HookEvent, Json};
use serde::{Deserialize, Serialize};

/// The most files that are watched for hooks.
const MAX_WATCHED: usize = 1_000;

/// What a hook, or all hooks of an event, said beyond a decision.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extras {
    /// What the session is called from now on.
    pub title: Option<String>,
    /// What the model reads right before the first prompt, as the user's own words.
    pub opening: Option<String>,
    /// Files to watch, in the place of those that were named before.
    pub watch: Option<Vec<String>>,
    /// Whether a denied call may be tried again.
    pub retry: bool,
}

/// As hooks write it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    session_title: Option<String>,
    initial_user_message: Option<String>,
    watch_paths: Option<Vec<String>>,
    retry: Option<bool>,
}

impl Extras {
    /// Reads what counts at this event; the same words elsewhere mean nothing.
    pub(super) fn read(event: HookEvent, specific: &Json) -> Result<Self, serde_json::Error> {
        let written = Written::deserialize(specific)?;
        let at = |events: &[HookEvent]| events.contains(&event);
        let is_start = at(&[HookEvent::SessionStart]);
        let names = at(&[HookEvent::SessionStart, HookEvent::UserPromptSubmit]);
        let watches = at(&[HookEvent::SessionStart, HookEvent::CwdChanged, HookEvent::FileChanged]);
        let is_said = |text: &String| !text.trim().is_empty();
        Ok(Self {
            title: written.session_title.filter(|title| names && is_said(title)),
            opening: written.initial_user_message.filter(|opening| is_start && is_said(opening)),
            watch: written.watch_paths.filter(|_| watches),
            retry: written.retry == Some(true) && at(&[HookEvent::PermissionDenied]),
        })
    }

    /// Adds what another hook said: the first name counts, everything else is added up.
    pub(super) fn add(&mut self, more: Self) {
        self.title = self.title.take().or(more.title);
        self.opening = match (self.opening.take(), more.opening) {
            (Some(before), Some(more)) => Some(format!("{before}\n\n{more}")),
            (before, more) => before.or(more),
        };
        if let Some(paths) = more.watch {
            let all = self.watch.get_or_insert_default();
            all.extend(paths);
            all.truncate(MAX_WATCHED);
        }
        self.retry |= more.retry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn everything() -> Json {
        json!({"sessionTitle": "T", "initialUserMessage": "M", "watchPaths": ["/a"], "retry": true})
    }

    #[test]
    fn each_word_counts_where_it_has_a_meaning() {
        let said = |event| Extras::read(event, &everything()).unwrap();
        let (title, opening) = (Some("T".to_owned()), Some("M".to_owned()));
        let watch = Some(vec!["/a".to_owned()]);
        let start = Extras { title: title.clone(), opening, watch: watch.clone(), retry: false };
        assert_eq!(said(HookEvent::SessionStart), start);
        assert_eq!(said(HookEvent::UserPromptSubmit), Extras { title, ..Extras::default() });
        for event in [HookEvent::CwdChanged, HookEvent::FileChanged] {
            assert_eq!(said(event), Extras { watch: watch.clone(), ..Extras::default() });
        }
        assert_eq!(said(HookEvent::PermissionDenied), Extras { retry: true, ..Extras::default() });
        assert_eq!(said(HookEvent::Stop), Extras::default());
        assert!(Extras::read(HookEvent::SessionStart, &json!({"watchPaths": "/a"})).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_was_said_is_lost(titles in proptest::collection::vec(proptest::option::of("[a-c]{1,2}"), 0..4), paths in proptest::collection::vec(proptest::collection::vec("/[a-z]", 0..3), 0..4)) {
            let mut all = Extras::default();
            for title in &titles {
                all.add(Extras { title: title.clone(), opening: title.clone(), ..Extras::default() });
            }
            for paths in &paths {
                all.add(Extras { watch: Some(paths.clone()), ..Extras::default() });
            }
            let said: Vec<&str> = titles.iter().flatten().map(String::as_str).collect();
            prop_assert_eq!(all.title.as_deref(), said.first().copied());
            prop_assert_eq!(all.opening.unwrap_or_default(), said.join("\n\n"));
            prop_assert_eq!(all.watch.unwrap_or_default(), paths.concat());
        }
    }
}
