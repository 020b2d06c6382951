//! How long to wait before asking again. Pure: chance comes in as a number.

use std::time::Duration;

/// The longest wait, whatever a server asks for.
const LONGEST: Duration = Duration::from_mins(2);
/// The longest wait of our own choosing.
const LONGEST_OWN: Duration = Duration::from_secs(32);

/// The wait before retry `attempt` (from 1): what the server asked for, else doubling from `base`
/// with up to a quarter of jitter. `chance` lies in 0..1.
pub(crate) fn delay(attempt: u32, base: Duration, asked: Option<Duration>, chance: f64) -> Duration {
    if let Some(asked) = asked {
        return asked.min(LONGEST);
    }
    let doubled = base.saturating_mul(2u32.saturating_pow(attempt.saturating_sub(1).min(16)));
    doubled.min(LONGEST_OWN).mul_f64(1.0 + chance.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_are_bounded_and_honour_the_server(attempt in 0u32..1000, asked in prop::option::of(0u64..10_000_000), chance in 0.0f64..1.0) {
            let wait = delay(attempt, Duration::from_millis(500), asked.map(Duration::from_secs), chance);
            match asked {
                Some(seconds) => prop_assert_eq!(wait, Duration::from_secs(seconds).min(LONGEST)),
                None => prop_assert!(wait >= Duration::from_millis(500) && wait <= LONGEST_OWN.mul_f64(1.25)),
            }
        }
    }
}
