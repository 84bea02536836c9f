//! Ids, and time as an argument: the engine reads no clock and draws no random number.

use uuid::Uuid;

pub type TenantId = Uuid;
pub type ExecutionId = Uuid;
pub type TaskId = Uuid;
pub type PromiseId = Uuid;
pub type WorkerId = Uuid;

/// Reads an id in its canonical form: lowercase, with hyphens. `None`: any other spelling, so that different texts are
/// never the same id.
pub fn canonical_id(text: &str) -> Option<Uuid> {
    const LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;
    let is_canonical = text.len() == LENGTH && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    Uuid::try_parse(text).ok().filter(|_| is_canonical)
}

/// A short text that is cloned often (kinds, queues, keys).
pub type Text = std::sync::Arc<str>;

/// A JSON document as the caller sent it. The engine only checks that it is JSON.
pub type Payload = bytes::Bytes;

/// The two times that a decision needs, both in milliseconds since the Unix epoch.
///
/// They are equal unless the server runs on a virtual clock. Then `ms` may jump by days, while leases, which guard
/// against dead workers, stay on real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    pub ms: i64,
    pub lease_ms: i64,
}

impl Now {
    pub fn same(ms: i64) -> Self {
        Self { ms, lease_ms: ms }
    }
}

/// Ids and jitter for one request, drawn from the request's seed. If the request is decided again, it gets equal ids.
#[derive(Debug, Clone)]
pub struct Ids {
    seed: u64,
    drawn: u64,
}

impl Ids {
    pub fn new(seed: u64) -> Self {
        // The seed is mixed first, because seeds that differ by the step of the sequence would give overlapping
        // sequences.
        Self { seed: mix(seed ^ 0xA076_1D64_78BD_642F), drawn: 0 }
    }

    /// A version 7 UUID: it begins with the time, so that rows created together are close together in the tables.
    pub fn uuid(&mut self, now_ms: i64) -> Uuid {
        let time = u128::from(now_ms.max(0).unsigned_abs() & 0xFFFF_FFFF_FFFF) << 80;
        let high = u128::from(self.draw() & 0xFFF) << 64;
        let low = u128::from(self.draw() & 0x3FFF_FFFF_FFFF_FFFF);
        Uuid::from_u128(time | 0x7 << 76 | high | 0x8 << 60 | low)
    }

    /// A number in `0.0..1.0`, for jitter.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// SplitMix64: each (seed, n) gives a number that looks independent.
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed.wrapping_add(self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }
}

pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// An id derived from tenant and name, so that a worker that registers again under its name finds its own row. A
/// version 8 (custom) UUID.
pub fn named_id(tenant: TenantId, name: &str) -> Uuid {
    let (mut a, mut b) = tenant.as_u64_pair();
    for byte in name.bytes() {
        a = mix(a ^ u64::from(byte)).wrapping_add(b);
        b = mix(b.rotate_left(7) ^ a);
    }
    uuid::Builder::from_custom_bytes((u128::from(a) << 64 | u128::from(b)).to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let text = "0195c1a0-00aa-7000-8000-0000000000ff";
        assert_eq!(canonical_id(text).map(|id| id.to_string()).as_deref(), Some(text));
        let simple = text.replace('-', "");
        for other in [
            text.to_uppercase(),
            simple,
            format!("{{{text}}}"),
            format!("urn:uuid:{text}"),
            String::new(),
            "x".repeat(36),
        ] {
            assert_eq!(canonical_id(&other), None, "{other}");
        }
    }

    #[test]
    fn ids_are_version_7_in_time_order_and_repeatable() {
        let mut ids = Ids::new(7);
        let (early, late) = (ids.uuid(1_700_000_000_000), ids.uuid(1_700_000_000_001));
        assert_eq!(early.get_version_num(), 7);
        assert_eq!(early.get_variant(), uuid::Variant::RFC4122);
        assert!(early < late);
        assert_eq!(Ids::new(7).uuid(1_700_000_000_000), early);
        assert_ne!(Ids::new(8).uuid(1_700_000_000_000), early);
    }

    #[test]
    fn seeds_that_lie_a_step_apart_share_no_id() {
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let mut seen = std::collections::BTreeSet::new();
        for request in 0..50_u64 {
            let mut ids = Ids::new(step.wrapping_mul(request));
            for _ in 0..50 {
                assert!(seen.insert(ids.uuid(0)), "request {request} repeats an id");
            }
        }
    }

    #[test]
    fn named_ids_differ_by_tenant_and_name() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!(named_id(one, "a"), named_id(one, "a"));
        assert_ne!(named_id(one, "a"), named_id(one, "b"));
        assert_ne!(named_id(one, "a"), named_id(two, "a"));
    }
}
