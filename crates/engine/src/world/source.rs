//! Time, ids and chance of a session. All of them come from here, so that a recording of the moments and one
//! number, the seed, is enough to have them again.

use jiff::Timestamp;
use ostler_proto::EntryId;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;
use uuid::{Builder, Uuid};

/// When something reached the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// The time of day in milliseconds since 1970; it may jump.
    #[serde(rename = "w")]
    pub(crate) wall_ms: u64,
    /// Milliseconds since the process began with the session; it never goes back.
    #[serde(rename = "m")]
    pub(crate) ran_ms: u64,
}

/// Where a session takes its time, its ids and its chance from. Time stands still between two looks at the
/// clock: what one thing leads to happens in one moment.
#[derive(Debug)]
pub(crate) struct Source {
    seed: u64,
    rng: fastrand::Rng,
    now: Moment,
    /// When the process began; none when moments are told instead.
    began: Option<Instant>,
}

impl Source {
    /// The clock of this machine, and real chance.
    pub(crate) fn live() -> Self {
        let (one, other) = Uuid::new_v4().as_u64_pair();
        let seed = one ^ other.rotate_left(32);
        let mut source = Self { began: Some(Instant::now()), ..Self::told(seed) };
        source.look();
        source
    }

    /// The same ids and chance as those of an earlier source, at moments that somebody tells.
    pub(crate) fn told(seed: u64) -> Self {
        Self { seed, rng: fastrand::Rng::with_seed(seed), now: Moment::default(), began: None }
    }

    /// What ids and chance follow from.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Looks at the clock, if there is one to look at.
    pub(crate) fn look(&mut self) -> Moment {
        if let Some(began) = self.began {
            self.now = Moment { wall_ms: wall_ms(), ran_ms: millis(began.elapsed()) };
        }
        self.now
    }

    /// It is this moment now.
    pub(crate) fn set(&mut self, moment: Moment) {
        self.now = moment;
    }

    /// The moment of the last look.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// How long ago an earlier moment was.
    pub(crate) fn since(&self, earlier: Moment) -> Duration {
        Duration::from_millis(self.now.ran_ms.saturating_sub(earlier.ran_ms))
    }

    /// Now, as transcripts write it.
    pub(crate) fn timestamp(&self) -> String {
        let millis = i64::try_from(self.now.wall_ms).unwrap_or(i64::MAX);
        format!("{:.3}", Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))
    }

    /// An id nobody else has.
    pub(crate) fn id(&mut self) -> EntryId {
        EntryId(self.uuid())
    }

    /// The text of such an id.
    pub(crate) fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.rng.fill(&mut bytes);
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// A number in 0..1.
    pub(crate) fn chance(&mut self) -> f64 {
        self.rng.f64()
    }
}

fn wall_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_and_the_moments_are_all_there_is_to_it() {
        let mut live = Source::live();
        let mut again = Source::told(live.seed());
        again.set(live.look());
        for _ in 0..100 {
            assert_eq!((live.id(), live.timestamp()), (again.id(), again.timestamp()));
            assert!(live.chance().to_bits() == again.chance().to_bits());
        }
        assert!(Source::live().id() != live.id());
        assert_eq!(uuid::Uuid::parse_str(&live.uuid()).unwrap().get_version_num(), 4);
    }

    #[test]
    fn time_stands_still_between_looks_and_never_runs_back() {
        let mut source = Source::told(1);
        source.set(Moment { wall_ms: 1_794_816_000_123, ran_ms: 50 });
        assert_eq!(source.timestamp(), "2026-11-16T08:00:00.123Z");
        let before = source.now();
        source.set(Moment { wall_ms: 0, ran_ms: 75 });
        assert_eq!(source.since(before), Duration::from_millis(25));
        assert_eq!(source.since(Moment { wall_ms: 0, ran_ms: 100 }), Duration::ZERO);
        assert_eq!(source.look(), source.now(), "no clock to look at");
    }
}
