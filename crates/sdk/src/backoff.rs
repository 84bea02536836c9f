//! Pauses before something is tried again, and which warnings are worth a line in the log.
//!
//! Pure: the caller brings the randomness and does the waiting.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses between attempts: random, from 100 ms up to a bound that doubles with each attempt and ends at 5 s. So workers of a
/// server that was restarted do not come back in step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// How long to wait before the next attempt. `random` is from 0.0 to 1.0.
    pub(crate) fn pause(&mut self, random: f64) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        let bound = SHORTEST.saturating_mul(2_u32.saturating_pow(self.attempts)).min(LONGEST);
        SHORTEST + (bound - SHORTEST).mul_f64(random.clamp(0.0, 1.0))
    }

    /// An attempt succeeded.
    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// A connection that held at least this long counts as a success, even if nothing came through it.
    pub(crate) fn is_steady(held: Duration) -> bool {
        held >= LONGEST
    }
}

/// A number from 0.0 to 1.0 for [`Backoff::pause`].
pub(crate) fn random() -> f64 {
    let (drawn, _) = uuid::Uuid::new_v4().as_u64_pair();
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

/// Remembers the last warning, so that equal ones in a row are logged once.
#[derive(Debug, Default)]
pub(crate) struct Warned {
    last: Option<String>,
}

impl Warned {
    /// Whether this warning differs from the one before.
    pub(crate) fn is_new(&mut self, warning: &str) -> bool {
        let is_new = self.last.as_deref() != Some(warning);
        if is_new {
            self.last = Some(warning.to_owned());
        }
        is_new
    }

    /// The trouble is over: the next warning is new. Returns whether there was any.
    pub(crate) fn clear(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_seconds_and_stay_in_their_bounds() {
        // Attempt, shortest and longest pause in milliseconds.
        let table =
            [(1, 100, 200), (2, 100, 400), (3, 100, 800), (4, 100, 1_600), (5, 100, 3_200), (6, 100, 5_000)];
        for (random, column) in [(0.0, 1), (1.0, 2)] {
            let mut backoff = Backoff::default();
            for (attempt, shortest, longest) in table {
                let expected = if column == 1 { shortest } else { longest };
                assert_eq!(backoff.pause(random), Duration::from_millis(expected), "attempt {attempt}");
            }
            backoff.reset();
            assert!(backoff.pause(random) <= Duration::from_millis(200));
        }
    }

    #[test]
    fn no_number_of_attempts_and_no_randomness_leaves_the_bounds() {
        for attempts in [0, 30, 31, 32, 63, u32::MAX - 1, u32::MAX] {
            for random in [-1.0, 0.0, 0.5, 1.0, 2.0] {
                let pause = Backoff { attempts }.pause(random);
                assert!((SHORTEST..=LONGEST).contains(&pause), "{attempts} {random}: {pause:?}");
            }
        }
        assert!((0..1_000).all(|_| (0.0..=1.0).contains(&random())));
        assert!((0..100).map(|_| random().to_bits()).collect::<std::collections::HashSet<_>>().len() > 50);
    }

    #[test]
    fn equal_warnings_in_a_row_are_one() {
        let mut warned = Warned::default();
        let news = ["a", "a", "b", "b", "a"].map(|warning| warned.is_new(warning));
        assert_eq!(news, [true, false, true, false, true]);
        assert!(warned.clear() && !warned.clear());
        assert!(warned.is_new("a"), "it is new after the trouble was over");
    }
}
