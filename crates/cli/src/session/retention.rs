//! Old sessions go after a while. Only sessions of ours, never one that is open, and nothing else that
//! lies in the same folders.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a note of when this was last done")]

use super::with_index;
use crate::{complain, machine::Machine, say, wire};
use ostler_engine::rewind::count;
use ostler_engine::session::{
    SessionFile,
    upkeep::{self, Expiry},
};
use std::{
    fs,
    time::{Duration, SystemTime},
};

/// How long sessions are kept unless settings say otherwise.
const DEFAULT_DAYS: u32 = 30;
/// How often it is looked for old ones by itself.
const EVERY: Duration = Duration::from_hours(24);

/// What became of old sessions.
#[derive(Debug, Default)]
struct Expired {
    /// Those that are gone.
    removed: Vec<SessionFile>,
    /// Why others stayed.
    stayed: Vec<String>,
}

/// Reads an age, such as `30d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number and d, h or m, e.g. 30d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let seconds = match unit {
        'd' => 24 * 60 * 60,
        'h' => 60 * 60,
        'm' => 60,
        _ => return Err(wrong()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// `ostler session prune`.
pub(super) fn prune(
    older_than: Option<Duration>,
    dry_run: bool,
    days: Option<u32>,
    machine: &Machine,
) -> anyhow::Result<u8> {
    let Some(age) = older_than.or_else(|| kept_for(days)) else {
        complain("ostler: cleanupPeriodDays is 0: nothing is removed by age; --older-than says otherwise\n");
        return Ok(0);
    };
    if dry_run {
        let old = upkeep::expired(&wire::store(machine), &machine.config_dir(), moment(age));
        let lines = old.iter().map(|file| format!("{}  {}\n", file.id, file.path.display()));
        say(&lines.collect::<String>());
        say(&format!("{} would be removed\n", count(old.len(), "session")));
        return Ok(0);
    }
    let expired = expire(age, machine)?;
    expired.stayed.iter().for_each(|why| complain(&format!("ostler: {why}\n")));
    say(&format!("removed {}\n", count(expired.removed.len(), "session")));
    Ok(0)
}

/// Removes sessions that were not written to for this long.
fn expire(age: Duration, machine: &Machine) -> anyhow::Result<Expired> {
    let mut expired = Expired::default();
    let before = moment(age);
    let old = upkeep::expired(&wire::store(machine), &machine.config_dir(), before);
    if old.is_empty() {
        return Ok(expired);
    }
    with_index(machine, |index| {
        for file in old {
            match upkeep::expire(&file.path, before) {
                Ok(Expiry::Removed) => {
                    index.forget(&file.path)?;
                    expired.removed.push(file);
                }
                Ok(Expiry::UsedSince) => {}
                Err(error) => expired.stayed.push(super::why_not("removed", &file, error)),
            }
        }
        Ok(expired)
    })
}

/// Looks for old sessions once a day. Whatever hinders it hinders nobody's work.
pub(crate) fn now_and_then(days: Option<u32>, machine: &Machine) {
    let Some(age) = kept_for(days) else { return };
    let note = machine.config_dir().join("last-prune");
    let last = note.metadata().and_then(|metadata| metadata.modified());
    let is_due = last.map_or(true, |last| last.elapsed().is_ok_and(|since| since >= EVERY));
    if !is_due {
        return;
    }
    let noted = fs::OpenOptions::new().create(true).truncate(true).write(true).open(&note);
    if let Err(error) = noted.and_then(|file| file.set_modified(SystemTime::now())) {
        return tracing::debug!(%error, "when old sessions were last looked for cannot be noted");
    }
    match expire(age, machine) {
        Ok(expired) => tracing::info!(removed = expired.removed.len(), "old sessions were removed"),
        Err(error) => tracing::warn!(%error, "old sessions could not be removed"),
    }
}

fn kept_for(days: Option<u32>) -> Option<Duration> {
    match days.unwrap_or(DEFAULT_DAYS) {
        0 => None,
        days => Some(Duration::from_hours(u64::from(days) * 24)),
    }
}

/// So long ago, in nanoseconds since 1970.
fn moment(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(age).as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(age("30d"), Ok(Duration::from_hours(720)));
        assert_eq!(age("0m"), Ok(Duration::ZERO));
        for wrong in ["", "30", "d", "-1d", "3w", "1é", "99999999999999999999d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
