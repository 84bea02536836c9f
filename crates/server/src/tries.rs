//! Counts invalid credentials, by the address they came from and by the credential.
//!
//! | the credential | its address | result |
//! |---|---|---|
//! | was valid lately | any | it is looked up |
//! | keeps failing | any | 429 without a look-up, until it has not been tried for a while |
//! | is new | has tried too often | 429 without a look-up: otherwise guesses would have no limit |
//! | is new | is within its limit | it is looked up |
//!
//! Credentials that were valid lately are remembered, because many workers may share one address: a client that guesses
//! must not lock them out. A refused try is not counted, so the count of its address decreases meanwhile.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many addresses, and how many credentials, one generation remembers. There are two generations.
const REMEMBERED: usize = 10_000;
/// How long a credential is accepted, after it was valid, from an address that has tried too often.
const KNOWN_FOR: Duration = Duration::from_secs(3_600);
/// A single credential may fail this many times less often than an address, because an address may be many machines.
const CREDENTIAL_SHARE: u32 = 3;

#[derive(Debug)]
pub(crate) struct Tries {
    per_minute: u32,
    /// Hashes credentials with a random key, so that callers cannot predict the hash.
    hasher: RandomState,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Counts of failures.
    addresses: Recent<IpAddr, Count>,
    credentials: Recent<u64, Count>,
    /// When each credential was last valid.
    valid: Recent<u64, Instant>,
}

/// The time to wait before the next try, in seconds.
pub(crate) type RetryAfter = i64;

impl Tries {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute, hasher: RandomState::new(), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows the credential to be checked.
    ///
    /// # Errors
    /// Fails if the credential or its address has failed too often recently, with the time to wait.
    pub(crate) fn admit(
        &self,
        address: Option<IpAddr>,
        credential: &str,
        now: Instant,
    ) -> Result<(), RetryAfter> {
        let hash = self.hasher.hash_one(credential);
        let seen = self.seen();
        let valid = seen.valid.get(&hash);
        if valid.is_some_and(|at| now.saturating_duration_since(*at) < KNOWN_FOR) {
            return Ok(());
        }
        let of_credential = seen.credentials.wait(&hash, self.per_minute_of_credential(), now);
        let of_address =
            address.and_then(|address| seen.addresses.wait(&network(address), self.per_minute, now));
        of_credential.max(of_address).map_or(Ok(()), Err)
    }

    /// Remembers a valid credential.
    pub(crate) fn succeeded(&self, credential: &str, now: Instant) {
        let hash = self.hasher.hash_one(credential);
        self.seen().valid.put(hash, now);
    }

    /// Counts an invalid credential. `Some` if its address has tried too often, with the time to wait.
    pub(crate) fn failed(
        &self,
        address: Option<IpAddr>,
        credential: &str,
        now: Instant,
    ) -> Option<RetryAfter> {
        let hash = self.hasher.hash_one(credential);
        let mut seen = self.seen();
        // It may have been removed or have expired since it was valid.
        seen.valid.remove(&hash);
        seen.credentials.add(hash, self.per_minute_of_credential(), now);
        let address = network(address?);
        // Tries that began at the same time may be more than the limit.
        let too_many = seen.addresses.wait(&address, self.per_minute, now);
        seen.addresses.add(address, self.per_minute, now);
        too_many
    }

    fn per_minute_of_credential(&self) -> u32 {
        (self.per_minute / CREDENTIAL_SHARE).max(1)
    }
}

/// The network of an address. One machine can use a whole /64 network of IPv6 addresses, so they count as one.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

/// Recently seen keys. If there are too many, those not seen for the longest time are forgotten.
#[derive(Debug)]
struct Recent<K, V> {
    new: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { new: HashMap::new(), old: HashMap::new() }
    }
}

/// A number of failures, which decreases over time.
#[derive(Debug, Clone, Copy)]
struct Count {
    tries: f64,
    at: Instant,
}

impl Count {
    /// The count at this time. It decreases by `per_minute` in a minute.
    fn now(self, per_minute: u32, now: Instant) -> f64 {
        let faded = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(per_minute) / 60.0;
        (self.tries - faded).max(0.0)
    }
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.new.get(key).or_else(|| self.old.get(key))
    }

    fn put(&mut self, key: K, value: V) {
        if self.new.len() >= REMEMBERED && !self.new.contains_key(&key) {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, value);
    }

    fn remove(&mut self, key: &K) {
        self.new.remove(key);
        self.old.remove(key);
    }
}

impl<K: Copy + Eq + Hash> Recent<K, Count> {
    /// The time until one more try is allowed. `None` if it is allowed now.
    fn wait(&self, key: &K, per_minute: u32, now: Instant) -> Option<RetryAfter> {
        let beyond = self.get(key)?.now(per_minute, now) + 1.0 - f64::from(per_minute);
        if beyond <= 0.0 {
            return None;
        }
        let wait = Duration::from_secs_f64(beyond * 60.0 / f64::from(per_minute));
        Some(i64::try_from(wait.as_secs()).unwrap_or(i64::MAX) + 1)
    }

    fn add(&mut self, key: K, per_minute: u32, now: Instant) {
        let tries = self.get(&key).map_or(0.0, |count| count.now(per_minute, now)) + 1.0;
        // The count is capped, so that one more try is allowed after a short time, however many tries there were.
        self.put(key, Count { tries: tries.min(f64::from(per_minute)), at: now });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    #[test]
    fn an_address_that_tries_too_often_is_refused_until_its_count_decreases() {
        let (tries, now) = (Tries::new(60), Instant::now());
        let refused = |tries: &Tries, from: usize, now| {
            (from..from + 100).filter(|n| tries.failed(HERE, &n.to_string(), now).is_some()).count()
        };
        assert_eq!(refused(&tries, 0, now), 40);
        assert_eq!(tries.failed(HERE, "x", now), Some(2));
        // Another address is counted separately.
        assert_eq!(tries.failed(Some(Ipv4Addr::new(192, 0, 2, 1).into()), "x", now), None);
        let later = now + Duration::from_secs(30);
        assert_eq!(refused(&tries, 1_000, later), 70);
        // More tries do not make the wait longer.
        assert_eq!(tries.failed(HERE, "x", now + Duration::from_secs(33)), None);
    }

    #[test]
    fn a_credential_that_keeps_failing_is_not_looked_up() {
        let (tries, now) = (Tries::new(60), Instant::now());
        for _ in 0..20 {
            assert_eq!(tries.admit(None, "bad", now), Ok(()));
            tries.failed(None, "bad", now);
        }
        assert_eq!(tries.admit(None, "bad", now), Err(4));
        assert_eq!(tries.admit(None, "good", now), Ok(()));
        assert_eq!(tries.admit(None, "bad", now + Duration::from_secs(4)), Ok(()));
    }

    #[test]
    fn an_address_that_guesses_is_refused_before_the_look_up_but_credentials_known_to_be_valid_are_not() {
        let (tries, now) = (Tries::new(60), Instant::now());
        tries.succeeded("known", now);
        for n in 0..60 {
            assert_eq!(tries.admit(HERE, &n.to_string(), now), Ok(()));
            tries.failed(HERE, &n.to_string(), now);
        }
        // One of these would be the right one.
        assert_eq!(tries.admit(HERE, "guess", now), Err(2));
        assert_eq!(tries.admit(HERE, "known", now), Ok(()));
        let elsewhere = Some(Ipv4Addr::new(192, 0, 2, 1).into());
        assert_eq!(tries.admit(elsewhere, "guess", now), Ok(()));
        // A refused try costs nothing: later, one more is allowed.
        assert_eq!(tries.admit(HERE, "guess", now + Duration::from_secs(2)), Ok(()));
        // A credential that is no longer valid loses its privilege.
        tries.failed(HERE, "known", now);
        assert_eq!(tries.admit(HERE, "known", now), Err(2));
        tries.succeeded("known", now);
        let later = now + KNOWN_FOR;
        for n in 0..60 {
            tries.failed(HERE, &n.to_string(), later);
        }
        assert_eq!(tries.admit(HERE, "known", later), Err(2));
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_count_as_one() {
        let (tries, now) = (Tries::new(3), Instant::now());
        let from = |n: u16| Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)));
        let refused = (0..10).filter(|n| tries.failed(from(*n), &n.to_string(), now).is_some()).count();
        assert_eq!(refused, 7);
    }

    #[test]
    fn the_number_of_remembered_keys_is_bounded() {
        let (tries, now) = (Tries::new(60), Instant::now());
        let many = u32::try_from(REMEMBERED).unwrap() * 3;
        for n in 0..many {
            tries.failed(Some(Ipv4Addr::from_bits(n).into()), &n.to_string(), now);
            tries.succeeded(&format!("good {n}"), now);
        }
        let seen = tries.seen();
        for (new, old) in [
            (seen.addresses.new.len(), seen.addresses.old.len()),
            (seen.credentials.new.len(), seen.credentials.old.len()),
            (seen.valid.new.len(), seen.valid.old.len()),
        ] {
            assert!(new <= REMEMBERED && old <= REMEMBERED, "{new} {old}");
        }
    }
}
