//! The delay between attempts neither overflows nor leaves its bounds, whatever the policy and the attempt.

use flovyn_engine::backoff_ms;
use flovyn_engine::state::RetryPolicy;

const TEN_YEARS_MS: i64 = 3_653 * 24 * 60 * 60 * 1_000;

fn attempts() -> impl Iterator<Item = i64> {
    let small = 0..=2_000;
    let powers = (11..63).flat_map(|bit| [(1_i64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
    let edges = [i64::MIN, -1, i64::from(i32::MAX), i64::from(u32::MAX) - 1, i64::from(u32::MAX), i64::MAX];
    small.chain(powers).chain(edges)
}

#[test]
fn the_delay_stays_within_one_millisecond_and_its_cap_for_every_attempt_and_policy() {
    let moments = [1, 2, 1_000, 60_000, TEN_YEARS_MS, 1 << 53, i64::MAX];
    let factors = [1.0, 1.0 + f64::EPSILON, 1.5, 2.0, 100.0, f64::MAX];
    for initial_ms in moments {
        for cap_ms in moments {
            for factor in factors {
                let policy = RetryPolicy { initial_ms, factor, cap_ms };
                for attempt in attempts() {
                    for fraction in [0.0, 0.5, 1.0 - f64::EPSILON] {
                        let delay_ms = backoff_ms(policy, attempt, fraction);
                        assert!(
                            (1..=cap_ms).contains(&delay_ms),
                            "{delay_ms} ms for {policy:?} at attempt {attempt}, fraction {fraction}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_delay_grows_by_the_factor_until_the_cap() {
    let policy = RetryPolicy::default();
    // In the middle of the spread, the delay has its exact value.
    let delays: Vec<i64> = (1..=9).map(|attempt| backoff_ms(policy, attempt, 0.5)).collect();
    assert_eq!(delays, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
}

#[test]
fn the_delay_is_spread_over_a_fifth_either_way() {
    let policy = RetryPolicy { initial_ms: 10_000, factor: 2.0, cap_ms: 60_000 };
    assert_eq!(backoff_ms(policy, 1, 0.0), 8_000);
    assert_eq!(backoff_ms(policy, 1, 0.999_999), 11_999);
}
